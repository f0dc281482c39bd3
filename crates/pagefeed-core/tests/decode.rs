//! Every kind of column, written by the `parquet` crate's writer in many ways, read
//! back page by page: each page must be the slice of the whole column.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure must be loud")]

use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Int32Builder, Int64Builder, LargeListBuilder, ListBuilder, MapBuilder,
    StringBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray,
    RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;
use pagefeed_core::Kind;
use pagefeed_core::codec::Codec;
use pagefeed_core::decode::{PageRun, Paths, Tokens, decode_array_by, decode_tokens};
use pagefeed_core::footer::Footer;
use pagefeed_core::header::PageHeader;
use pagefeed_core::levels::count_levels;
use pagefeed_core::page::PageOpener;
use pagefeed_core::schema::{ColumnSchema, Leaf};
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

const ROWS: usize = 300;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn text(&mut self) -> String {
        let letters = ["a", "b", "\u{e9}", "\u{4e16}", "\u{1f600}", " "];
        (0..self.below(12))
            .map(|_| letters[self.below(6) as usize])
            .collect()
    }

    fn maybe<T>(&mut self, nulls: bool, value: T) -> Option<T> {
        (!nulls || self.below(5) > 0).then_some(value)
    }
}

fn list(random: &mut Random, null_rows: bool, null_items: bool) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for _ in 0..ROWS {
        for _ in 0..random.below(9) {
            let value = random.below(50) as i32 - 3;
            builder
                .values()
                .append_option(random.maybe(null_items, value));
        }
        builder.append(!null_rows || random.below(6) > 0);
    }
    Arc::new(builder.finish())
}

fn large_list(random: &mut Random) -> ArrayRef {
    let mut builder = LargeListBuilder::new(Int64Builder::new());
    for _ in 0..ROWS {
        for _ in 0..random.below(9) {
            builder.values().append_value(random.below(1 << 40) as i64);
        }
        builder.append(true);
    }
    Arc::new(builder.finish())
}

fn fixed_size_list(random: &mut Random, nulls: bool) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Int32Builder::new(), 5);
    for _ in 0..ROWS {
        for _ in 0..5 {
            builder.values().append_value(random.below(100) as i32);
        }
        builder.append(!nulls || random.below(6) > 0);
    }
    Arc::new(builder.finish())
}

fn list_of_lists(random: &mut Random) -> ArrayRef {
    let mut builder = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for _ in 0..ROWS {
        for _ in 0..random.below(4) {
            for _ in 0..random.below(4) {
                let text = random.text();
                builder
                    .values()
                    .values()
                    .append_option(random.maybe(true, text));
            }
            builder.values().append(random.below(5) > 0);
        }
        builder.append(random.below(5) > 0);
    }
    Arc::new(builder.finish())
}

fn map(random: &mut Random) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for _ in 0..ROWS {
        for _ in 0..random.below(4) {
            builder.keys().append_value(random.text());
            let value = random.below(10) as i32;
            builder.values().append_option(random.maybe(true, value));
        }
        builder.append(random.below(5) > 0).unwrap();
    }
    Arc::new(builder.finish())
}

fn nested(random: &mut Random) -> ArrayRef {
    let fields = [
        list(random, true, true),
        large_list(random),
        texts(random, true),
    ];
    let named = ["ints", "longs", "texts"].iter().zip(&fields);
    let fields: Fields = named
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let columns = [
        list(random, true, true),
        large_list(random),
        texts(random, true),
    ];
    let nulls = (0..ROWS).map(|_| random.below(7) > 0).collect::<Vec<_>>();
    Arc::new(StructArray::new(
        fields,
        columns.to_vec(),
        Some(nulls.into()),
    ))
}

fn texts(random: &mut Random, nulls: bool) -> ArrayRef {
    let rows = (0..ROWS).map(|_| {
        let text = random.text();
        random.maybe(nulls, text)
    });
    Arc::new(rows.collect::<StringArray>())
}

fn columns(random: &mut Random) -> Vec<(&'static str, ArrayRef)> {
    let text = texts(random, true);
    let text = text.as_any().downcast_ref::<StringArray>().unwrap();
    let numbers = |random: &mut Random, nulls| -> Vec<Option<i32>> {
        let number = |random: &mut Random| random.below(90) as i32;
        (0..ROWS)
            .map(|_| {
                let value = number(random);
                random.maybe(nulls, value)
            })
            .collect()
    };
    let (full, gaps) = (numbers(random, false), numbers(random, true));
    let bytes: Vec<Option<&[u8]>> = text.iter().map(|t| t.map(str::as_bytes)).collect();
    let plain: Vec<i32> = full.iter().copied().flatten().collect();
    vec![
        ("list", list(random, false, false)),
        ("list with null rows", list(random, true, false)),
        ("list with null items", list(random, true, true)),
        ("large list", large_list(random)),
        ("fixed-size list", fixed_size_list(random, false)),
        ("fixed-size list with nulls", fixed_size_list(random, true)),
        ("list of lists", list_of_lists(random)),
        ("map", map(random)),
        ("struct", nested(random)),
        ("int32", Arc::new(Int32Array::from(full.clone()))),
        ("int32 with nulls", Arc::new(Int32Array::from(gaps.clone()))),
        (
            "int8",
            Arc::new(Int8Array::from_iter_values(
                plain.iter().map(|v| *v as i8 - 50),
            )),
        ),
        (
            "uint16",
            Arc::new(UInt16Array::from_iter_values(
                plain.iter().map(|v| *v as u16 * 700),
            )),
        ),
        (
            "uint32",
            Arc::new(UInt32Array::from_iter_values(
                plain.iter().map(|v| u32::MAX - *v as u32),
            )),
        ),
        (
            "uint64",
            Arc::new(UInt64Array::from_iter_values(
                plain.iter().map(|v| u64::MAX - *v as u64),
            )),
        ),
        (
            "int64",
            Arc::new(Int64Array::from_iter_values(
                plain.iter().map(|v| i64::from(*v) << 33),
            )),
        ),
        ("text", texts(random, false)),
        ("text with nulls", Arc::new(text.clone())),
        (
            "large text",
            Arc::new(text.iter().collect::<LargeStringArray>()),
        ),
        (
            "text view",
            Arc::new(text.iter().collect::<StringViewArray>()),
        ),
        (
            "binary",
            Arc::new(bytes.iter().copied().collect::<BinaryArray>()),
        ),
        (
            "large binary",
            Arc::new(bytes.iter().copied().collect::<LargeBinaryArray>()),
        ),
        (
            "dictionary",
            Arc::new(text.iter().collect::<DictionaryArray<Int32Type>>()),
        ),
        (
            "boolean",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(|v| v > 40))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "double",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(f64::from))
                    .collect::<Float64Array>(),
            ),
        ),
        ("date", Arc::new(Date32Array::from(gaps.clone()))),
        (
            "timestamp",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(i64::from))
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "decimal",
            Arc::new(
                gaps.iter()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>(),
            ),
        ),
    ]
}

/// A file of one column, as bytes.
fn write(array: &ArrayRef, properties: WriterProperties) -> Bytes {
    let nullable = array.null_count() > 0 || array.data_type().is_nested();
    let field = Field::new("column", array.data_type().clone(), nullable);
    let schema = Arc::new(arrow_schema::Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

/// Every way to write: version, dictionary, codec and encoding in turn.
fn properties(round: usize, data_type: &DataType) -> WriterProperties {
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
struct LeafPages {
    dictionary: Option<Bytes>,
    codec: Codec,
    pages: Vec<(u64, u64, Bytes)>,
}

impl LeafPages {
    /// The fewest pages that hold rows `first..end`.
    fn run(&self, first: u64, end: u64) -> PageRun {
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

fn open(file: &Bytes) -> (ColumnSchema, Vec<LeafPages>) {
    let size = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap());
    let start = file.len() - 8 - size as usize;
    let footer = Footer::parse(&file[start..file.len() - 8], start as u64, "column").unwrap();
    let schema = ColumnSchema::resolve(&footer.schema, "column").unwrap();
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

/// Views and dictionaries of text, which may be read as plain text.
fn as_read(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
    use arrow_array::cast::AsArray;
    if array.data_type() == data_type {
        return array.clone();
    }
    let text: StringArray = match array.data_type() {
        DataType::Utf8View => array.as_string_view().iter().collect(),
        _ => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let values = dictionary.downcast_dict::<StringArray>().unwrap();
            values.into_iter().collect()
        }
    };
    Arc::new(text)
}

#[test]
fn every_page_is_the_slice_of_the_column() {
    let mut opener = PageOpener::new(true);
    for round in 0..12 {
        for (name, array) in columns(&mut Random(round as u64)) {
            let file = write(&array, properties(round, array.data_type()));
            let (schema, leaves) = open(&file);
            assert!(leaves.iter().any(|leaf| leaf.pages.len() > 2), "{name}");
            for (first, rows, _) in &leaves[0].pages {
                // The page alone, and a stretch that begins and ends inside of pages.
                let within = (
                    first + rows / 3,
                    (rows + 20).min(ROWS as u64 - first - rows / 3),
                );
                for (first, rows) in [(*first, *rows), within] {
                    let runs: Vec<_> = leaves
                        .iter()
                        .map(|leaf| leaf.run(first, first + rows))
                        .collect();
                    let expected = as_read(&array, schema.field.data_type());
                    let expected = expected.slice(first as usize, rows as usize);
                    for paths in [Paths::All, Paths::FallbackOnly] {
                        let found =
                            decode_array_by(&mut opener, &schema, &runs, first, rows, paths)
                                .unwrap_or_else(|error| panic!("{name}, {paths:?}: {error}"));
                        found.to_data().validate_full().unwrap();
                        assert_eq!(&*found, &*expected, "{name}, round {round}, {paths:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn tokens_are_what_arrays_hold() {
    let mut opener = PageOpener::default();
    for round in 0..12 {
        for (name, array) in columns(&mut Random(round as u64)) {
            let file = write(&array, properties(round, array.data_type()));
            let (_schema, leaves) = open(&file);
            let leaf = &_schema.leaves[0];
            for (first, rows, _) in &leaves[0].pages {
                let run = leaves[0].run(*first, first + rows);
                let tokens = decode_tokens(&mut opener, &run, None, leaf);
                let rows = array.slice(*first as usize, *rows as usize);
                match name {
                    "list"
                    | "list with null rows"
                    | "large list"
                    | "fixed-size list"
                    | "int32"
                    | "int32 with nulls"
                    | "int8"
                    | "uint16"
                    | "uint32"
                    | "int64" => {
                        assert_eq!(rows_of(&tokens.unwrap()), expected_rows(&rows), "{name}");
                    }
                    "uint64" => assert_eq!(tokens.unwrap_err().kind(), Kind::TokenRange),
                    "fixed-size list with nulls" | "list with null items" | "map" | "struct" => {}
                    _ => assert_eq!(tokens.unwrap_err().kind(), Kind::Unsupported, "{name}"),
                }
            }
        }
    }
}

fn rows_of(page: &pagefeed_core::decode::TokenPage) -> Vec<Vec<i64>> {
    let values: Vec<i64> = match &page.tokens {
        Tokens::U16(values) => values.iter().map(|v| i64::from(*v)).collect(),
        Tokens::I32(values) => values.iter().map(|v| i64::from(*v)).collect(),
        Tokens::U32(values) => values.iter().map(|v| i64::from(*v)).collect(),
        Tokens::I64(values) => values.clone(),
    };
    let offsets = page.row_offsets.windows(2);
    offsets
        .map(|row| values[row[0] as usize..row[1] as usize].to_vec())
        .collect()
}

fn expected_rows(array: &ArrayRef) -> Vec<Vec<i64>> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    let integers = |array: &ArrayRef| -> Vec<i64> {
        match array.data_type() {
            DataType::Int8 => array
                .as_primitive::<Int8Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            DataType::UInt16 => array
                .as_primitive::<UInt16Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            DataType::Int32 => array
                .as_primitive::<Int32Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            DataType::UInt32 => array
                .as_primitive::<UInt32Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            _ => array.as_primitive::<Int64Type>().iter().flatten().collect(),
        }
    };
    (0..array.len())
        .map(|row| match array.data_type() {
            _ if array.is_null(row) => Vec::new(),
            DataType::List(_) => integers(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => integers(&array.as_list::<i64>().value(row)),
            DataType::FixedSizeList(..) => integers(&array.as_fixed_size_list().value(row)),
            _ => integers(&array.slice(row, 1)),
        })
        .collect()
}

#[test]
fn damaged_files_give_errors_or_arrays_of_the_right_length_and_never_panic() {
    let mut opener = PageOpener::default();
    let mut random = Random(77);
    for (round, (name, array)) in columns(&mut Random(7)).into_iter().enumerate() {
        let file = write(&array, properties(round * 5, array.data_type()));
        let (schema, leaves) = open(&file);
        let rows = leaves[0].pages[0].1;
        let runs: Vec<_> = leaves.iter().map(|leaf| leaf.run(0, rows)).collect();
        for _ in 0..60 {
            let mut runs = runs.clone();
            let which = random.below(runs.len() as u64) as usize;
            let run = &mut runs[which];
            let dictionary = run.dictionary.clone().filter(|_| random.below(4) == 0);
            let mut bytes = dictionary.as_ref().unwrap_or(&run.data).to_vec();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            bytes.truncate(bytes.len() - (random.below(4) / 2) as usize);
            match dictionary {
                Some(_) => run.dictionary = Some(bytes.into()),
                None => run.data = bytes.into(),
            }
            for paths in [Paths::All, Paths::FallbackOnly] {
                if let Ok(array) = decode_array_by(&mut opener, &schema, &runs, 0, rows, paths) {
                    assert_eq!(array.len() as u64, rows, "{name}");
                }
            }
            let _ = decode_tokens(&mut opener, &runs[0], None, &schema.leaves[0]);
        }
    }
}
