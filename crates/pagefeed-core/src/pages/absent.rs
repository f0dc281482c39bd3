//! Pages of tokens without columns that other datasets have.

use std::sync::Arc;

use crate::engine::{ExtraReads, Loading, Page, PageEntry, PageSlice, PageSource, SliceReads};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::storage::{Fetched, Waiting};
use crate::tokens::{Numbers, TokenPage};

/// Pages of tokens whose aligned columns are in the order of batches. Columns that the
/// dataset lacks are absent, and batches get padding for them.
pub struct WithAbsent {
    pages: Arc<dyn PageSource>,
    /// For each column of batches, whether the pages have it.
    has: Vec<bool>,
}

impl WithAbsent {
    /// The `pages`, which have some of the columns of batches, in their order.
    pub fn new(pages: Arc<dyn PageSource>, has: Vec<bool>) -> Self {
        Self { pages, has }
    }

    /// Puts aligned numbers in the order of batches, followed by those of no batch
    /// column.
    fn add_absent(&self, page: &mut TokenPage) {
        let mut own = std::mem::take(&mut page.aligned).into_iter();
        let all = self.has.iter().map(|&has| match has {
            true => own.next().unwrap_or_default(),
            false => Numbers::default(),
        });
        page.aligned = all.collect();
        page.aligned.extend(own);
    }
}

impl PageSource for WithAbsent {
    fn column(&self) -> Option<&Indexed> {
        self.pages.column()
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        self.pages.entry(page)
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        self.pages.decoded_size(entry)
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        self.pages.fetch(pages)
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let mut page = self.pages.decode(page, loading)?.into_tokens()?;
        self.add_absent(&mut page);
        Ok(Page::Tokens(page))
    }

    fn extra_reads(&self) -> ExtraReads {
        self.pages.extra_reads()
    }

    fn slice_tokens(&self, page: u64) -> Option<u64> {
        self.pages.slice_tokens(page)
    }

    fn read_slices(
        &self,
        slices: &mut [&mut PageSlice],
        buffer: &mut Vec<u8>,
    ) -> Result<SliceReads, (u64, Error)> {
        let reads = self.pages.read_slices(slices, buffer)?;
        for slice in slices {
            self.add_absent(&mut slice.loaded);
        }
        Ok(reads)
    }
}
