//! A column of lists: its rows cut into pages, and what a footer says of them.
//!
//! Pages are appended to what its caller has for them as soon as they are full, and only
//! what is known of them is kept: a row group takes no memory.

use parquet::basic::{CompressionCodec, Encoding, PageType, SortOrder, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, LevelHistogram, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::page::{Dictionary, Page, PageMaker, Rows, Settings};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::parallel::on_threads;

/// Cuts the rows of one column into compressed pages.
pub struct ListColumn {
    column: ColumnDescPtr,
    settings: Settings,
    values_per_page: usize,
    maker: PageMaker,
    waiting: Rows,
    /// Full pages that wait until a dictionary is known to pay.
    held: Vec<Rows>,
    /// Dictionary of the values, if there are few.
    dictionary: Option<Dictionary>,
    /// Bytes of the dictionary page in this row group, compressed and uncompressed,
    /// once it is written.
    written: Option<(usize, usize)>,
    pages: Vec<Page>,
    num_levels: usize,
}

impl ListColumn {
    /// Returns a column without rows. A page is complete at `page_bytes` of plain
    /// values. Values below `num_values` (0 if unknown) are stored in fewer bytes.
    pub fn new(
        column: ColumnDescPtr,
        codec: Codec,
        page_bytes: usize,
        num_values: u32,
    ) -> Result<Self> {
        let levels = (column.max_rep_level(), column.max_def_level());
        if (column.physical_type(), levels) != (Type::INT32, (1, 1)) {
            return Err(Error::unsupported(format!(
                "column {} is not a list of integers of at most 32 bits without nulls",
                column.path()
            )));
        }
        Ok(Self {
            settings: Settings {
                codec,
                is_signed: column.sort_order() == SortOrder::SIGNED,
            },
            values_per_page: page_bytes.div_ceil(size_of::<u32>()).max(1),
            column,
            maker: PageMaker::default(),
            waiting: Rows::default(),
            held: Vec::new(),
            dictionary: Dictionary::of(num_values),
            written: None,
            pages: Vec::new(),
            num_levels: 0,
        })
    }

    /// Values and rows since the last row group.
    pub fn num_levels(&self) -> usize {
        self.num_levels
    }

    /// Adds rows: their values, and the number of values of each. Appends full pages to
    /// `output`. Pages do not depend on threads, nor on how rows are passed.
    pub fn append(
        &mut self,
        values: &[u32],
        counts: &[u32],
        num_threads: usize,
        output: &mut Vec<u8>,
    ) -> Result<()> {
        let mut full = self.cut(values, counts)?;
        self.num_levels += values.len() + counts.len();
        if let (Some(dictionary), None) = (self.dictionary, self.written) {
            self.held.append(&mut full);
            let held = self
                .held
                .iter()
                .map(|rows| rows.values.len())
                .sum::<usize>();
            if held < dictionary.pays_from() {
                return Ok(());
            }
            let codec = self.settings.codec;
            self.written = Some(self.maker.make_dictionary(dictionary, codec, output)?);
            full = std::mem::take(&mut self.held);
        }
        self.make(&full, num_threads, output)
    }

    /// Appends full pages to `output`.
    fn make(&mut self, full: &[Rows], num_threads: usize, output: &mut Vec<u8>) -> Result<()> {
        let settings = self.settings;
        let dictionary = self.dictionary.filter(|_| self.written.is_some());
        if num_threads.min(full.len()) < 2 {
            for rows in full {
                let page = self.maker.make(rows, settings, dictionary, output)?;
                self.pages.push(page);
            }
            return Ok(());
        }
        let made = on_threads(num_threads, full.len(), || {
            let mut maker = PageMaker::default();
            move |number: usize| {
                let mut bytes = Vec::new();
                let page = maker.make(&full[number], settings, dictionary, &mut bytes)?;
                Ok((page, bytes))
            }
        })?;
        for (page, bytes) in made {
            output.extend_from_slice(&bytes);
            self.pages.push(page);
        }
        Ok(())
    }

    /// Adds rows to the waiting ones; returns full pages.
    fn cut(&mut self, values: &[u32], counts: &[u32]) -> Result<Vec<Rows>> {
        let (mut full, mut left) = (Vec::new(), values);
        let mut first = 0;
        let mut room = self
            .values_per_page
            .saturating_sub(self.waiting.values.len());
        let mut size = 0;
        for (number, &count) in counts.iter().enumerate() {
            size += count as usize;
            if size >= room {
                self.wait(&mut left, size, &counts[first..=number])?;
                full.push(std::mem::take(&mut self.waiting));
                (first, size, room) = (number + 1, 0, self.values_per_page);
            }
        }
        self.wait(&mut left, size, &counts[first..])?;
        match left {
            [] => Ok(full),
            _ => Err(Error::invalid("there are more values than rows have")),
        }
    }

    fn wait(&mut self, values: &mut &[u32], size: usize, counts: &[u32]) -> Result<()> {
        let (some, rest) = values
            .split_at_checked(size)
            .ok_or_else(|| Error::invalid("rows have more values than there are"))?;
        self.waiting.values.extend_from_slice(some);
        self.waiting.counts.extend_from_slice(counts);
        *values = rest;
        Ok(())
    }

    /// Ends a row group: appends the last page, and returns the metadata of its pages,
    /// as if the first began at 0.
    pub fn close(&mut self, output: &mut Vec<u8>) -> Result<ColumnCloseResult> {
        let mut rows = std::mem::take(&mut self.held);
        rows.push(std::mem::take(&mut self.waiting));
        rows.retain(|rows| !rows.counts.is_empty());
        self.make(&rows, 1, output)?;
        self.num_levels = 0;
        let pages = std::mem::take(&mut self.pages);
        let dictionary = self.written.take();
        let mut offsets = OffsetIndexBuilder::new();
        let mut index = ColumnIndexBuilder::new(Type::INT32);
        let mut size = dictionary.map_or(0, |(size, _)| size as i64);
        for page in &pages {
            offsets.append_row_count(page.num_rows as i64);
            offsets.append_offset_and_size(size, page.size as i32);
            size += page.size as i64;
            let (least, largest) = page.bounds.unzip();
            let stored = |value: Option<u32>| value.map_or(vec![], |v| v.to_le_bytes().to_vec());
            let (least, largest) = (stored(least), stored(largest));
            let is_null = page.bounds.is_none();
            index.append(is_null, least, largest, page.num_empty as i64, None);
            let (repetitions, definitions) =
                histograms(page.num_rows, page.num_empty, page.num_values);
            index.append_histograms(&Some(repetitions), &Some(definitions));
        }
        let num_rows: usize = pages.iter().map(|page| page.num_rows).sum();
        Ok(ColumnCloseResult {
            bytes_written: size.unsigned_abs(),
            rows_written: num_rows as u64,
            metadata: self.metadata(&pages, dictionary)?,
            bloom_filter: None,
            column_index: Some(index.build()?),
            offset_index: Some(offsets.build()),
        })
    }

    fn metadata(
        &self,
        pages: &[Page],
        dictionary: Option<(usize, usize)>,
    ) -> Result<ColumnChunkMetaData> {
        let total = |size: fn(&Page) -> usize| pages.iter().map(size).sum::<usize>();
        let (num_empty, num_values) = (total(|p| p.num_empty), total(|p| p.num_values));
        let (repetitions, definitions) =
            histograms(total(|page| page.num_rows), num_empty, num_values);
        let key = |value: &u32| value ^ (u32::from(self.settings.is_signed) << 31);
        let bounds = || pages.iter().filter_map(|page| page.bounds);
        let least = bounds().map(|(least, _)| least).min_by_key(key);
        let largest = bounds().map(|(_, largest)| largest).max_by_key(key);
        let number = |value: Option<u32>| value.map(u32::cast_signed);
        let nulls = Some(num_empty as u64);
        let codec = match self.settings.codec {
            Codec::Snappy => CompressionCodec::SNAPPY,
            Codec::Zstd => CompressionCodec::ZSTD,
            Codec::Lz4Raw => CompressionCodec::LZ4_RAW,
            _ => CompressionCodec::UNCOMPRESSED,
        };
        let (own_size, own_plain_size) = dictionary.unwrap_or_default();
        let (mut encodings, mut counts) = (vec![Encoding::PLAIN, Encoding::RLE], Vec::new());
        let mut count = |page_type, encoding, count: usize| {
            let count = count as i32;
            counts.extend((count > 0).then_some(PageEncodingStats {
                page_type,
                encoding,
                count,
            }));
        };
        let num_indexed = total(|page| usize::from(page.is_indexed));
        let (data, indexed) = (PageType::DATA_PAGE, Encoding::RLE_DICTIONARY);
        if dictionary.is_some() {
            encodings.push(indexed);
            count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1);
        }
        count(data, indexed, num_indexed);
        count(data, Encoding::PLAIN, pages.len() - num_indexed);
        let built = ColumnChunkMetaData::builder(self.column.clone())
            .set_encodings(encodings)
            .set_compression_codec(codec)
            .set_num_values((num_values + num_empty) as i64)
            .set_total_compressed_size((own_size + total(|page| page.size)) as i64)
            .set_total_uncompressed_size(
                (own_plain_size + total(|page| page.uncompressed_size)) as i64,
            )
            .set_dictionary_page_offset(dictionary.map(|_| 0))
            .set_data_page_offset(own_size as i64)
            .set_statistics(Statistics::int32(
                number(least),
                number(largest),
                None,
                nulls,
                false,
            ))
            .set_page_encoding_stats(counts)
            .set_repetition_level_histogram(Some(repetitions))
            .set_definition_level_histogram(Some(definitions))
            .build();
        Ok(built?)
    }
}

/// Counts each repetition and definition level.
fn histograms(
    num_rows: usize,
    num_empty: usize,
    num_values: usize,
) -> (LevelHistogram, LevelHistogram) {
    let (rows, empty, values) = (num_rows as i64, num_empty as i64, num_values as i64);
    let repetitions = vec![rows, values + empty - rows];
    (repetitions.into(), vec![empty, values].into())
}
