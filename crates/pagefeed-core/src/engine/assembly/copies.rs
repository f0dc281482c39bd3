//! Plan of the copies into a batch: its segments of tokens in order, the pages they come
//! from, and the memory to prefetch meanwhile.

use std::ops::Range;

use super::gathering::Gathering;
use crate::engine::Page;
use crate::engine::bundle::Bundle;
use crate::engine::plan::Segment;
use crate::gather::Ahead;
use crate::packing::{Packing, Part};
use crate::prefetch::fetch;
use crate::tokens::TokenPage;

/// Distances in segments at which memory of a later segment is prefetched. Each address is
/// read from what the one before it fetched.
mod ahead {
    /// Index of the begin of its row, or of the parts of a packed sequence.
    pub const ROW: usize = 6;
    /// Number of the parts of a packed sequence.
    pub const PARTS: usize = 4;
    /// Index of the begins of the rows of its parts.
    pub const ROWS_OF_PARTS: usize = 2;
}

/// Segments of a batch, to be copied in order.
pub(super) struct Copies<'a> {
    pub batch: &'a Gathering<'a>,
    /// Segments by destination, collected first: numbers just written are read again
    /// only after the stores before them, which here would be those of tokens.
    pub segments: Vec<Segment>,
}

impl<'a> Copies<'a> {
    pub fn new(batch: &'a Gathering<'a>) -> Self {
        Self {
            batch,
            segments: batch.segments().collect(),
        }
    }

    /// Returns the positions among `num_tokens` that no segment covers.
    pub fn gaps(&self, num_tokens: usize) -> impl Iterator<Item = Range<usize>> {
        let covered = self.segments.iter().filter(|each| each.start < each.end);
        let begins = covered.clone().map(|segment| segment.start);
        let ends = covered.map(|segment| segment.end);
        let gaps = std::iter::once(0).chain(ends);
        gaps.zip(begins.chain([num_tokens]))
            .map(|(end, begin)| end..begin)
    }

    /// Returns the page of a segment, if it is in memory and has tokens.
    pub fn page(&self, segment: &Segment) -> Option<&'a TokenPage> {
        let page = self.batch.pages[segment.page_use].as_deref();
        page.and_then(Page::tokens)
    }

    fn bundle(&self, segment: &Segment) -> Option<&'a Bundle> {
        let bundle = self.batch.bundles.get(segment.page_use);
        bundle.and_then(Option::as_deref)
    }

    /// Returns the bundle of a segment that is a packed sequence.
    pub fn packed(&self, segment: &Segment) -> Option<&'a Bundle> {
        self.bundle(segment)
            .filter(|bundle| bundle.packing().is_some())
    }

    /// Returns the page that an error of a segment names.
    pub fn first_page(&self, segment: &Segment) -> u64 {
        let first = self.bundle(segment).and_then(Bundle::first_page);
        first.unwrap_or(segment.page)
    }

    fn packing(&self, segment: &Segment) -> Option<&'a Packing> {
        self.bundle(segment).and_then(Bundle::packing)
    }

    fn parts(&self, number: usize) -> Option<&'a [Part]> {
        let segment = self.segments.get(number)?;
        self.packing(segment)?.sequence(segment.row as usize)
    }

    /// Returns a segment whose page is in memory, and the page.
    fn held(&self, number: usize) -> Option<(&Segment, &'a TokenPage)> {
        let segment = self.segments.get(number)?;
        Some((segment, self.page(segment)?))
    }

    /// Prefetches what says where the tokens of later segments begin, while segment
    /// `number` is copied.
    pub fn prefetch(&self, number: usize) {
        if let Some((later, page)) = self.held(number + ahead::ROW) {
            match self.packing(later) {
                None => fetch_row(page, later.row),
                Some(packing) => packing.prefetch(later.row as usize),
            }
        }
        if self.batch.bundles.is_empty() {
            return;
        }
        if let Some(parts) = self.parts(number + ahead::PARTS) {
            fetch(parts.as_ptr());
        }
        if let Some((_, page)) = self.held(number + ahead::ROWS_OF_PARTS)
            && let Some(parts) = self.parts(number + ahead::ROWS_OF_PARTS)
        {
            parts.iter().for_each(|part| fetch_row(page, part.row));
        }
    }

    /// Returns the tokens to prefetch while segment `number` is copied.
    pub fn ahead(&self, number: usize, is_packed: bool) -> Ahead {
        if is_packed {
            return self.held(number + 1).map_or(Ahead::NONE, |(next, page)| {
                let parts = self.bundle(next).and_then(|bundle| parts_of(bundle, next));
                first_of(page, parts.unwrap_or_default())
            });
        }
        self.held(number + 2).map_or(Ahead::NONE, |(next, page)| {
            Ahead::new(page, next.row, next.first_token, next.end - next.start)
        })
    }
}

fn fetch_row(page: &TokenPage, row: u32) {
    fetch(page.row_offsets.as_ptr().wrapping_add(row as usize));
}

/// Returns the parts of a packed sequence.
pub(super) fn parts_of<'a>(bundle: &'a Bundle, segment: &Segment) -> Option<&'a [Part]> {
    bundle.packing()?.sequence(segment.row as usize)
}

/// The tokens of the first of `parts`, to be fetched.
pub(super) fn first_of(page: &TokenPage, parts: &[Part]) -> Ahead {
    parts.first().map_or(Ahead::NONE, |part| {
        Ahead::new(page, part.row, part.first_token, part.num_tokens as usize)
    })
}
