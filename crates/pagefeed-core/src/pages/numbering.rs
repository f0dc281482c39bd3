//! Pages of several columns and datasets, numbered through.

use std::sync::Arc;

use crate::decode::TokenPage;
use crate::engine::{Beside, Page, PageEntry, PagePart, PageSource, PartReads};
use crate::error::{Error, Result};
use crate::page::PageOpener;
use crate::pages::dictionaries::{DictionaryCache, OpenedCache};
use crate::pages::metadata::RowsCache;
use crate::storage::Fetched;

/// Pages of several sources, numbered through in their order.
pub struct NumberedPages {
    parts: Vec<Part>,
    num_pages: u64,
    num_in_flight: usize,
    /// What the sources keep together.
    dictionaries: Arc<DictionaryCache>,
    opened: Option<Arc<OpenedCache>>,
    rows: Option<Arc<RowsCache>>,
}

struct Part {
    source: Arc<dyn PageSource>,
    /// Number of its first page.
    first_page: u64,
}

impl NumberedPages {
    /// Numbers the pages of `sources`, which keep their `dictionaries` together.
    pub fn new(sources: Vec<Arc<dyn PageSource>>, dictionaries: Arc<DictionaryCache>) -> Self {
        let in_flight = sources.iter().map(|source| source.num_in_flight());
        let num_in_flight = in_flight.max().unwrap_or(0);
        let mut num_pages = 0;
        let part = |source: Arc<dyn PageSource>| {
            let first_page = num_pages;
            num_pages += source.num_pages();
            Part { source, first_page }
        };
        let parts = sources.into_iter().map(part).collect();
        Self {
            parts,
            num_pages,
            num_in_flight,
            dictionaries,
            opened: None,
            rows: None,
        }
    }

    /// The same of sources that keep opened and decoded pages together.
    pub fn keeping(mut self, opened: Arc<OpenedCache>, rows: Arc<RowsCache>) -> Self {
        self.opened = Some(opened);
        self.rows = Some(rows);
        self
    }

    /// The part that a page is of, and its number there.
    fn find(&self, page: u64) -> Result<(usize, u64)> {
        if page >= self.num_pages {
            return Err(Error::invalid(format!(
                "page {page} is out of range: there are {} pages",
                self.num_pages
            )));
        }
        let part = self.parts.partition_point(|part| part.first_page <= page) - 1;
        Ok((part, page - self.parts[part].first_page))
    }

    fn source(&self, part: usize) -> &dyn PageSource {
        &*self.parts[part].source
    }
}

impl PageSource for NumberedPages {
    fn num_pages(&self) -> u64 {
        self.num_pages
    }

    fn entry(&self, page: u64) -> PageEntry {
        self.find(page).map_or_else(
            |_| PageEntry::default(),
            |(part, page)| PageEntry {
                kind: part,
                ..self.source(part).entry(page)
            },
        )
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        match self.parts.get(entry.kind) {
            Some(part) => part.source.decoded_size(entry),
            None => entry.decoded_size,
        }
    }

    fn num_in_flight(&self) -> usize {
        self.num_in_flight
    }

    fn fetch(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        let found: Vec<(usize, u64)> = pages
            .iter()
            .map(|&page| self.find(page))
            .collect::<Result<_>>()?;
        let mut fetched = Vec::with_capacity(pages.len());
        for same in found.chunk_by(|one, next| one.0 == next.0) {
            let pages: Vec<u64> = same.iter().map(|(_, page)| *page).collect();
            fetched.extend(self.source(same[0].0).fetch(&pages)?);
        }
        Ok(fetched)
    }

    fn decode(
        &self,
        opener: &mut PageOpener,
        page: u64,
        fetched: &Fetched,
        recycle: Option<TokenPage>,
    ) -> Result<Page> {
        let (part, page) = self.find(page)?;
        self.source(part).decode(opener, page, fetched, recycle)
    }

    fn has_loose(&self) -> bool {
        (0..self.parts.len()).any(|part| self.source(part).has_loose())
    }

    fn loose_tokens(&self, page: u64) -> Option<u64> {
        let (part, page) = self.find(page).ok()?;
        self.source(part).loose_tokens(page)
    }

    fn read_parts(
        &self,
        parts: &mut [&mut PagePart],
        buffer: &mut Vec<u8>,
    ) -> Result<PartReads, (u64, Error)> {
        let mut sum = PartReads::default();
        for (number, part) in self.parts.iter().enumerate() {
            let end = part.first_page + part.source.num_pages();
            let own = parts
                .iter_mut()
                .filter(|each| (part.first_page..end).contains(&each.page));
            let mut own: Vec<&mut PagePart> = own.map(|each| &mut **each).collect();
            if own.is_empty() {
                continue;
            }
            own.iter_mut().for_each(|each| each.page -= part.first_page);
            let result = self.source(number).read_parts(&mut own, buffer);
            own.iter_mut().for_each(|each| each.page += part.first_page);
            let found = result.map_err(|(page, error)| (page + part.first_page, error))?;
            sum.reads += found.reads;
            sum.bytes += found.bytes;
        }
        Ok(sum)
    }

    fn will_need(&self, page: u64) {
        if let Ok((part, page)) = self.find(page) {
            self.source(part).will_need(page);
        }
    }

    fn held_bytes(&self) -> usize {
        let opened = self.opened.as_ref().map_or(0, |opened| opened.num_bytes());
        let rows = self.rows.as_ref().map_or(0, |rows| rows.num_bytes());
        self.dictionaries.num_bytes() + opened + rows
    }

    fn beside(&self) -> Beside {
        let parts = self.parts.iter();
        parts.map(|part| part.source.beside()).sum()
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        match self.find(page) {
            Ok((part, page)) => self.source(part).locate(error, page),
            Err(_) => error,
        }
    }
}

/// Bytes as memory counts them.
pub(super) fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
