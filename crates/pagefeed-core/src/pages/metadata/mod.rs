//! Metadata columns, read by row range for a page of tokens.

mod origin;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::FieldRef;
use arrow_select::concat::concat;
use arrow_select::take::take;

use crate::decode::conform;
use crate::engine::{ExtraReads, Loading, Page, PageEntry, PageSlice, PageSource, SliceReads};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::metadata::{spans, unwrapped};
use crate::page::PageOpener;
use crate::pages::reader::read_array;
use crate::pages::row_column::mean_row_bytes;
use crate::pages::row_ranges::{PageRows, SharedPage, SharedPages};
use crate::pages::sizes::saturated;
use crate::pages::stream_spans::StreamSpans;
use crate::storage::{Fetched, FileRanges, Waiting};
use crate::tokens::TokenPage;

use origin::Column;
pub use origin::{Origin, common_fields};

/// Pages of tokens, together with metadata of their rows.
pub struct WithMetadata {
    tokens: Arc<dyn PageSource>,
    /// Numbers the rows of the pages of tokens.
    rows: Indexed,
    columns: Vec<Column>,
    shared: Arc<SharedPages>,
    bytes_read: AtomicU64,
}

impl WithMetadata {
    /// Returns the pages of `tokens`, which belong to the index `rows`, with columns of
    /// the same files. `shared` keeps pages that several of them need.
    pub fn new(
        tokens: Arc<dyn PageSource>,
        rows: Indexed,
        origins: Vec<Origin>,
        fields: &[FieldRef],
        are_spans: &[bool],
        shared: &Arc<SharedPages>,
    ) -> Result<Self> {
        let num_files = rows.index.num_files();
        let each = origins.into_iter().zip(fields).zip(are_spans);
        let column = |((origin, field), &are_spans): ((Origin, &FieldRef), &bool)| {
            let row_bytes = match &origin {
                Origin::Pages(column) => {
                    column.check_rows(&rows)?;
                    mean_row_bytes(&column.index)?
                }
                Origin::Files(values) if values.len() != num_files => {
                    return Err(Error::invalid("give a value of the column for each file"));
                }
                Origin::Files(_) => 8,
                Origin::Spans(spans) => spans.row_bytes(),
                Origin::Nothing => 1,
            };
            Ok(Column {
                origin,
                data_type: field.data_type().clone(),
                are_spans,
                row_bytes,
            })
        };
        Ok(Self {
            columns: each.map(column).collect::<Result<_>>()?,
            shared: Arc::clone(shared),
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
        for slice in pages.page_rows(&rows)? {
            let count = slice.rows.len();
            let array = self.read_slice(column, pages, opener, &slice, fetched)?;
            if column.are_spans {
                let offsets = page.row_offsets.get(row..=row + count);
                let offsets = offsets.ok_or_else(|| Error::corrupt("rows without tokens"))?;
                let lengths: Vec<u32> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let first = slice.record.first_row_in_group + slice.rows.start as u64;
                spans::check(&array, &lengths, first)
                    .map_err(|error| pages.locate(error, &slice.record))?;
            }
            row += count;
            found.push(array);
        }
        let found: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
        Ok(concat(&found)?)
    }

    /// Adds metadata of the rows that slices touch.
    fn tell(&self, slices: &mut [&mut PageSlice]) -> Result<(), (u64, Error)> {
        let mut pages = Vec::with_capacity(slices.len());
        for slice in slices.iter() {
            let record = self.rows.index.page(slice.page);
            let file = record.map_err(|error| (slice.page, error))?.file;
            pages.push((file, &slice.loaded));
        }
        let told = self.columns.iter().map(|column| column.told(&pages));
        let told: Vec<ArrayRef> = told.collect::<Result<_, _>>().map_err(|(file, error)| {
            let place = pages.iter().position(|page| page.0 == file);
            (slices[place.unwrap_or(0)].page, error)
        })?;
        let mut row = 0;
        for slice in slices {
            let count = slice.loaded.row_offsets.len().saturating_sub(1);
            slice.loaded.metadata = told.iter().map(|array| array.slice(row, count)).collect();
            self.forget_payloads(&mut slice.loaded);
            row += count;
        }
        Ok(())
    }

    /// The spans, if the tokens come from streams.
    fn spans(&self) -> Option<&StreamSpans> {
        self.columns.iter().find_map(|column| match &column.origin {
            Origin::Spans(spans) => Some(&**spans),
            _ => None,
        })
    }

    /// Removes payload numbers from a page; they were read with its tokens for the
    /// spans.
    fn forget_payloads(&self, page: &mut TokenPage) {
        if self.spans().is_some() {
            page.aligned.pop();
        }
    }

    /// Reads the rows of a slice, without memory for others.
    fn read_slice(
        &self,
        column: &Column,
        pages: &Indexed,
        opener: &mut PageOpener,
        slice: &PageRows,
        fetched: &Fetched,
    ) -> Result<ArrayRef> {
        let make = || {
            self.bytes_read
                .fetch_add(slice.record.stored_size(), Ordering::Relaxed);
            let index = &pages.index;
            let whole = read_array(
                pages,
                opener,
                slice.page,
                fetched,
                index.field().data_type(),
            )?;
            let array = unwrapped(whole, index.field(), index.column())?;
            conform(&array, &column.data_type)
                .map(SharedPage::Rows)
                .map_err(|error| pages.locate(error, &slice.record))
        };
        let SharedPage::Rows(array) = self.shared.get_or_make(pages, slice, make)? else {
            return Err(Error::internal(
                "expected a page of rows, found one of numbers",
            ));
        };
        if slice.rows.len() == array.len() {
            return Ok(array);
        }
        let rows = slice.rows.start as u32..slice.rows.end as u32;
        Ok(take(&array, &UInt32Array::from_iter_values(rows), None)?)
    }

    /// Returns the byte ranges of the columns for a page, without those that are kept.
    fn ranges(&self, page: u64) -> Result<FileRanges> {
        let record = self.rows.index.page(page)?;
        let rows = self.rows.index.rows_of_page(page)?;
        let mut ranges = Vec::new();
        for column in &self.columns {
            let Origin::Pages(pages) = &column.origin else {
                continue;
            };
            for slice in pages.page_rows(&rows)? {
                if !self.shared.has(pages, &slice) {
                    ranges.extend(pages.index.run_ranges(slice.page, true)?.ranges);
                }
            }
        }
        let file = self.rows.index.file(record.file as usize);
        Ok(FileRanges::new(file, ranges))
    }
}

impl PageSource for WithMetadata {
    fn column(&self) -> Option<&Indexed> {
        Some(&self.rows)
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        let entry = self.tokens.entry(page)?;
        let rows = self.rows.index.rows_of_page(page)?;
        let row_bytes: u64 = self.columns.iter().map(|column| column.row_bytes).sum();
        let bytes = row_bytes.saturating_mul(rows.end - rows.start);
        Ok(PageEntry {
            decoded_size: entry.decoded_size.saturating_add(saturated(bytes)),
            ..entry
        })
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        Box::pin(async move {
            let tokens = self.tokens.fetch(pages).await?;
            let beside = self.rows.fetch(pages, |page| self.ranges(page)).await?;
            let both = tokens.into_iter().zip(beside);
            Ok(both.map(|(tokens, beside)| tokens.and(beside)).collect())
        })
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let Loading {
            opener, fetched, ..
        } = loading;
        let plain = Loading {
            opener: &mut *opener,
            ..loading
        };
        let mut decoded = self.tokens.decode(page, plain)?.into_tokens()?;
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

    fn slice_tokens(&self, page: u64) -> Option<u64> {
        let mut origins = self.columns.iter().map(|column| &column.origin);
        let has_pages = origins.any(|origin| matches!(origin, Origin::Pages(_)));
        self.tokens.slice_tokens(page).filter(|_| !has_pages)
    }

    fn extra_reads(&self) -> ExtraReads {
        let own = ExtraReads {
            bytes: self.bytes_read.load(Ordering::Relaxed),
            ..ExtraReads::default()
        };
        let spans = self.spans().map(StreamSpans::extra_reads);
        std::iter::once(own).chain(spans).sum()
    }

    fn read_slices(
        &self,
        slices: &mut [&mut PageSlice],
        buffer: &mut Vec<u8>,
    ) -> Result<SliceReads, (u64, Error)> {
        let reads = self.tokens.read_slices(slices, buffer)?;
        self.tell(slices)?;
        Ok(reads)
    }
}
