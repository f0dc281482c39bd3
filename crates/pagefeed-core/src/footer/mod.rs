//! The footer of a file, reduced to what the index needs.

mod parse;
mod read;
mod rows;

use std::ops::Range;

use crate::codec::Codec;

pub(crate) use parse::parse_null_count;
pub use parse::value_of;
pub use read::{Tail, read_tail};

/// A footer: its schema and, of its row groups, the chunks of one column.
#[derive(Debug)]
pub struct Footer {
    /// Footer of an empty file with the same schema, see
    /// [`crate::schema::ColumnSchema`].
    pub schema: Vec<u8>,
    /// Row groups in file order.
    pub row_groups: Vec<RowGroup>,
}

/// One row group.
#[derive(Debug)]
pub struct RowGroup {
    /// Number of rows.
    pub num_rows: u64,
    /// Column chunks of the selected leaves, in the order of the schema.
    pub chunks: Vec<Chunk>,
}

/// One column chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Codec of all its pages.
    pub codec: Codec,
    /// Number of levels.
    pub num_values: u64,
    /// First data page; may point at the dictionary page in odd files.
    pub data_page_offset: u64,
    /// Offset of the dictionary page, if there is one.
    pub dictionary_page_offset: Option<u64>,
    /// Bytes of all pages with their headers.
    pub total_compressed_size: u64,
    /// Data pages that need the dictionary, if the writer counted them.
    pub dictionary_pages: Option<u64>,
    /// Whether the writer says that pages use a dictionary.
    pub has_dictionary: bool,
    /// Levels below the maximum, if the writer counted them.
    pub num_nulls: Option<u64>,
    /// Whether `num_nulls` is from the statistics of a writer that counts nulls wrongly.
    pub miscounts_nulls: bool,
    /// Number of levels of each repetition level, if the writer counted them.
    pub repetition_levels: Vec<u64>,
    /// Number of levels of each definition level, if the writer counted them.
    pub definition_levels: Vec<u64>,
    /// Byte range of the offset index.
    pub offset_index: Option<Range<u64>>,
    /// Byte range of the column index.
    pub column_index: Option<Range<u64>>,
}

impl Chunk {
    /// Bytes of all pages, dictionary page first.
    pub fn byte_range(&self) -> Range<u64> {
        let start = match self.dictionary_page_offset {
            Some(offset) if offset < self.data_page_offset => offset,
            _ => self.data_page_offset,
        };
        start..start.saturating_add(self.total_compressed_size)
    }
}
