//! One stored page: checksum, decompression, and where its levels and values lie.

use crate::codec::{Codec, Decompressor};
use crate::error::Result;
use crate::header::PageHeader;
use crate::schema::Leaf;

/// Decompresses pages into a buffer that is kept between pages; one per thread.
#[derive(Default)]
pub struct PageOpener {
    /// Contexts of the codecs.
    pub decompressor: Decompressor,
    /// Verify CRCs where they are present.
    pub verify_checksums: bool,
    buffer: Vec<u8>,
}

/// A data page, decompressed.
#[derive(Debug)]
pub struct DataPage<'a> {
    /// Its header.
    pub header: &'a PageHeader,
    /// Run-length encoded repetition levels, without length prefix; empty if the
    /// column has none.
    pub repetition: &'a [u8],
    /// Run-length encoded definition levels, likewise.
    pub definition: &'a [u8],
    /// Encoded values.
    pub values: &'a [u8],
}

impl PageOpener {
    /// Opens a data page; `stored` is the page without its header.
    pub fn data_page<'a>(
        &'a mut self,
        header: &'a PageHeader,
        stored: &'a [u8],
        codec: Codec,
        leaf: &Leaf,
    ) -> Result<DataPage<'a>> {
        let _ = (header, stored, codec, leaf, &self.buffer);
        todo!()
    }

    /// Decompresses a dictionary page (`page` begins with its header) and returns
    /// the number of values and their PLAIN bytes.
    pub fn dictionary_page<'a>(
        &'a mut self,
        page: &'a [u8],
        codec: Codec,
    ) -> Result<(usize, &'a [u8])> {
        let _ = (page, codec);
        todo!()
    }
}
