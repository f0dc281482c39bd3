//! Pages of one leaf, as they are read for some of their rows.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::Codec;

/// Consecutive data pages of one leaf as stored, with headers, and their facts in the
/// index.
#[derive(Clone, Debug)]
pub struct PageRun {
    /// One or more whole data pages. The last one may only be needed for the end of
    /// a record that began before it.
    pub data: Bytes,
    /// The dictionary page with its header, if a page of the run needs it.
    pub dictionary: Option<Bytes>,
    /// Codec of all pages.
    pub codec: Codec,
    /// Whether `data` begins in the middle of a record, which is left out.
    pub starts_mid_record: bool,
    /// Row of the row group at which the first whole record of `data` begins.
    pub first_row: u64,
    /// Records to deliver; the last ends where the next begins, or with `data`.
    pub num_rows: u64,
    /// Bytes at the end of `data` in which records may begin that are not to be
    /// delivered. Before these, exactly `num_rows` must begin.
    pub tail_size: usize,
}

impl PageRun {
    /// Converts rows of the row group to rows of the run.
    pub(crate) fn rows_of(&self, rows: &Range<u64>) -> Range<u64> {
        rows.start - self.first_row..rows.end - self.first_row
    }
}
