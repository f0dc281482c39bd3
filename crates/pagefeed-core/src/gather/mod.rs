//! Copies token ranges of pages into batches, converting as they go.
//!
//! `ranges` says which tokens: of a page as they are, or of its lines, with separators.
//! `copy` is the loops that copy them.

mod copy;
mod ranges;

pub use copy::{Ahead, BatchToken};
pub use ranges::{LineRange, Misfit, OwnTokens, Separators, copy_line, copy_segment, line_ranges};

#[cfg(test)]
mod tests;
