//! The line of all tokens of an index: its rows end to end, each with as many
//! separators as any other; and ranges of it, cut at the ends of pages.
//!
//! A page begins in the line after the values and the separators of all rows before it:
//! so its position follows from the index alone.

use std::ops::Range;

use super::lookup::damaged;
use super::table::Table;
use crate::error::{Error, Result};
use crate::search::holding;

/// Ranges of a line, cut at the ends of pages; one element for each slice.
#[derive(Debug, Default)]
pub struct PageSlices {
    /// Number of the range.
    pub range: Vec<i64>,
    /// Number of the page.
    pub page: Vec<i64>,
    /// First token of the page.
    pub first_token: Vec<u32>,
    /// Tokens.
    pub num_tokens: Vec<u32>,
    /// Offset of the first token in the range.
    pub offset: Vec<u32>,
}

impl PageSlices {
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

/// A page: its span, and its index in arrays that have one number more for each span.
type PageOfSpan = (usize, usize);

/// The tokens of all pages in order, with the columns of the table that searches need.
pub struct Line<'a> {
    table: &'a Table,
    first_value: &'a [u64],
    first_row: &'a [u64],
    page_value: &'a [u32],
    page_row: &'a [u32],
    per_row: u64,
}

impl<'a> Line<'a> {
    /// Returns the line of all pages; each row has `per_row` separators.
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

    /// Cuts the non-empty ranges from `starts` to `stops`.
    pub fn cut(&self, starts: &[i64], stops: &[i64]) -> Result<PageSlices> {
        if starts.len() != stops.len() {
            return Err(Error::invalid(format!(
                "{} ranges begin, {} end",
                starts.len(),
                stops.len()
            )));
        }
        let mut slices = PageSlices::with_capacity(starts.len() + starts.len() / 8);
        let num_tokens = self.first_of_span(self.table.file.len());
        for (range, (start, stop)) in (0..).zip(starts.iter().zip(stops)) {
            let tokens = checked(*start, *stop, num_tokens)?;
            self.append(&mut slices, range, self.find(tokens.start)?, tokens)?;
        }
        Ok(slices)
    }

    /// Appends the slices of a range that begins in `page`.
    fn append(
        &self,
        slices: &mut PageSlices,
        range: i64,
        mut page: PageOfSpan,
        tokens: Range<u64>,
    ) -> Result<()> {
        let mut token = tokens.start;
        loop {
            let (begin, end) = self.bounds(page);
            let first = token.checked_sub(begin).ok_or_else(damaged)?;
            let upto = tokens.end.min(end);
            if upto > token {
                let (span, fence) = page;
                slices.range.push(range);
                slices.page.push((fence - span) as i64);
                slices.first_token.push(narrow(first)?);
                slices.num_tokens.push(narrow(upto - token)?);
                slices.offset.push(narrow(token - tokens.start)?);
                token = upto;
            }
            if token == tokens.end {
                return Ok(());
            }
            page = self.next(page)?;
        }
    }

    /// Returns the page that holds a token; the last one, if several begin at it.
    fn find(&self, token: u64) -> Result<PageOfSpan> {
        let spans = 0..self.table.file.len();
        let span = holding(spans, token, |span| self.first_of_span(span));
        let within = token.saturating_sub(self.first_of_span(span));
        let fences = self.table.fences(span)?;
        let pages = fences.start..fences.end - 1;
        let fence = holding(pages, within, |fence| self.first_of_fence(fence));
        Ok((span, fence))
    }

    /// Returns the first token of a page, and the end.
    fn bounds(&self, (span, fence): PageOfSpan) -> (u64, u64) {
        let before = self.first_of_span(span);
        let bound = |fence| before.wrapping_add(self.first_of_fence(fence));
        (bound(fence), bound(fence + 1))
    }

    /// Returns the page after one that is not the last.
    fn next(&self, (span, fence): PageOfSpan) -> Result<PageOfSpan> {
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

/// A range that has tokens, all of which exist.
#[inline]
fn checked(start: i64, stop: i64, num_tokens: u64) -> Result<Range<u64>> {
    if 0 <= start && start < stop && stop.cast_unsigned() <= num_tokens {
        return Ok(start.cast_unsigned()..stop.cast_unsigned());
    }
    Err(Error::invalid(format!(
        "tokens {start} to {stop} are not a range of the {num_tokens} tokens"
    )))
}

fn narrow(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| {
        Error::limit(format!(
            "{number} tokens in a page are more than 32 bits count"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_by_a_token_is_found_however_sizes_differ() {
        let one_is_large = |page: usize| if page == 30 { 900 } else { 1 };
        let sizes: [Vec<u64>; 6] = [
            vec![4],
            vec![5; 40],
            (0..60).map(one_is_large).collect(),
            (0..50).map(|page| page % 3 / 2 * 7).collect(),
            vec![0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0],
            (0..30).map(|page| page * page).collect(),
        ];
        for sizes in sizes {
            let begin = |page: usize| sizes[..page].iter().sum();
            let begins: Vec<u64> = (0..=sizes.len()).map(begin).collect();
            for token in 0..begins[sizes.len()] {
                let found = holding(0..sizes.len(), token, |page| begins[page]);
                let by = begins[..sizes.len()]
                    .iter()
                    .filter(|&&begin| begin <= token);
                assert_eq!(found, by.count() - 1, "{token} in {sizes:?}");
            }
        }
    }
}
