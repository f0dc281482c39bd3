//! Options of building an index.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Kind, Result};
use crate::schema::naming::Naming;

/// Settings of building an index.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Use the files' own offset indexes where they have them.
    pub use_page_index: bool,
    /// Take whole row groups for pages, so that nothing but footers is read.
    pub by_row_group: bool,
    /// Whether rows of files that lack the column are null, if another file has it.
    pub missing_as_null: bool,
    /// Names of the columns of a table in its files; by name without a table.
    pub naming: Option<Arc<Naming>>,
    /// Verify CRCs of pages read while building.
    pub verify_checksums: bool,
    /// Threads for reading footers.
    pub num_threads: usize,
    /// Set to true, it ends the build early, as [`Kind::Cancelled`](crate::error::Kind).
    pub cancel: Arc<AtomicBool>,
    /// Counts the files that are indexed.
    pub num_done: Arc<AtomicUsize>,
}

impl BuildOptions {
    /// An error once the build was cancelled.
    pub(super) fn check_cancelled(&self) -> Result<()> {
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(Error::new(Kind::Cancelled, "the index was not finished")),
            false => Ok(()),
        }
    }
}
