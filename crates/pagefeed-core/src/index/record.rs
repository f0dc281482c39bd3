//! The location of a page.

use std::ops::Range;

use crate::codec::Codec;

/// Location and contents of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRecord {
    /// Number of the file.
    pub file: u32,
    /// Row group in the file.
    pub row_group: u32,
    /// Number of the page within its column chunk.
    pub page: u32,
    /// First row that begins in the page, counted within the file.
    pub first_row: u64,
    /// First row, counted within the row group.
    pub first_row_in_group: u64,
    /// Rows that begin in the page.
    pub num_rows: u64,
    /// Values (not null) of the rows.
    pub num_values: u64,
    /// Offset of the page in the file.
    pub offset: u64,
    /// Bytes of the page with its header.
    pub compressed_size: u64,
    /// Bytes of following pages that hold the end of the last record, usually 0.
    pub tail_size: u64,
    /// Whether the page begins in the middle of a record.
    pub starts_mid_record: bool,
    /// Codec of the chunk.
    pub codec: Codec,
    /// Byte range of the dictionary page, if the page (probably) needs it.
    pub dictionary: Option<Range<u64>>,
}

impl PageRecord {
    /// Whether the file lacks the column: all rows are null.
    pub fn is_missing(&self) -> bool {
        self.compressed_size == 0
    }

    /// Bytes of the page and of its dictionary page.
    pub fn stored_size(&self) -> u64 {
        let dictionary = self.dictionary.as_ref();
        let dictionary = dictionary.map_or(0, |range| range.end.saturating_sub(range.start));
        self.compressed_size.saturating_add(dictionary)
    }
}
