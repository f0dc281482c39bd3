//! Decompression into buffers of exactly the promised size.

use crate::error::Result;

/// Compression codecs of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Stored as is.
    Uncompressed,
    /// Snappy, raw format.
    Snappy,
    /// Gzip, possibly several members.
    Gzip,
    /// Brotli.
    Brotli,
    /// The deprecated LZ4: Hadoop framing, LZ4 frames or raw blocks.
    Lz4Hadoop,
    /// Zstandard.
    Zstd,
    /// One LZ4 block.
    Lz4Raw,
}

impl Codec {
    /// Codec by its number in the format.
    pub fn from_thrift(code: i32) -> Result<Self> {
        let _ = code;
        todo!()
    }
}

/// Decompresses with contexts that are kept between pages; one per thread.
#[derive(Default)]
pub struct Decompressor {}

impl Decompressor {
    /// Decompresses `stored` into `output`, which has exactly the size the page
    /// header promised; more or fewer bytes are an error.
    pub fn decompress(&mut self, codec: Codec, stored: &[u8], output: &mut [u8]) -> Result<()> {
        let _ = (codec, stored, output);
        todo!()
    }
}
