//! From stored pages to tokens and Arrow arrays.
//!
//! [`decode_tokens`] and the fast paths of [`decode_array`] are written by hand for what
//! language-model data is; everything else goes through the `parquet` crate's own reader
//! behind its `RowGroups` seam. What a page may decode to is decided in `bounds`, for all
//! of them, before memory is taken for it.

pub(crate) mod arrays;
mod bounds;
pub(crate) mod cursor;
pub(crate) mod encodings;
mod number_type;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tokens;

pub use arrays::conform::conform;
pub(crate) use arrays::lists;
pub use arrays::{Paths, decode_array, decode_array_by};
pub(crate) use bounds::check as check_page_size;
pub use bounds::limit_pages;
pub use number_type::NumberType;
pub use tokens::aligned::{NumberRows, OpenedRun, decode_number_dictionary};
pub use tokens::held::Numbers;
pub use tokens::integers::decode_dictionary;
pub(crate) use tokens::numbers::with_values;
pub use tokens::numbers::{Joins, TokenPage, Tokens};
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
