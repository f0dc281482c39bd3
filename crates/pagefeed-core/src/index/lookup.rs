//! From rows, values and page numbers to pages: a binary search over the spans, then
//! one inside the span.

use std::ops::Range;

use super::chunk::{HOLDS_NULLS, NEEDS_DICTIONARY, STARTS_MID_RECORD};
use super::record::PageRecord;
use super::table::Table;
use crate::codec::Codec;
use crate::error::{Error, Result};

/// A page: its span, and the index of its numbers in the arrays of pages.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Number of the page.
    pub page: u64,
    /// Number of its span.
    pub span: usize,
    /// Index into the arrays with one more number per span.
    pub fence: usize,
}

fn out_of_range(what: &str, number: u64, count: u64) -> Error {
    Error::invalid(format!(
        "{what} {number} is out of range: there are {count}"
    ))
}

/// The index contradicts itself: its file was damaged after it was written.
pub fn damaged() -> Error {
    Error::corrupt("the page index is damaged; build it again")
}

fn last(first: &[u64]) -> u64 {
    first.last().copied().unwrap_or(0)
}

impl Table {
    /// Number of pages.
    pub fn num_pages(&self) -> u64 {
        last(&self.first_page)
    }

    /// Number of rows.
    pub fn num_rows(&self) -> u64 {
        last(&self.first_row)
    }

    /// Number of values.
    pub fn num_values(&self) -> u64 {
        last(&self.first_value)
    }

    /// Pages with a row that holds a null.
    pub fn null_pages(&self) -> Vec<u64> {
        let pages = (0..).zip(&self.page_flags[..]);
        let pages = pages.filter(|(_, flags)| *flags & HOLDS_NULLS != 0);
        pages.map(|(page, _)| page).collect()
    }

    /// Whether a page begins in the middle of a record.
    pub fn splits_records(&self) -> bool {
        self.page_flags
            .iter()
            .any(|flags| flags & STARTS_MID_RECORD != 0)
    }

    /// Returns the entries of `first` (one per span, and the total) at the beginning of
    /// each file.
    pub fn at_files(&self, first: &[u64]) -> Vec<u64> {
        self.file_first_span
            .iter()
            .map(|span| first.get(*span as usize).copied().unwrap_or(0))
            .collect()
    }

    /// Finds a page by its number.
    pub fn find(&self, page: u64) -> Result<Found> {
        if page >= self.num_pages() {
            return Err(out_of_range("page", page, self.num_pages()));
        }
        let span = self
            .first_page
            .partition_point(|first| *first <= page)
            .checked_sub(1)
            .ok_or_else(damaged)?;
        let fence = page as usize + span;
        if span >= self.file.len() || fence + 1 >= self.page_row.len() {
            return Err(damaged());
        }
        Ok(Found { page, span, fence })
    }

    /// Stored bytes of `page`, with its share of the dictionary page of its span.
    pub fn bytes_of_page(&self, page: u64) -> Result<u64> {
        let found = self.find(page)?;
        let begin = self.first_page[found.span] as usize + found.span;
        let end = self.first_page[found.span + 1] as usize + found.span;
        let at = |fence: usize| self.page_offset.get(fence).copied().ok_or_else(damaged);
        let size = u64::from(at(found.fence + 1)?.saturating_sub(at(found.fence)?));
        let span = u64::from(at(end)?.saturating_sub(at(begin)?).max(1));
        let dictionary = u64::from(self.dictionary_size[found.span]);
        Ok(size + dictionary * size / span)
    }

    /// Rows before `page`, which may be one past the last.
    pub fn first_row_of_page(&self, page: u64) -> Result<u64> {
        self.before(&self.first_row, &self.page_row, page)
    }

    /// Values before `page`, which may be one past the last.
    pub fn first_value_of_page(&self, page: u64) -> Result<u64> {
        self.before(&self.first_value, &self.page_value, page)
    }

    /// Appends the number of rows of each of `pages`.
    pub fn append_rows(&self, pages: Range<u64>, rows: &mut Vec<u32>) -> Result<()> {
        let mut page = pages.start;
        while page < pages.end {
            let found = self.find(page)?;
            let fences = self.fences(found.span)?;
            let last = (found.fence as u64 + (pages.end - page)).min(fences.end as u64 - 1);
            let before = &self.page_row[found.fence..=last as usize];
            rows.extend(before.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])));
            page += last - found.fence as u64;
        }
        Ok(())
    }

    fn before(&self, first: &[u64], relative: &[u32], page: u64) -> Result<u64> {
        if page == self.num_pages() {
            return Ok(last(first));
        }
        let found = self.find(page)?;
        let before = u64::from(relative[found.fence]);
        first[found.span].checked_add(before).ok_or_else(damaged)
    }

    /// Page in which `row` begins.
    pub fn page_of_row(&self, row: u64) -> Result<u64> {
        if row >= self.num_rows() {
            return Err(out_of_range("row", row, self.num_rows()));
        }
        self.search(&self.first_row, &self.page_row, row)
    }

    /// Page that holds `value`.
    pub fn page_of_value(&self, value: u64) -> Result<u64> {
        if value >= self.num_values() {
            return Err(out_of_range("value", value, self.num_values()));
        }
        self.search(&self.first_value, &self.page_value, value)
    }

    /// Returns the last page that begins at or before `number`. It holds the number,
    /// since later pages begin after it, and empty pages before it end there.
    fn search(&self, first: &[u64], relative: &[u32], number: u64) -> Result<u64> {
        let span = first
            .partition_point(|first| *first <= number)
            .wrapping_sub(1);
        let fences = self.fences(span)?;
        let within = number - first[span];
        let pages = &relative[fences.start..fences.end - 1];
        let page = pages.partition_point(|start| u64::from(*start) <= within);
        match page.checked_sub(1) {
            Some(page) => Ok(self.first_page[span].saturating_add(page as u64)),
            None => Err(damaged()),
        }
    }

    /// Indexes of a span into the arrays that have one number more per span.
    #[inline]
    pub fn fences(&self, span: usize) -> Result<Range<usize>> {
        let (Some(start), Some(end)) = (
            self.first_page.get(span),
            self.first_page.get(span.wrapping_add(1)),
        ) else {
            return Err(damaged());
        };
        let fence = |page: u64| (page as usize).saturating_add(span);
        let fences = fence(*start)..fence(*end).saturating_add(1);
        if fences.len() < 2 || fences.end > self.page_row.len() {
            return Err(damaged());
        }
        Ok(fences)
    }

    /// Rows before the row group of a page.
    pub fn first_row_of_group(&self, found: Found) -> u64 {
        let group = (self.file[found.span], self.row_group[found.span]);
        let (mut low, mut high) = (0, found.span);
        while low < high {
            let middle = low.midpoint(high);
            if (self.file[middle], self.row_group[middle]) < group {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.first_row[low]
    }

    /// Bytes of a page in its file.
    pub fn byte_range(&self, found: Found) -> Range<u64> {
        let offset = self.offset[found.span];
        offset.saturating_add(self.page_offset[found.fence].into())
            ..offset.saturating_add(self.page_offset[found.fence + 1].into())
    }

    /// Flags of a page.
    pub fn flags(&self, found: Found) -> u8 {
        self.page_flags[found.page as usize]
    }

    /// Returns the page after `found`, if the last record of `found` ends in it.
    pub fn tail(&self, found: Found) -> Option<Found> {
        let next = self.find(found.page + 1).ok()?;
        let chunk = |at: Found| (self.file[at.span], self.row_group[at.span]);
        let continues = self.flags(next) & STARTS_MID_RECORD != 0 && chunk(next) == chunk(found);
        continues.then_some(next)
    }

    /// Codec of a page.
    pub fn codec(&self, found: Found) -> Result<Codec> {
        Codec::from_thrift(i32::from(self.codec[found.span]))
    }

    /// Bytes of the dictionary page of a page's chunk.
    pub fn dictionary(&self, found: Found) -> Option<Range<u64>> {
        let size = u64::from(self.dictionary_size[found.span]);
        let offset = self.dictionary_offset[found.span];
        (size > 0).then(|| offset..offset.saturating_add(size))
    }

    /// Everything about a page.
    pub fn record(&self, page: u64) -> Result<PageRecord> {
        let found = self.find(page)?;
        let bytes = self.byte_range(found);
        let tail = self.tail(found);
        let first_row = self.first_row_of_page(page)?;
        let file = self.file[found.span];
        let file_row = self.file_first_span.get(file as usize);
        let file_row = file_row.and_then(|span| self.first_row.get(*span as usize));
        let minus = |end: u64, start: u64| end.checked_sub(start).ok_or_else(damaged);
        let flags = self.flags(found) | tail.map_or(0, |tail| self.flags(tail));
        let in_span = minus(page, self.first_page[found.span])?;
        Ok(PageRecord {
            file,
            row_group: self.row_group[found.span],
            page: self.first_number[found.span].saturating_add(in_span as u32),
            first_row: minus(first_row, *file_row.ok_or_else(damaged)?)?,
            first_row_in_group: minus(first_row, self.first_row_of_group(found))?,
            num_rows: minus(self.first_row_of_page(page + 1)?, first_row)?,
            num_values: minus(
                self.first_value_of_page(page + 1)?,
                self.first_value_of_page(page)?,
            )?,
            offset: bytes.start,
            compressed_size: minus(bytes.end, bytes.start)?,
            tail_size: match tail {
                Some(tail) => minus(self.byte_range(tail).end, bytes.end)?,
                None => 0,
            },
            starts_mid_record: self.flags(found) & STARTS_MID_RECORD != 0,
            codec: self.codec(found)?,
            dictionary: self
                .dictionary(found)
                .filter(|_| flags & NEEDS_DICTIONARY != 0),
        })
    }
}
