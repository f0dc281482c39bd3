//! Sizes of pages, as the engine counts them.

use crate::engine::PageEntry;
use crate::index::PageRecord;

/// Returns the sizes of a page, stored and in memory.
pub(super) fn entry_of(record: &PageRecord, stored: u64, decoded: u64) -> PageEntry {
    PageEntry {
        file: record.file as usize,
        ..PageEntry::new(saturated(stored), saturated(decoded))
    }
}

/// Bytes as memory counts them.
pub(super) fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
