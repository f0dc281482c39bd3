//! Files of one column, written in many ways and taken apart into pages.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use pagefeed_core::codec::Codec;
use pagefeed_core::decode::PageRun;
use pagefeed_core::footer::Footer;
use pagefeed_core::header::PageHeader;
use pagefeed_core::levels::count_levels;
use pagefeed_core::page::PageOpener;
use pagefeed_core::schema::{ColumnSchema, Leaf};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

/// A file of one column, as bytes.
pub fn write(array: &ArrayRef, properties: WriterProperties) -> Bytes {
    let nullable = array.null_count() > 0 || array.data_type().is_nested();
    let field = Field::new("column", array.data_type().clone(), nullable);
    let schema = Arc::new(arrow_schema::Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

/// Every way to write: version, dictionary, codec and encoding in turn.
pub fn properties(round: usize, data_type: &DataType) -> WriterProperties {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
    ];
    let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][round % 2];
    let builder = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codecs[round % codecs.len()])
        .set_dictionary_enabled(!round.is_multiple_of(3))
        // A dictionary that overflows: pages that refer to it, then PLAIN ones.
        .set_dictionary_page_size_limit([1 << 20, 150][round % 3 / 2])
        .set_data_page_row_count_limit(37)
        .set_write_batch_size(10);
    match data_type {
        DataType::Int32 | DataType::Int64 if round.is_multiple_of(12) => {
            builder.set_encoding(Encoding::DELTA_BINARY_PACKED)
        }
        DataType::Float64 | DataType::Int32 if round.is_multiple_of(3) => {
            builder.set_encoding(Encoding::BYTE_STREAM_SPLIT)
        }
        _ => builder,
    }
    .build()
}

/// The pages of one leaf: where each begins, its rows, its bytes.
pub struct LeafPages {
    dictionary: Option<Bytes>,
    codec: Codec,
    pub pages: Vec<(u64, u64, Bytes)>,
}

impl LeafPages {
    /// The fewest pages that hold rows `first..end`.
    pub fn run(&self, first: u64, end: u64) -> PageRun {
        let holds = |page: &&(u64, u64, Bytes)| page.0 < end && page.0 + page.1 > first;
        let pages: Vec<_> = self.pages.iter().filter(holds).collect();
        PageRun {
            data: pages.iter().flat_map(|page| page.2.to_vec()).collect(),
            dictionary: self.dictionary.clone(),
            codec: self.codec,
            starts_mid_record: false,
            first_row: pages[0].0,
            num_rows: pages.iter().map(|page| page.1).sum(),
            tail_size: 0,
        }
    }
}

pub fn open(file: &Bytes) -> (ColumnSchema, Vec<LeafPages>) {
    let size = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap());
    let start = file.len() - 8 - size as usize;
    let footer = Footer::parse(&file[start..file.len() - 8], start as u64, "column").unwrap();
    let schema = ColumnSchema::resolve(&footer.schema, "column", false).unwrap();
    let chunks = schema.leaves.iter().zip(&footer.row_groups[0].chunks);
    let leaves = chunks.map(|(leaf, chunk)| {
        let range = chunk.byte_range();
        let bytes = file.slice(range.start as usize..range.end as usize);
        split(&bytes, chunk.codec, leaf)
    });
    let leaves = leaves.collect();
    (schema, leaves)
}

fn split(bytes: &Bytes, codec: Codec, leaf: &Leaf) -> LeafPages {
    let (mut dictionary, mut pages, mut at, mut row) = (None, Vec::new(), 0, 0);
    let mut opener = PageOpener::default();
    while at < bytes.len() {
        let header = PageHeader::parse(&bytes[at..]).unwrap().unwrap();
        let page = bytes.slice(at..at + header.stored_size());
        at += header.stored_size();
        if header.num_levels().is_none() {
            dictionary = Some(page);
            continue;
        }
        let stored = &page[header.header_size..];
        let opened = opener.data_page(&header, stored, codec, leaf).unwrap();
        let counts = count_levels(&opened, leaf).unwrap();
        pages.push((row, counts.num_rows, page.clone()));
        row += counts.num_rows;
    }
    LeafPages {
        dictionary,
        codec,
        pages,
    }
}
