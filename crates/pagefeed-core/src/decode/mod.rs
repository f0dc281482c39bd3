//! From stored pages to tokens and Arrow arrays.
//!
//! [`decode_tokens`] and the fast paths of [`decode_array`] are written by hand for what
//! language-model data is; everything else goes through the `parquet` crate's own reader
//! through its `RowGroups` trait. What a page may decode to is decided in `bounds`, for all
//! of them, before memory is taken for it.

pub(crate) mod arrays;
mod bounds;
pub(crate) mod cursor;
mod run;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tokens;

pub use arrays::conform::{conform, with_defaults};
pub use arrays::{Paths, decode_array, decode_array_by};
pub(crate) use bounds::{decoded_size, plain_bits, string_lengths};
pub use run::PageRun;
pub use tokens::aligned::{NumberRows, OpenedRun, decode_number_dictionary};
pub use tokens::integers::decode_dictionary;
pub use tokens::{decode_tokens, decode_tokens_into};
