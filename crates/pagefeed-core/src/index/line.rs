//! The line of all tokens of an index: its rows end to end, each with as many
//! separators as any other; and ranges of it, cut at the ends of pages.
//!
//! A page begins in the line after the values and the separators of all rows before it:
//! so its place follows from the index alone.

use std::ops::Range;

use super::lookup::damaged;
use super::table::Table;
use crate::error::{Error, Result};

/// Tokens looked up side by side: a search is mostly waiting for memory.
const LANES: usize = 16;
/// Pages of a span that are looked at first, about where the token would lie if all held
/// as many.
const LIKELY: usize = 16;

/// Ranges of a line, cut at the ends of pages: one element for each piece.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Number of the range.
    pub range: Vec<i64>,
    /// Number of the page.
    pub page: Vec<i64>,
    /// First token of the page.
    pub first_token: Vec<u32>,
    /// Tokens.
    pub num_tokens: Vec<u32>,
    /// Place of the first token in the range.
    pub offset: Vec<u32>,
}

impl Pieces {
    fn with_capacity(capacity: usize) -> Self {
        Self {
            range: Vec::with_capacity(capacity),
            page: Vec::with_capacity(capacity),
            first_token: Vec::with_capacity(capacity),
            num_tokens: Vec::with_capacity(capacity),
            offset: Vec::with_capacity(capacity),
        }
    }
}

/// A page: its span, and its place in the arrays that have one number more per span.
type Place = (usize, usize);

/// The tokens of a table's pages. Of its columns, those that every search looks at.
pub struct Line<'a> {
    table: &'a Table,
    first_value: &'a [u64],
    first_row: &'a [u64],
    page_value: &'a [u32],
    page_row: &'a [u32],
    per_row: u64,
}

impl<'a> Line<'a> {
    /// The line of all pages; each row has `per_row` separators.
    pub fn new(table: &'a Table, per_row: u64) -> Self {
        Self {
            first_value: &table.first_value,
            first_row: &table.first_row,
            page_value: &table.page_value,
            page_row: &table.page_row,
            table,
            per_row,
        }
    }

    /// Cuts the ranges from each of `starts` to one of `stops`, none of them empty.
    pub fn cut(&self, starts: &[i64], stops: &[i64]) -> Result<Pieces> {
        if starts.len() != stops.len() {
            return Err(Error::invalid(format!(
                "{} ranges begin, {} end",
                starts.len(),
                stops.len()
            )));
        }
        let mut pieces = Pieces::with_capacity(starts.len() + starts.len() / 8);
        let mut tokens = [0; LANES];
        let groups = starts.chunks(LANES).zip(stops.chunks(LANES));
        for (group, (starts, stops)) in groups.enumerate() {
            for (token, (start, stop)) in tokens.iter_mut().zip(starts.iter().zip(stops)) {
                *token = self.checked(*start, *stop)?;
            }
            let places = self.find(&tokens)?;
            for (lane, stop) in stops.iter().enumerate() {
                let range = (group * LANES + lane) as i64;
                let tokens = tokens[lane]..stop.cast_unsigned();
                self.append(&mut pieces, range, places[lane], tokens)?;
            }
        }
        Ok(pieces)
    }

    /// Where a range begins that has tokens, all of which exist.
    fn checked(&self, start: i64, stop: i64) -> Result<u64> {
        let num_tokens = self.first_of_span(self.table.file.len());
        if 0 <= start && start < stop && stop.cast_unsigned() <= num_tokens {
            return Ok(start.cast_unsigned());
        }
        Err(Error::invalid(format!(
            "no range of tokens: {start} to {stop} of {num_tokens}"
        )))
    }

    /// Appends the pieces of a range that begins in the page at `place`.
    fn append(
        &self,
        pieces: &mut Pieces,
        range: i64,
        mut place: Place,
        tokens: Range<u64>,
    ) -> Result<()> {
        let mut token = tokens.start;
        loop {
            let (begin, end) = self.bounds(place);
            let first = token.checked_sub(begin).ok_or_else(damaged)?;
            let upto = tokens.end.min(end);
            if upto > token {
                let (span, fence) = place;
                pieces.range.push(range);
                pieces.page.push((fence - span) as i64);
                pieces.first_token.push(narrow(first)?);
                pieces.num_tokens.push(narrow(upto - token)?);
                pieces.offset.push(narrow(token - tokens.start)?);
                token = upto;
            }
            if token == tokens.end {
                return Ok(());
            }
            place = self.next(place)?;
        }
    }

    /// The page that holds each token: of those that begin at one, the last.
    fn find(&self, tokens: &[u64; LANES]) -> Result<[Place; LANES]> {
        let spans = [self.table.file.len(); LANES];
        let span = search([0; LANES], spans, tokens, |span| self.first_of_span(span));
        let (mut begin, mut count, mut within) = ([0; LANES], [0; LANES], [0; LANES]);
        for lane in 0..LANES {
            within[lane] = tokens[lane].saturating_sub(self.first_of_span(span[lane]));
            let fences = self.table.fences(span[lane])?;
            (begin[lane], count[lane]) = self.likely(fences, within[lane]);
        }
        let fence = search(begin, count, &within, |fence| self.first_of_fence(fence));
        Ok(std::array::from_fn(|lane| (span[lane], fence[lane])))
    }

    /// The pages among which to search for the one that holds a token of their span: few
    /// about where it would lie if all held as many, or else all.
    fn likely(&self, fences: Range<usize>, token: u64) -> (usize, usize) {
        let (first, count) = (fences.start, fences.len() - 1);
        if count <= LIKELY {
            return (first, count);
        }
        let num_tokens = self.first_of_fence(first + count).max(1);
        let guess = token.saturating_mul(count as u64) / num_tokens;
        let low = (guess as usize)
            .saturating_sub(LIKELY / 2)
            .min(count - LIKELY);
        let holds = |place: usize| self.first_of_fence(first + place) <= token;
        let is_inside = holds(low) && (low + LIKELY == count || !holds(low + LIKELY));
        if is_inside {
            (first + low, LIKELY)
        } else {
            (first, count)
        }
    }

    /// Where a page begins and ends.
    fn bounds(&self, (span, fence): Place) -> (u64, u64) {
        let before = self.first_of_span(span);
        let bound = |fence| before.wrapping_add(self.first_of_fence(fence));
        (bound(fence), bound(fence + 1))
    }

    /// The page behind one that is not the last.
    fn next(&self, (span, fence): Place) -> Result<Place> {
        if fence + 2 < self.table.fences(span)?.end {
            return Ok((span, fence + 1));
        }
        Ok((span + 1, self.table.fences(span + 1)?.start))
    }

    fn first_of_span(&self, span: usize) -> u64 {
        if self.per_row == 0 {
            return self.first_value[span];
        }
        let separators = self.per_row.wrapping_mul(self.first_row[span]);
        self.first_value[span].wrapping_add(separators)
    }

    /// Counted from the begin of the span.
    fn first_of_fence(&self, fence: usize) -> u64 {
        if self.per_row == 0 {
            return u64::from(self.page_value[fence]);
        }
        let rows = u64::from(self.page_row[fence]);
        u64::from(self.page_value[fence]).wrapping_add(self.per_row.wrapping_mul(rows))
    }
}

/// In each lane the last of `count` places from `low` on that does not begin behind the
/// token; the first if all do.
fn search(
    mut low: [usize; LANES],
    mut count: [usize; LANES],
    tokens: &[u64; LANES],
    first: impl Fn(usize) -> u64,
) -> [usize; LANES] {
    while count.iter().any(|count| *count > 1) {
        for lane in 0..LANES {
            let half = count[lane] / 2;
            let middle = low[lane] + half;
            // Without a branch: each would be a guess, wrong every other time.
            low[lane] += half * usize::from(first(middle) <= tokens[lane]);
            count[lane] -= half;
        }
    }
    low
}

fn narrow(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| Error::limit(format!("{number} tokens in one page")))
}
