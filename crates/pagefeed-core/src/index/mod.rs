//! The page index: where every page of one column lies, in all files.
//!
//! A *page* here is what can be read alone: one data page, or several where a record
//! spans more than two of them. A record belongs to the page it begins in. Pages of
//! one column chunk that follow each other without a gap form a *span*, the index's
//! unit of 64-bit numbers; within a span everything is 32 bits relative to it.

mod build;
mod chunk;
mod columns;
mod concat;
mod expansion;
mod files;
mod flat;
mod flat_index;
mod footers;
mod indexed;
mod line;
mod locate;
mod lookup;
mod options;
mod page_index;
mod read;
mod record;
mod runs;
mod seal;
mod segment;
mod table;

pub use concat::FileRange;
pub use expansion::{Expansion, expansion};
pub use flat::{Flat, FlatFile, FlatPages, FlatRows, Records};
pub use indexed::{Indexed, Lacking};
pub use line::PageSlices;
pub use options::BuildOptions;
pub use page_index::{Index, RangePages};
pub use record::PageRecord;
