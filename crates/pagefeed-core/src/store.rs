//! Bytes of local files: cached descriptors, `pread`, access advice.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Result;

/// What identifies the state of a file cheaply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Inode number.
    pub inode: u64,
}

/// A file and the state it must be in.
#[derive(Clone, Debug)]
pub struct FileId {
    /// Path.
    pub path: Arc<str>,
    /// State at the time of indexing.
    pub stamp: Stamp,
}

/// Reads byte ranges of files, keeping some descriptors open.
pub struct Store {}

impl Store {
    /// A store that keeps at most `max_open_files` descriptors open.
    pub fn new(max_open_files: usize) -> Self {
        let _ = max_open_files;
        todo!()
    }

    /// The state of a file now.
    pub fn stamp(&self, path: &str) -> Result<Stamp> {
        let _ = path;
        todo!()
    }

    /// Reads `range` of `file`; refuses a file that is not in the state it was
    /// indexed in (also when it was changed or replaced while open).
    pub fn read(&self, file: &FileId, range: Range<u64>) -> Result<Bytes> {
        let _ = (file, range);
        todo!()
    }

    /// Tells the system that `range` of `file` will be read soon.
    pub fn will_need(&self, file: &FileId, range: Range<u64>) {
        let _ = (file, range);
        todo!()
    }
}
