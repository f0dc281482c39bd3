//! From stored pages to tokens and Arrow arrays.
//!
//! [`decode_tokens`] and the fast paths of [`decode_array`] are written by hand for what
//! language-model data is; everything else goes through the `parquet` crate's own reader
//! behind its `RowGroups` seam. What a page may decode to is decided in `bounds`, for all
//! of them, before memory is taken for it.

mod arrays;
mod bounds;
mod conform;
mod delta;
mod fallback;
pub(crate) mod hybrid;
mod indices;
pub(crate) mod integers;
mod narrow;
mod nested;
mod records;
mod rows;
mod string_builder;
mod strings;
#[cfg(test)]
pub(crate) mod testing;
mod tokens;
pub(crate) mod unpack;
mod values;
mod widen;

pub use arrays::{Paths, decode_array, decode_array_by};
pub use conform::conform;
pub use integers::decode_dictionary;
pub use tokens::{decode_tokens, decode_tokens_into};

use bytes::Bytes;

use crate::codec::Codec;

/// Consecutive data pages of one leaf as stored, headers included, and what the
/// index promises of them.
#[derive(Clone, Debug)]
pub struct PageRun {
    /// One or more whole data pages. The last one may only be needed for the end of
    /// a record that began before it.
    pub data: Bytes,
    /// The dictionary page with its header, if a page of the run needs it.
    pub dictionary: Option<Bytes>,
    /// Codec of all pages.
    pub codec: Codec,
    /// Whether `data` begins in the middle of a record; that part is left out.
    pub starts_mid_record: bool,
    /// Row of the row group at which the first whole record of `data` begins.
    pub first_row: u64,
    /// Records to deliver; the last ends where the next begins, or with `data`.
    pub num_rows: u64,
    /// Bytes at the end of `data` in which records may begin that are not to be
    /// delivered. Before these, exactly `num_rows` must begin.
    pub tail_size: usize,
}

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
        match self {
            Self::U16(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory the tokens occupy.
    pub fn num_bytes(&self) -> usize {
        match self {
            Self::U16(values) => values.len() * 2,
            Self::I32(values) => values.len() * 4,
            Self::U32(values) => values.len() * 4,
            Self::I64(values) => values.len() * 8,
        }
    }
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
}

/// A dictionary of integers, decoded.
#[derive(Debug)]
pub enum IntegerDictionary {
    /// All entries fit 16 bits.
    U16(Vec<u16>),
    /// 32-bit columns.
    I32(Vec<i32>),
    /// 32-bit unsigned columns.
    U32(Vec<u32>),
    /// 64-bit columns.
    I64(Vec<i64>),
}
