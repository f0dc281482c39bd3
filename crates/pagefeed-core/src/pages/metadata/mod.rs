//! What is known of rows, read with the tokens of the same rows, whatever its pages are.

mod origin;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::FieldRef;
use arrow_select::concat::concat;
use arrow_select::take::take;

use crate::decode::{TokenPage, conform};
use crate::engine::{Beside, Page, PageEntry, PagePart, PageSource, PartReads};
use crate::error::{Error, Result};
use crate::index::PageRecord;
use crate::metadata::{spans, unwrapped};
use crate::page::PageOpener;
use crate::pages::dictionaries::Cache;
use crate::pages::indexed::Indexed;
use crate::pages::numbering::saturated;
use crate::pages::reader::read_array;
use crate::pages::row_column::mean_row_bytes;
use crate::pages::stream_spans::StreamSpans;
use crate::storage::{Fetched, FileRanges};

use origin::Column;
pub use origin::{Origin, common_fields};

/// Pages of which other rows may be wanted soon, decoded.
pub type RowsCache = Cache<ArrayRef>;

/// Rows of a page of a column.
struct Part {
    page: u64,
    record: PageRecord,
    /// Of those of the page.
    rows: Range<usize>,
}

/// Pages of tokens, and with each what columns hold of its rows.
pub struct WithMetadata {
    tokens: Arc<dyn PageSource>,
    /// Numbers the rows of the pages of tokens.
    rows: Indexed,
    columns: Vec<Column>,
    cache: Arc<RowsCache>,
    /// Held while a page for the cache is made, one for many: made by one thread, it
    /// is there for the others.
    making: Vec<Mutex<()>>,
    bytes_read: AtomicU64,
}

/// Pages that are made at one time, if these are lucky.
const MADE_AT_ONCE: usize = 64;

impl WithMetadata {
    /// The pages of `tokens`, which are those of the index `rows`, with columns of the
    /// same files. Pages that several of them share are kept in `cache`.
    pub fn new(
        tokens: Arc<dyn PageSource>,
        rows: Indexed,
        origins: Vec<Origin>,
        fields: &[FieldRef],
        are_spans: &[bool],
        cache: &Arc<RowsCache>,
    ) -> Result<Self> {
        let first_rows = rows.index.file_first_row();
        let each = origins.into_iter().zip(fields).zip(are_spans);
        let column = |((origin, field), &are_spans): ((Origin, &FieldRef), &bool)| {
            let (num_files, row_bytes) = match &origin {
                Origin::Pages(column) => {
                    if column.index.file_first_row() != first_rows {
                        return Err(Error::invalid(
                            "columns of the same rows belong to indexes of the same files",
                        ));
                    }
                    (first_rows.len() - 1, mean_row_bytes(&column.index)?)
                }
                Origin::Files(values) => (values.len(), 8),
                Origin::Spans(spans) => (first_rows.len() - 1, spans.row_bytes()),
                Origin::Nothing => (first_rows.len() - 1, 1),
            };
            if num_files + 1 != first_rows.len() {
                return Err(Error::invalid("a column has a value for each file"));
            }
            Ok(Column {
                origin,
                data_type: field.data_type().clone(),
                are_spans,
                row_bytes,
            })
        };
        Ok(Self {
            columns: each.map(column).collect::<Result<_>>()?,
            cache: Arc::clone(cache),
            making: (0..MADE_AT_ONCE).map(|_| Mutex::default()).collect(),
            bytes_read: AtomicU64::new(0),
            tokens,
            rows,
        })
    }

    fn read(
        &self,
        (column, pages): (&Column, &Indexed),
        opener: &mut PageOpener,
        rows: Range<u64>,
        page: &TokenPage,
        fetched: &Fetched,
    ) -> Result<ArrayRef> {
        let mut found = Vec::new();
        let mut row = 0;
        for part in parts(pages, rows)? {
            let count = part.rows.len();
            let array = self.read_part(column, pages, opener, &part, fetched)?;
            if column.are_spans {
                let offsets = page.row_offsets.get(row..=row + count);
                let offsets = offsets.ok_or_else(|| Error::corrupt("rows without tokens"))?;
                let lengths: Vec<u32> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let first = part.record.first_row_in_group + part.rows.start as u64;
                spans::check(&array, &lengths, first)
                    .map_err(|error| pages.locate(error, &part.record))?;
            }
            row += count;
            found.push(array);
        }
        match &found[..] {
            [one] => Ok(Arc::clone(one)),
            many => {
                let many: Vec<&dyn Array> = many.iter().map(AsRef::as_ref).collect();
                Ok(concat(&many)?)
            }
        }
    }

    /// Tells of the rows that parts touch.
    fn tell(&self, parts: &mut [&mut PagePart]) -> Result<(), (u64, Error)> {
        let mut pages = Vec::with_capacity(parts.len());
        for part in parts.iter() {
            let record = self.rows.index.page(part.page);
            let file = record.map_err(|error| (part.page, error))?.file;
            pages.push((file, &part.loaded));
        }
        let told = self.columns.iter().map(|column| column.told(&pages));
        let told: Vec<ArrayRef> = told.collect::<Result<_, _>>().map_err(|(file, error)| {
            let place = pages.iter().position(|page| page.0 == file);
            (parts[place.unwrap_or(0)].page, error)
        })?;
        let mut row = 0;
        for part in parts {
            let count = part.loaded.row_offsets.len().saturating_sub(1);
            part.loaded.metadata = told.iter().map(|array| array.slice(row, count)).collect();
            self.forget_payloads(&mut part.loaded);
            row += count;
        }
        Ok(())
    }

    /// The spans, if the tokens are those of streams.
    fn spans(&self) -> Option<&StreamSpans> {
        self.columns.iter().find_map(|column| match &column.origin {
            Origin::Spans(spans) => Some(&**spans),
            _ => None,
        })
    }

    /// Takes the numbers of payloads off a page: they came with its tokens for the spans.
    fn forget_payloads(&self, page: &mut TokenPage) {
        if self.spans().is_some() {
            page.aligned.pop();
        }
    }

    /// The rows of a part, and no memory of others.
    fn read_part(
        &self,
        column: &Column,
        pages: &Indexed,
        opener: &mut PageOpener,
        part: &Part,
        fetched: &Fetched,
    ) -> Result<ArrayRef> {
        let mut make = || {
            self.bytes_read
                .fetch_add(stored_size(&part.record), Ordering::Relaxed);
            let index = &pages.index;
            let whole = read_array(pages, opener, part.page, fetched, index.field().data_type())?;
            let array = unwrapped(whole, index.field(), index.column())?;
            conform(&array, &column.data_type).map_err(|error| pages.locate(error, &part.record))
        };
        if part.rows.len() as u64 == part.record.num_rows {
            return make();
        }
        let key = pages.key(&part.record, part.record.offset);
        let turn = &self.making[saturated(part.page) % MADE_AT_ONCE];
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let array = self.cache.get_or_load(key, make)?;
        drop(turn);
        let rows = part.rows.start as u32..part.rows.end as u32;
        Ok(take(&array, &UInt32Array::from_iter_values(rows), None)?)
    }

    /// Where the columns lie in the file of a page, but for what is kept.
    fn ranges(&self, page: u64) -> Result<FileRanges> {
        let record = self.rows.index.page(page)?;
        let rows = self.rows.index.rows_of_page(page)?;
        let mut ranges = Vec::new();
        for column in &self.columns {
            let Origin::Pages(pages) = &column.origin else {
                continue;
            };
            for part in parts(pages, rows.clone())? {
                let key = pages.key(&part.record, part.record.offset);
                if !self.cache.has(&key) {
                    ranges.extend(pages.index.run_ranges(part.page, true)?.ranges);
                }
            }
        }
        let file = self.rows.index.files()[record.file as usize].clone();
        Ok(FileRanges::new(file, ranges))
    }
}

/// Rows of an index, as parts of its pages.
fn parts(column: &Indexed, rows: Range<u64>) -> Result<Vec<Part>> {
    let index = &column.index;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let pages = index.page_of_row(rows.start)?..=index.page_of_row(rows.end - 1)?;
    let part = |page| {
        let own = index.rows_of_page(page)?;
        let begin = rows.start.max(own.start) - own.start;
        let end = rows.end.min(own.end).saturating_sub(own.start);
        Ok(Part {
            record: index.page(page)?,
            rows: saturated(begin)..saturated(end),
            page,
        })
    };
    let parts: Result<Vec<Part>> = pages.map(part).collect();
    parts.map(|parts| {
        parts
            .into_iter()
            .filter(|part| !part.rows.is_empty())
            .collect()
    })
}

/// Bytes that are read for a page.
fn stored_size(record: &PageRecord) -> u64 {
    let dictionary = record.dictionary.as_ref();
    let dictionary = dictionary.map_or(0, |range| range.end.saturating_sub(range.start));
    record.compressed_size.saturating_add(dictionary)
}

impl PageSource for WithMetadata {
    fn num_pages(&self) -> u64 {
        self.tokens.num_pages()
    }

    fn entry(&self, page: u64) -> PageEntry {
        let entry = self.tokens.entry(page);
        let rows = self.rows.index.rows_of_page(page).unwrap_or_default();
        let row_bytes: u64 = self.columns.iter().map(|column| column.row_bytes).sum();
        let bytes = row_bytes.saturating_mul(rows.end - rows.start);
        PageEntry {
            decoded_size: entry.decoded_size.saturating_add(saturated(bytes)),
            ..entry
        }
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        self.tokens.decoded_size(entry)
    }

    fn num_in_flight(&self) -> usize {
        self.tokens.num_in_flight()
    }

    fn fetch(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        let tokens = self.tokens.fetch(pages)?;
        let beside = self.rows.fetch(pages, |page| self.ranges(page))?;
        let both = tokens.into_iter().zip(beside);
        Ok(both.map(|(tokens, beside)| tokens.and(beside)).collect())
    }

    fn decode(
        &self,
        opener: &mut PageOpener,
        page: u64,
        fetched: &Fetched,
        recycle: Option<TokenPage>,
    ) -> Result<Page> {
        let decoded = self.tokens.decode(opener, page, fetched, recycle)?;
        let mut decoded = decoded.into_tokens()?;
        let rows = self.rows.index.rows_of_page(page)?;
        let record = self.rows.index.page(page)?;
        decoded.metadata.clear();
        for column in &self.columns {
            let array = match &column.origin {
                Origin::Pages(pages) => {
                    self.read((column, pages), opener, rows.clone(), &decoded, fetched)
                }
                _ => column
                    .told(&[(record.file, &decoded)])
                    .map_err(|(_, error)| self.rows.locate(error, &record)),
            };
            decoded.metadata.push(array?);
        }
        self.forget_payloads(&mut decoded);
        Ok(Page::Tokens(decoded))
    }

    fn has_loose(&self) -> bool {
        self.tokens.has_loose()
    }

    fn loose_tokens(&self, page: u64) -> Option<u64> {
        let mut origins = self.columns.iter().map(|column| &column.origin);
        let has_pages = origins.any(|origin| matches!(origin, Origin::Pages(_)));
        (!has_pages).then(|| self.tokens.loose_tokens(page))?
    }

    fn read_parts(
        &self,
        parts: &mut [&mut PagePart],
        buffer: &mut Vec<u8>,
    ) -> Result<PartReads, (u64, Error)> {
        let reads = self.tokens.read_parts(parts, buffer)?;
        self.tell(parts)?;
        Ok(reads)
    }

    fn will_need(&self, page: u64) {
        self.tokens.will_need(page);
    }

    fn held_bytes(&self) -> usize {
        self.tokens.held_bytes()
    }

    fn beside(&self) -> Beside {
        let own = Beside {
            bytes: self.bytes_read.load(Ordering::Relaxed),
            ..Beside::default()
        };
        let spans = self.spans().map(StreamSpans::beside);
        std::iter::once(own).chain(spans).sum()
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        self.tokens.locate(error, page)
    }
}
