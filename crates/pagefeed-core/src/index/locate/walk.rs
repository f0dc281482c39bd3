//! Finding the pages of a chunk without an offset index: header by header.

use std::ops::Range;

use bytes::Bytes;

use parquet::basic::Type;

use crate::error::{Error, Result};
use crate::footer::{self, Chunk};
use crate::header::{DataV2, PageHeader, PageKind};
use crate::index::BuildOptions;
use crate::index::chunk::{ChunkPages, StoredPage};
use crate::levels::{LevelCounts, count_levels};
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;
use crate::storage::{FileId, Storage};
use crate::thrift::{Reader, Wire, read_fields};

/// Bytes read where only headers are wanted.
const HEADER_WINDOW: u64 = 16 << 10;
/// Bytes read where whole pages are wanted.
const PAGE_WINDOW: u64 = 4 << 20;
/// Writers before parquet-mr 1.2.9 forget the dictionary page's header in the chunk's
/// size (PARQUET-816).
pub const FORGOTTEN_BYTES: u64 = 100;

/// Reads the pages of one chunk, forward.
pub struct ChunkReader<'a> {
    store: &'a dyn Storage,
    file: &'a FileId,
    pub chunk: &'a Chunk,
    pub leaf: &'a Leaf,
    pub opener: PageOpener,
    /// End of what may belong to the chunk.
    limit: u64,
    window: Bytes,
    window_start: u64,
    window_size: u64,
    /// Whether the writer's null counts are trusted, in columns without lists. Null
    /// counts of texts are not needed, and reading levels for them would be slow.
    trusts_counts: bool,
}

impl<'a> ChunkReader<'a> {
    /// Returns a reader of `chunk`; pages are before `footer_start`.
    pub fn new(
        store: &'a dyn Storage,
        file: &'a FileId,
        chunk: &'a Chunk,
        leaf: &'a Leaf,
        footer_start: u64,
        options: &BuildOptions,
    ) -> Self {
        let mut opener = PageOpener::default();
        opener.verify_checksums = options.verify_checksums;
        Self {
            store,
            file,
            chunk,
            leaf,
            opener,
            limit: (chunk.byte_range().end + FORGOTTEN_BYTES).min(footer_start),
            window: Bytes::new(),
            window_start: 0,
            window_size: HEADER_WINDOW,
            trusts_counts: leaf.physical == Type::BYTE_ARRAY
                || (options.use_page_index && !chunk.miscounts_nulls),
        }
    }

    /// Whether pages of a column without lists may be counted without their levels.
    pub fn trusts_counts(&self) -> bool {
        self.trusts_counts
    }

    /// Returns whether the writer's null counts contradict each other; from then on,
    /// levels are counted.
    pub fn finds_miscounted(&mut self, pages: &ChunkPages) -> bool {
        let found: u64 = pages.pages.iter().map(|page| page.num_values).sum();
        let promised = self.chunk.num_nulls.map(|nulls| found.checked_add(nulls));
        let is_checked = self.leaf.max_repetition == 0 && self.leaf.physical != Type::BYTE_ARRAY;
        let is_miscounted = is_checked
            && self.trusts_counts
            && promised.is_some_and(|promised| promised != Some(self.chunk.num_values));
        self.trusts_counts &= !is_miscounted;
        is_miscounted
    }

    /// The dictionary page and the data pages that are not empty.
    pub fn walk(&mut self) -> Result<(Option<Range<u64>>, Vec<StoredPage>)> {
        let (mut dictionary, mut pages) = (None, Vec::new());
        let mut offset = self.chunk.byte_range().start;
        let (mut levels, mut number) = (0u64, 0u64);
        while levels < self.chunk.num_values {
            let located = |error: Error| error.at_page(number).at_offset(offset);
            let header = self.header(offset).map_err(located)?;
            let end = offset + header.stored_size() as u64;
            if end > self.limit {
                return Err(located(Error::corrupt(format!(
                    "the page ends at {end}, after the end of its chunk at {}",
                    self.limit
                ))));
            }
            match header.num_levels() {
                Some(num_levels) => {
                    if num_levels > 0 {
                        pages.push(self.stored_page(number, offset, &header).map_err(located)?);
                    }
                    levels += num_levels as u64;
                    number += 1;
                }
                None if matches!(header.kind, PageKind::Dictionary { .. }) => {
                    if number > 0 || dictionary.is_some() {
                        return Err(located(Error::corrupt(
                            "a dictionary page after other pages",
                        )));
                    }
                    dictionary = Some(offset..end);
                }
                None => {}
            }
            offset = end;
        }
        if levels > self.chunk.num_values {
            return Err(Error::corrupt(format!(
                "the chunk promises {} values, its pages hold {levels}",
                self.chunk.num_values
            )));
        }
        Ok((dictionary, pages))
    }

    /// Returns the facts of the data page at `offset`.
    pub fn stored_page(
        &mut self,
        number: u64,
        offset: u64,
        header: &PageHeader,
    ) -> Result<StoredPage> {
        let counts = self.counts(offset, header)?;
        Ok(StoredPage {
            number,
            offset,
            size: header.stored_size() as u64,
            num_rows: counts.num_rows,
            num_values: counts.num_values,
            leading_values: counts.leading_values,
            starts_mid_record: counts.starts_mid_record,
            needs_dictionary: header.encoding() == Some(parquet::basic::Encoding::RLE_DICTIONARY),
            holds_nulls: counts.null_elements > counts.leading_null_elements,
            leading_nulls: counts.leading_null_elements > 0,
        })
    }

    /// The page header at `offset`.
    pub fn header(&mut self, offset: u64) -> Result<PageHeader> {
        let available = self.limit.saturating_sub(offset);
        let window_end = self.window_start + self.window.len() as u64;
        let mut size = if offset < self.window_start {
            0
        } else {
            window_end.saturating_sub(offset)
        };
        loop {
            let bytes = self.bytes(offset, size)?;
            if let Some(header) = PageHeader::parse(&bytes)? {
                return Ok(header);
            }
            if size == available {
                return Err(Error::corrupt(
                    "the column chunk ends in the middle of a page header, or before all its \
                     values",
                ));
            }
            size = (size * 2).max(HEADER_WINDOW).min(available);
        }
    }

    /// Rows and values of a page: from its header where that proves them, otherwise
    /// from its levels.
    fn counts(&mut self, offset: u64, header: &PageHeader) -> Result<LevelCounts> {
        let levels = header.num_levels().unwrap_or(0) as u64;
        if self.leaf.max_repetition == 0
            && let Some(nulls) = self.flat_nulls(offset, header)?
            && nulls <= levels
        {
            return Ok(LevelCounts {
                num_rows: levels,
                num_values: levels - nulls,
                ..LevelCounts::default()
            });
        }
        let counts = self.level_counts(offset, header)?;
        if self.leaf.max_repetition == 0 && counts.num_rows != levels {
            return Err(Error::corrupt(format!(
                "the page promises {levels} values, its levels hold {}",
                counts.num_rows
            )));
        }
        Ok(counts)
    }

    /// Nulls of a page of a column without lists, if they are known without reading
    /// levels.
    fn flat_nulls(&mut self, offset: u64, header: &PageHeader) -> Result<Option<u64>> {
        if self.leaf.max_definition == 0 {
            return Ok(Some(0));
        }
        if !self.trusts_counts {
            return Ok(None);
        }
        if matches!(header.kind, PageKind::DataV2(_)) {
            // Its levels are near and never compressed.
            return Ok(self.chunk.num_nulls.filter(|&nulls| nulls == 0));
        }
        let bytes = self.bytes(offset, header.header_size as u64)?;
        let of_page = header_null_count(&bytes)?;
        Ok(of_page.or(self.chunk.num_nulls.filter(|&nulls| nulls == 0)))
    }

    fn level_counts(&mut self, offset: u64, header: &PageHeader) -> Result<LevelCounts> {
        let body = offset + header.header_size as u64;
        if let PageKind::DataV2(DataV2 {
            repetition_size,
            definition_size,
            ..
        }) = header.kind
        {
            let size = repetition_size.saturating_add(definition_size);
            if size > header.compressed_size {
                return Err(Error::corrupt("the levels are longer than their page"));
            }
            let bytes = self.bytes(body, size as u64)?;
            let (repetition, definition) = bytes.split_at(repetition_size);
            let page = DataPage {
                header,
                repetition,
                definition,
                values: &[],
                is_takeable: false,
            };
            return count_levels(&page, self.leaf);
        }
        self.window_size = PAGE_WINDOW;
        let stored = self.bytes(body, header.compressed_size as u64)?;
        let page = self
            .opener
            .data_levels(header, &stored, self.chunk.codec, self.leaf)?;
        count_levels(&page, self.leaf)
    }

    /// `size` bytes at `offset`, from the window if they are in it.
    pub fn bytes(&mut self, offset: u64, size: u64) -> Result<Bytes> {
        if size > self.limit.saturating_sub(offset) {
            return Err(Error::corrupt(format!(
                "{size} bytes were expected at {offset}, the chunk ends at {}",
                self.limit
            )));
        }
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + size > window_end {
            let end = (offset + size.max(self.window_size)).min(self.limit);
            self.window = self.store.read(self.file, offset..end)?;
            self.window_start = offset;
        }
        let start = (offset - self.window_start) as usize;
        Ok(self.window.slice(start..start + size as usize))
    }
}

/// Null count in the statistics of a version 1 page header.
fn header_null_count(header: &[u8]) -> Result<Option<u64>> {
    let mut nulls = None;
    let mut reader = Reader::new(header);
    read_fields!(reader, {
        (5, Wire::Struct) => read_fields!(reader, {
            (5, Wire::Struct) => nulls = footer::parse_null_count(reader)?,
        })?,
    })?;
    Ok(nulls)
}
