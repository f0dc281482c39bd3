//! Sources of pages.

use super::Page;
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::page::PageOpener;
use crate::storage::{Fetched, Waiting};
use crate::tokens::TokenPage;

/// Facts for the scheduler about a page or a bundle.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageEntry {
    /// Stored bytes, as far as known.
    pub stored_size: usize,
    /// Estimate of the decoded bytes, as far as it is constant.
    pub decoded_size: usize,
    /// Further bytes that are needed while it is loaded.
    pub loading_size: usize,
    /// Number that the source gives pages of one kind.
    pub kind: usize,
    /// Number of its file, among files of its kind.
    pub file: usize,
    /// Values of each of its columns, as far as known.
    pub num_values: usize,
}

impl PageEntry {
    /// A page that is loaded as one.
    pub fn new(stored_size: usize, decoded_size: usize) -> Self {
        Self {
            stored_size,
            decoded_size,
            loading_size: stored_size,
            kind: 0,
            file: 0,
            num_values: 0,
        }
    }
}

/// Tools and inputs for making a page.
pub struct Loading<'a> {
    /// Buffers of the thread.
    pub opener: &'a mut PageOpener,
    /// Bytes that were fetched for the page.
    pub fetched: &'a Fetched,
    /// Epoch that the page is made for: documents are infilled differently in each.
    pub epoch: u32,
}

/// Tokens of a page that are read without the rest of the page.
#[derive(Debug, Default)]
pub struct PageSlice {
    /// Number of the page.
    pub page: u64,
    /// Row of the page at which the slice begins.
    pub row: u32,
    /// Token within that row, counting separators; may be in a later row.
    pub first_token: u32,
    /// Number of tokens in the slice.
    pub num_tokens: u32,
    /// Separators that every row gets.
    pub per_row: u32,
    /// The rows that were read for the slice.
    pub loaded: TokenPage,
    /// First token of the slice, counted within the first of these rows.
    pub first: u32,
}

/// Counts of reads of slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct SliceReads {
    /// Ranges of files that were read.
    pub reads: u64,
    /// Bytes read for slices.
    pub bytes: u64,
}

/// Reads of a source beyond those of pages and slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtraReads {
    /// Stored bytes of all these reads, and of pages that several pages of tokens share.
    pub bytes: u64,
    /// Reads of the index of payloads of spans.
    pub index_reads: u64,
    /// Reads of payloads of spans.
    pub payload_reads: u64,
}

impl std::iter::Sum for ExtraReads {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        each.fold(Self::default(), |sum, one| Self {
            bytes: sum.bytes + one.bytes,
            index_reads: sum.index_reads + one.index_reads,
            payload_reads: sum.payload_reads + one.payload_reads,
        })
    }
}

/// Pages by number: those of an index, those of several sources, or one page in memory.
///
/// The engine calls `entry`, `decoded_size`, `num_in_flight`, `num_wanted` and `held_bytes`
/// under its lock: they must be quick.
pub trait PageSource: Send + Sync {
    /// Returns the index of its pages, if they are of one: it gives page numbers, storage,
    /// and locations of errors.
    fn column(&self) -> Option<&Indexed> {
        None
    }

    /// Returns the facts of a page for the scheduler. Called once, when a plan has the
    /// page.
    fn entry(&self, page: u64) -> Result<PageEntry>;

    /// Estimate of the decoded page's bytes, before it is loaded; it may improve while
    /// other pages are loaded.
    fn decoded_size(&self, entry: &PageEntry) -> usize {
        entry.decoded_size
    }

    /// Fetches that are best under way at one time, ahead of decoding; 0 if decoding a
    /// page may as well read it, as of local files.
    fn num_in_flight(&self) -> usize {
        let column = self.column();
        column.map_or(0, |column| column.storage.num_in_flight())
    }

    /// Fetches to have begun at present, see [`Storage::num_wanted`].
    fn num_wanted(&self) -> usize {
        match self.column() {
            Some(column) => column.storage.num_wanted(),
            None => self.num_in_flight(),
        }
    }

    /// Reads what is needed to decode each of `pages`, unless the source keeps it.
    /// Called only for pages in flight.
    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        Box::pin(async move {
            let Some(column) = self.column() else {
                return Ok(pages.iter().map(|_| Fetched::default()).collect());
            };
            let ranges = |page| column.index.run_ranges(page, true);
            column.fetch(pages, ranges).await
        })
    }

    /// Runs a fetch to its end; returns at once.
    fn spawn(&self, fetch: Waiting<'static, ()>) {
        if let Some(column) = self.column() {
            column.storage.spawn(fetch);
        }
    }

    /// Decodes a page from what was fetched, and reads the rest.
    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page>;

    /// Tokens of a page that stores plain tokens, so that slices of it can be read; `None`
    /// for a page that must be decoded.
    fn slice_tokens(&self, _page: u64) -> Option<u64> {
        None
    }

    /// Reads slices of pages that store plain tokens; neighbours are read together.
    /// `buffer` is scratch memory. An error names one of the pages.
    fn read_slices(
        &self,
        slices: &mut [&mut PageSlice],
        _buffer: &mut Vec<u8>,
    ) -> Result<SliceReads, (u64, Error)> {
        let page = slices.first().map_or(0, |slice| slice.page);
        Err((page, Error::internal("the page must be decoded")))
    }

    /// Advice: the page will be read soon.
    fn will_need(&self, page: u64) {
        if let Some(column) = self.column() {
            column.will_need(page);
        }
    }

    /// Bytes that the source itself keeps between loads (decoded dictionaries);
    /// they count against the budget.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Counts of reads so far that entries and slices do not include.
    fn extra_reads(&self) -> ExtraReads {
        ExtraReads::default()
    }

    /// Adds file and location of `page` to an error.
    fn locate(&self, error: Error, page: u64) -> Error {
        match self.column() {
            Some(column) => column.locate_page(error, page),
            None => error,
        }
    }
}
