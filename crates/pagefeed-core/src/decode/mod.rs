//! From stored pages to tokens and Arrow arrays.
//!
//! [`tokens`](decode_tokens) and the fast paths of [`arrays`](decode_array) are
//! written by hand for what language-model data is; everything else goes through
//! the `parquet` crate's own reader behind its `RowGroups` seam.

pub(crate) mod hybrid;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use arrow_array::ArrayRef;
use bytes::Bytes;

use crate::codec::Codec;
use crate::error::Result;
use crate::page::PageOpener;
use crate::schema::{ColumnSchema, Leaf};

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

/// One page of a token column: rows of integers, joined.
#[derive(Clone, Debug)]
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

/// Decodes the dictionary page of an integer leaf.
pub fn decode_dictionary(
    opener: &mut PageOpener,
    page: &[u8],
    codec: Codec,
    leaf: &Leaf,
) -> Result<IntegerDictionary> {
    let _ = (opener, page, codec, leaf);
    todo!()
}

/// Decodes a run of an integer column, at most one list deep, into its rows.
///
/// `dictionary` is the decoded dictionary page if the caller has it; otherwise
/// `run.dictionary` is decoded when a page needs it. Null tokens inside a row are an
/// error (a null row is an empty row).
pub fn decode_tokens(
    opener: &mut PageOpener,
    run: &PageRun,
    dictionary: Option<&Arc<IntegerDictionary>>,
    leaf: &Leaf,
) -> Result<TokenPage> {
    let _ = (opener, run, dictionary, leaf);
    todo!()
}

/// Decodes rows `first_row .. first_row + num_rows` (of the row group) of a column
/// into an Arrow array of exactly `num_rows` rows; `runs` holds one run of pages per
/// leaf of `schema`, each covering at least these rows.
pub fn decode_array(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    runs: &[PageRun],
    first_row: u64,
    num_rows: u64,
) -> Result<ArrayRef> {
    let _ = (opener, schema, runs, first_row, num_rows);
    todo!()
}
