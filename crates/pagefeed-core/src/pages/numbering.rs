//! Pages of several columns and datasets, numbered consecutively.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{ExtraReads, Loading, Page, PageEntry, PageSlice, PageSource, SliceReads};
use crate::error::{Error, Result};
use crate::pages::dictionaries::DictionaryCache;
use crate::pages::row_ranges::SharedPages;
use crate::storage::{Fetched, Waiting};

/// Pages of several sources, numbered consecutively in their order.
pub struct NumberedPages {
    sources: Vec<Numbered>,
    num_pages: u64,
    num_in_flight: usize,
    /// Decoded dictionaries, shared by the sources.
    dictionaries: Arc<DictionaryCache>,
    shared: Arc<SharedPages>,
}

/// A source, and the range of its page numbers.
struct Numbered {
    source: Arc<dyn PageSource>,
    /// The numbers of its pages.
    pages: Range<u64>,
}

impl NumberedPages {
    /// Numbers the pages of `sources`, which keep `dictionaries` and `shared` together.
    pub fn new(
        sources: Vec<Arc<dyn PageSource>>,
        dictionaries: Arc<DictionaryCache>,
        shared: Arc<SharedPages>,
    ) -> Self {
        let in_flight = sources.iter().map(|source| source.num_in_flight());
        let num_in_flight = in_flight.max().unwrap_or(0);
        let mut num_pages = 0;
        let numbered = |source: Arc<dyn PageSource>| {
            let first = num_pages;
            num_pages += source.column().map_or(1, |column| column.index.num_pages());
            let pages = first..num_pages;
            Numbered { source, pages }
        };
        Self {
            sources: sources.into_iter().map(numbered).collect(),
            num_pages,
            num_in_flight,
            dictionaries,
            shared,
        }
    }

    /// Returns the source of a page, and the number of the page in it.
    fn find(&self, page: u64) -> Result<(usize, u64)> {
        let kind = self
            .sources
            .partition_point(|source| source.pages.end <= page);
        match self.sources.get(kind) {
            Some(source) => Ok((kind, page - source.pages.start)),
            None => Err(Error::invalid(format!(
                "page {page} is out of range: there are {} pages",
                self.num_pages
            ))),
        }
    }

    fn source(&self, kind: usize) -> &dyn PageSource {
        &*self.sources[kind].source
    }
}

impl PageSource for NumberedPages {
    fn entry(&self, page: u64) -> Result<PageEntry> {
        let (kind, page) = self.find(page)?;
        let entry = self.source(kind).entry(page)?;
        Ok(PageEntry { kind, ..entry })
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        match self.sources.get(entry.kind) {
            Some(numbered) => numbered.source.decoded_size(entry),
            None => entry.decoded_size,
        }
    }

    fn num_in_flight(&self) -> usize {
        self.num_in_flight
    }

    fn num_wanted(&self) -> usize {
        let sources = self.sources.iter();
        let wanted = sources.map(|numbered| numbered.source.num_wanted());
        wanted.max().unwrap_or(0)
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        Box::pin(async move {
            let located = pages.iter().map(|&page| self.find(page));
            let located: Vec<(usize, u64)> = located.collect::<Result<_>>()?;
            let mut fetched = Vec::with_capacity(pages.len());
            for same in located.chunk_by(|one, next| one.0 == next.0) {
                let pages: Vec<u64> = same.iter().map(|(_, page)| *page).collect();
                fetched.extend(self.source(same[0].0).fetch(&pages).await?);
            }
            Ok(fetched)
        })
    }

    fn spawn(&self, fetch: Waiting<'static, ()>) {
        let mut sources = self.sources.iter().map(|numbered| &numbered.source);
        if let Some(source) = sources.find(|source| source.num_in_flight() > 0) {
            source.spawn(fetch);
        }
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let (kind, page) = self.find(page)?;
        self.source(kind).decode(page, loading)
    }

    fn will_need(&self, page: u64) {
        if let Ok((kind, page)) = self.find(page) {
            self.source(kind).will_need(page);
        }
    }

    fn held_bytes(&self) -> usize {
        self.dictionaries.num_bytes() + self.shared.num_bytes()
    }

    fn extra_reads(&self) -> ExtraReads {
        let sources = self.sources.iter();
        sources.map(|numbered| numbered.source.extra_reads()).sum()
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        match self.find(page) {
            Ok((kind, page)) => self.source(kind).locate(error, page),
            Err(_) => error,
        }
    }

    fn slice_tokens(&self, page: u64) -> Option<u64> {
        let (kind, page) = self.find(page).ok()?;
        self.source(kind).slice_tokens(page)
    }

    fn read_slices(
        &self,
        slices: &mut [&mut PageSlice],
        buffer: &mut Vec<u8>,
    ) -> Result<SliceReads, (u64, Error)> {
        let mut sum = SliceReads::default();
        for numbered in &self.sources {
            let before = numbered.pages.start;
            let own = slices.iter_mut();
            let own = own.filter(|slice| numbered.pages.contains(&slice.page));
            let mut own: Vec<&mut PageSlice> = own.map(|slice| &mut **slice).collect();
            if own.is_empty() {
                continue;
            }
            own.iter_mut().for_each(|slice| slice.page -= before);
            let result = numbered.source.read_slices(&mut own, buffer);
            own.iter_mut().for_each(|slice| slice.page += before);
            let reads = result.map_err(|(page, error)| (page + before, error))?;
            sum.reads += reads.reads;
            sum.bytes += reads.bytes;
        }
        Ok(sum)
    }
}
