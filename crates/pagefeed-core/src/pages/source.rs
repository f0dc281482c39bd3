//! The pages of one column of one dataset.

use crate::engine::{ExtraReads, Page, PageEntry, PartSource};
use crate::error::Result;
use crate::page::PageOpener;
use crate::pages::indexed::Indexed;
use crate::storage::Fetched;
use crate::tokens::TokenPage;

/// What a page is made with.
pub struct Loading<'a> {
    /// Buffers of the thread.
    pub opener: &'a mut PageOpener,
    /// What was fetched of the page.
    pub fetched: &'a Fetched,
    /// A spent page whose memory may be used.
    pub recycle: Option<TokenPage>,
    /// The epoch that it is made for: documents are infilled anew in each.
    pub epoch: u64,
}

/// Pages of a column: those of one index, or one page that is there already.
pub trait ColumnSource: Send + Sync {
    /// The index: page numbers, storage and the places of errors are its own.
    fn column(&self) -> Option<&Indexed>;

    /// See [`PageSource::entry`](crate::engine::PageSource::entry).
    fn entry(&self, page: u64) -> Result<PageEntry>;

    /// Makes a page of what was fetched of it; reads what was not.
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

    /// The source of parts of pages, if they need not be decoded for their tokens.
    fn parts(&self) -> Option<&dyn PartSource> {
        None
    }

    /// What was read so far that entries and parts do not count.
    fn extra_reads(&self) -> ExtraReads {
        ExtraReads::default()
    }
}
