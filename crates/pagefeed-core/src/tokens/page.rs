//! A page of tokens in memory, with its further columns.

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
    /// Tokens of the first row that come before these and are not in the page.
    pub skipped: u32,
    /// Numbers of aligned columns, one array for each.
    pub aligned: Vec<Numbers>,
    /// Metadata of the rows, if it was asked for.
    pub metadata: Vec<ArrayRef>,
    /// Whether its first and last row continue in other pages.
    pub continues: Continues,
    /// The rows that are infilled, in their order; their tokens are so already.
    pub infilled: Vec<Arranged>,
    /// Rows that are infilled after they are packed.
    pub postponed: Option<Postponed>,
}

/// Continuation of a page without borders of documents. Only files without borders have
/// such pages, of one row each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Continues {
    /// The first row continues the page before.
    pub before: bool,
    /// The last row continues in the next page.
    pub after: bool,
}
