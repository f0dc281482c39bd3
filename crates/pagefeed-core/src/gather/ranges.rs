//! Ranges to gather: tokens of a page that lie in a row, or of its lines.

use super::copy::{Ahead, BatchToken};
use crate::tokens::TokenPage;

/// Why a segment could not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The page is shorter than the segment needs.
    PageTooShort {
        /// Rows the page holds.
        num_rows: usize,
        /// Tokens the page holds.
        num_tokens: usize,
        /// Tokens that the page would need, if it has the row.
        needed: Option<u64>,
    },
    /// A token does not fit the type of the batch.
    Token(i64),
    /// The aligned columns of the page are not those of the batch.
    Columns,
}

/// Copies tokens of `page` from token `first_token` of row `row` on until `target` is
/// full; they may continue into later rows. Prefetches `ahead`.
pub fn copy_segment<T: BatchToken>(
    page: &TokenPage,
    row: u32,
    first_token: u32,
    target: &mut [T],
    ahead: Ahead,
) -> Result<(), Misfit> {
    let num_tokens = page.tokens.len();
    let num_rows = page.row_offsets.len().saturating_sub(1);
    let too_short = |needed| Misfit::PageTooShort {
        num_rows,
        num_tokens,
        needed,
    };
    let row = row as usize;
    if row >= num_rows {
        return Err(too_short(None));
    }
    let start = u64::from(page.row_offsets[row]) + u64::from(first_token);
    let end = start + target.len() as u64;
    let start = start.saturating_sub(page.skipped.into());
    if start + target.len() as u64 > num_tokens as u64 {
        return Err(too_short(Some(end)));
    }
    T::copy(&page.tokens, start as usize, target, ahead).map_err(Misfit::Token)
}

/// Tokens that every row gets, also an empty one.
///
/// A row that got them is a line of `bos`, its tokens and `eos`; the positions of a page
/// with separators count through its lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Separators<T> {
    /// Before the row.
    pub bos: Option<T>,
    /// Token after the row.
    pub eos: Option<T>,
    /// Positions of a line from one `bos` to the next; 0: it has one, at its begin.
    pub bos_every: u32,
}

impl<T: Copy> Separators<T> {
    /// Number of separators in each row.
    pub fn per_row(&self) -> u32 {
        u32::from(self.bos.is_some()) + u32::from(self.eos.is_some())
    }
}

impl<T> Separators<T> {
    /// Number of `bos` before a position in a line.
    pub fn bos_before(&self, position: u32) -> u32 {
        match (&self.bos, self.bos_every) {
            (None, _) => 0,
            (Some(_), 0) => position.min(1),
            (Some(_), every) => position.div_ceil(every),
        }
    }

    /// Whether a position in a line holds `bos`.
    fn is_bos(&self, position: u32) -> bool {
        self.bos_before(position.saturating_add(1)) > self.bos_before(position)
    }
}

/// A range of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// Row of the page.
    pub row: usize,
    /// First token of the line.
    pub first_token: u64,
    /// Number of tokens.
    pub num_tokens: usize,
}

/// Returns the parts of lines in a range of tokens that begins `first_token` tokens
/// after the start of row `row`. A line has `per_row` tokens more than its row.
pub fn line_ranges(
    page: &TokenPage,
    per_row: u32,
    row: u32,
    first_token: u32,
    num_tokens: usize,
) -> Result<impl Iterator<Item = LineRange>, Misfit> {
    let offsets = page.row_offsets.as_slice();
    let num_rows = offsets.len().saturating_sub(1);
    let begin_of = move |row: usize| u64::from(offsets[row]) + u64::from(per_row) * row as u64;
    let too_short = |needed| Misfit::PageTooShort {
        num_rows,
        num_tokens: page.tokens.len(),
        needed,
    };
    let mut row = row as usize;
    if row >= num_rows {
        return Err(too_short(None));
    }
    let mut position = begin_of(row) + u64::from(first_token);
    let end = position + num_tokens as u64;
    if end > begin_of(num_rows) {
        return Err(too_short(Some(end)));
    }
    let mut above = num_rows;
    while above - row > 1 {
        let middle = row.midpoint(above);
        if begin_of(middle) <= position {
            row = middle;
        } else {
            above = middle;
        }
    }
    Ok(std::iter::from_fn(move || {
        if position >= end {
            return None;
        }
        while begin_of(row + 1) <= position {
            row += 1;
        }
        let stop = end.min(begin_of(row + 1));
        let part = LineRange {
            row,
            first_token: position - begin_of(row),
            num_tokens: (stop - position) as usize,
        };
        position = stop;
        Some(part)
    }))
}

/// The own tokens and the separators in a part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTokens {
    /// Separators before them.
    pub num_before: usize,
    /// First own token, counted in the page.
    pub from: usize,
    /// First own token, counted in the row.
    pub first_token: usize,
    /// Number of tokens.
    pub count: usize,
}

impl LineRange {
    /// Returns the own tokens of the row in `page`. A `bos` is at the beginning of a
    /// part or not in it.
    pub fn own<T>(&self, page: &TokenPage, separators: &Separators<T>) -> OwnTokens {
        let begin = page.row_offsets[self.row] as usize;
        let end = page.row_offsets[self.row + 1] as usize;
        let first = u32::try_from(self.first_token).unwrap_or(u32::MAX);
        let num_before = usize::from(separators.is_bos(first)).min(self.num_tokens);
        let from = begin + (first - separators.bos_before(first)) as usize;
        let from = from.min(end);
        OwnTokens {
            num_before,
            from: from.saturating_sub(page.skipped as usize),
            first_token: from - begin,
            count: (end - from).min(self.num_tokens - num_before),
        }
    }
}

/// Copies a part of a line, which must be in bounds, to `target`, and prefetches
/// `ahead`.
pub fn copy_line<T: BatchToken>(
    page: &TokenPage,
    part: LineRange,
    separators: &Separators<T>,
    target: &mut [T],
    ahead: Ahead,
) -> Result<(), Misfit> {
    let tokens = part.own(page, separators);
    let (before, target) = target.split_at_mut(tokens.num_before);
    if let (Some(bos), [position]) = (separators.bos, before) {
        *position = bos;
    }
    let (own, behind) = target.split_at_mut(tokens.count);
    if let (Some(eos), [position]) = (separators.eos, behind) {
        *position = eos;
    }
    T::copy(&page.tokens, tokens.from, own, ahead).map_err(Misfit::Token)
}
