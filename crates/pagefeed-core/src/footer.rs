//! The footer of a file, reduced to what the index needs.

use crate::codec::Codec;
use crate::error::Result;

/// A footer: its schema and its row groups.
#[derive(Debug)]
pub struct Footer {
    /// Footer of an empty file with the same schema, see
    /// [`crate::schema::ColumnSchema`].
    pub schema: Vec<u8>,
    /// Number of rows the footer claims.
    pub num_rows: u64,
    /// Row groups in file order.
    pub row_groups: Vec<RowGroup>,
}

/// One row group.
#[derive(Debug)]
pub struct RowGroup {
    /// Number of rows.
    pub num_rows: u64,
    /// Column chunks in the order of the schema's leaves.
    pub chunks: Vec<Chunk>,
}

/// One column chunk.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Codec of all its pages.
    pub codec: Codec,
    /// Number of levels.
    pub num_values: u64,
    /// First data page; may point at the dictionary page in odd files.
    pub data_page_offset: u64,
    /// Dictionary page, if there is one.
    pub dictionary_page_offset: Option<u64>,
    /// Bytes of all pages with their headers.
    pub total_compressed_size: u64,
    /// Data pages that need the dictionary, if the writer counted them.
    pub dictionary_pages: Option<u64>,
    /// Byte range of the offset index.
    pub offset_index: Option<std::ops::Range<u64>>,
    /// Byte range of the column index.
    pub column_index: Option<std::ops::Range<u64>>,
}

impl Footer {
    /// Parses the thrift bytes of a footer of a file of `file_size` bytes.
    pub fn parse(bytes: &[u8], file_size: u64) -> Result<Self> {
        let _ = (bytes, file_size);
        todo!()
    }
}
