//! What columns of integers are decoded to: their dictionaries and their rows.

use std::ops::Range;

use arrow_array::ArrayRef;

use super::held::Numbers;
use crate::infill::{Arranged, Postponed};

/// Does `$what` with the `$values`, whatever their type.
macro_rules! with_values {
    ($tokens:expr, $values:ident => $what:expr) => {
        match $tokens {
            $crate::decode::Tokens::U16($values) => $what,
            $crate::decode::Tokens::I32($values) => $what,
            $crate::decode::Tokens::U32($values) => $what,
            $crate::decode::Tokens::I64($values) => $what,
        }
    };
}
pub(crate) use with_values;

/// Integers in the narrowest type that came for free.
#[derive(Clone, Debug)]
pub enum Tokens {
    /// Values of a dictionary whose entries all fit.
    U16(Vec<u16>),
    /// 32-bit columns.
    I32(Vec<i32>),
    /// 32-bit unsigned columns.
    U32(Vec<u32>),
    /// 64-bit columns.
    I64(Vec<i64>),
}

impl Tokens {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, as allocated.
    pub fn num_bytes(&self) -> usize {
        with_values!(self, values => vec_bytes(values))
    }

    pub(crate) fn clear(&mut self) {
        with_values!(self, values => values.clear());
    }

    /// Drops the tokens in `range`.
    pub(crate) fn drop(&mut self, range: Range<usize>) {
        with_values!(self, values => drop(values.drain(range)));
    }

    /// Gives them the type of some `empty` ones; of another type they become none.
    pub(crate) fn retype(&mut self, empty: Self) {
        if std::mem::discriminant(self) != std::mem::discriminant(&empty) {
            *self = empty;
        }
    }

    /// None yet, in the type of these.
    pub(crate) fn empty(&self) -> Self {
        match self {
            Self::U16(_) => Self::U16(Vec::new()),
            Self::I32(_) => Self::I32(Vec::new()),
            Self::U32(_) => Self::U32(Vec::new()),
            Self::I64(_) => Self::I64(Vec::new()),
        }
    }

    /// The tokens in `range`, each in 64 bits.
    pub(crate) fn wide(&self, range: Range<usize>) -> Vec<i64> {
        with_values!(self, values => widened(&values[range]))
    }
}

fn widened<T: Copy + Into<i64>>(values: &[T]) -> Vec<i64> {
    values.iter().map(|&value| value.into()).collect()
}

fn vec_bytes<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>()
}

impl Default for Tokens {
    fn default() -> Self {
        Self::U16(Vec::new())
    }
}

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
