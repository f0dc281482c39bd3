//! Plan of the copies into a batch: its segments of tokens in order, the pages they come
//! from, and the memory to prefetch meanwhile.

use std::ops::Range;

use super::gathering::Gathering;
use crate::engine::Page;
use crate::engine::bundle::Bundle;
use crate::engine::plan::Segment;
use crate::gather::Ahead;
use crate::packing::Piece;
use crate::prefetch::fetch;
use crate::tokens::TokenPage;

/// Distance in segments at which the memory of a later segment is prefetched.
const SEGMENTS_AHEAD: usize = 6;

/// Segments of a batch, to be copied in order.
pub(super) struct Copies<'a> {
    pub batch: &'a Gathering<'a>,
    /// Segments by destination, collected first: numbers just written are read again only
    /// behind the stores before them, which here would be those of tokens.
    pub segments: Vec<Segment>,
}

impl<'a> Copies<'a> {
    pub fn new(batch: &'a Gathering<'a>) -> Self {
        Self {
            batch,
            segments: batch.segments().collect(),
        }
    }

    /// Returns the places among `num_tokens` that no segment covers.
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

    /// Returns a segment whose page is in memory, and the page.
    fn held(&self, number: usize) -> Option<(&Segment, &'a TokenPage)> {
        let segment = self.segments.get(number)?;
        Some((segment, self.page(segment)?))
    }

    /// Prefetches where the tokens of a later segment begin, which is itself some segments
    /// ahead of the tokens.
    pub fn prefetch(&self, number: usize) {
        if let Some((later, page)) = self.held(number + SEGMENTS_AHEAD) {
            fetch(page.row_offsets.as_ptr().wrapping_add(later.row as usize));
        }
    }

    /// Returns the tokens to prefetch while segment `number` is copied.
    pub fn ahead(&self, number: usize, is_packed: bool) -> Ahead {
        if is_packed {
            return self.held(number + 1).map_or(Ahead::NONE, |(next, page)| {
                let pieces = self.bundle(next).and_then(|bundle| pieces_of(bundle, next));
                first_of(page, pieces.unwrap_or_default())
            });
        }
        self.held(number + 2).map_or(Ahead::NONE, |(next, page)| {
            Ahead::new(page, next.row, next.first_token, next.end - next.start)
        })
    }
}

/// Returns the pieces of a packed sequence.
pub(super) fn pieces_of<'a>(bundle: &'a Bundle, segment: &Segment) -> Option<&'a [Piece]> {
    bundle.packing()?.sequence(segment.row as usize)
}

/// The tokens of the first of `pieces`, to be fetched.
pub(super) fn first_of(page: &TokenPage, pieces: &[Piece]) -> Ahead {
    pieces.first().map_or(Ahead::NONE, |piece| {
        Ahead::new(
            page,
            piece.row,
            piece.first_token,
            piece.num_tokens as usize,
        )
    })
}
