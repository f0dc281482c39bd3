//! The pages of one column of one dataset.

use crate::engine::{ExtraReads, Loading, Page, PageEntry, SliceSource};
use crate::error::Result;
use crate::pages::indexed::Indexed;
use crate::storage::Fetched;

/// Pages of a column: those of one index, or one page in memory.
pub trait ColumnSource: Send + Sync {
    /// Returns the index, which defines page numbers, storage, and locations of errors.
    fn column(&self) -> Option<&Indexed>;

    /// See [`PageSource::entry`](crate::engine::PageSource::entry).
    fn entry(&self, page: u64) -> Result<PageEntry>;

    /// Decodes a page from what was fetched, and reads the rest.
    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page>;

    /// See [`PageSource::decoded_size`](crate::engine::PageSource::decoded_size).
    fn decoded_size(&self, entry: &PageEntry) -> usize {
        entry.decoded_size
    }

    /// See [`PageSource::fetch`](crate::engine::PageSource::fetch).
    fn fetch(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        match self.column() {
            Some(column) => column.fetch(pages, |page| column.index.run_ranges(page, true)),
            None => Ok(pages.iter().map(|_| Fetched::default()).collect()),
        }
    }

    /// Returns the source of slices of pages, if they need not be decoded for their
    /// tokens.
    fn slices(&self) -> Option<&dyn SliceSource> {
        None
    }

    /// Returns counts of reads so far that entries and slices do not include.
    fn extra_reads(&self) -> ExtraReads {
        ExtraReads::default()
    }
}
