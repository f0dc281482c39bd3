//! A page of tokens in memory, with what comes beside them.

use arrow_array::ArrayRef;

use super::integers::Tokens;
use super::numbers::Numbers;
use crate::infill::{Arranged, Postponed};

/// One page of a token column: rows of integers, joined.
#[derive(Clone, Debug, Default)]
pub struct TokenPage {
    /// All tokens of all rows.
    pub tokens: Tokens,
    /// Row `r` is `tokens[row_offsets[r]..row_offsets[r + 1]]`; null rows are empty.
    pub row_offsets: Vec<u32>,
    /// Tokens before these, of the first row, that are not there.
    pub skipped: u32,
    /// The numbers of further columns, as many as tokens each.
    pub aligned: Vec<Numbers>,
    /// What is known of the rows: arrays of as many, if it was asked for.
    pub metadata: Vec<ArrayRef>,
    /// Whether its rows are parts of longer ones.
    pub joins: Joins,
    /// The rows that are infilled, in their order; their tokens are so already.
    pub infilled: Vec<Arranged>,
    /// Those that are to be infilled once they are packed.
    pub postponed: Option<Postponed>,
}

/// Where a page without borders of documents goes on: only files that do not know them
/// have such pages, of one row each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joins {
    /// The first row goes on from the page before.
    pub before: bool,
    /// The last row goes on in the next page.
    pub after: bool,
}
