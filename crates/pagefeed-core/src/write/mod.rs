//! Parquet files with columns of token lists, page by page.
//!
//! ```text
//! ids, counts -> ListColumn: cut at rows, levels as runs, compressed -> pages
//! pages + further columns, as another writer made them -> ListFile: row groups, footer
//! ```
//!
//! Lists are `list<integer>` without nulls, their values stored plainly: what a level is
//! worth follows from the counts alone, so that no value is looked at but to copy it.
//!
//! `chunks` writes any Arrow array as the pages of a column, for rows that are in no file.

mod chunks;
mod column;
mod file;
mod page;
mod runs;

pub use chunks::{chunks, footer};
pub use file::ListFile;

#[cfg(test)]
mod tests;
