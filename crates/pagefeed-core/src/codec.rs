//! Decompression into buffers of exactly the promised size; compression of what is written.

pub mod compress;
mod gzip;
mod lz4;
mod snappy;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

use crate::error::{Error, Result};
use gzip::MORE;

/// Compression codecs of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Stored as is.
    Uncompressed = 0,
    /// Snappy, raw format.
    Snappy = 1,
    /// Gzip, possibly several members.
    Gzip = 2,
    /// Brotli.
    Brotli = 4,
    /// The deprecated LZ4: Hadoop framing, LZ4 frames or raw blocks.
    Lz4Hadoop = 5,
    /// Zstandard.
    Zstd = 6,
    /// One LZ4 block.
    Lz4Raw = 7,
}

impl Codec {
    /// Codec by its number in the format.
    pub fn from_thrift(code: i32) -> Result<Self> {
        Ok(match code {
            0 => Self::Uncompressed,
            1 => Self::Snappy,
            2 => Self::Gzip,
            3 => return Err(Error::unsupported("LZO compression is not supported")),
            4 => Self::Brotli,
            5 => Self::Lz4Hadoop,
            6 => Self::Zstd,
            7 => Self::Lz4Raw,
            _ => return Err(Error::corrupt(format!("unknown compression codec {code}"))),
        })
    }

    /// Most bytes to which `stored` compressed bytes can decompress. A header that
    /// claims more is refused before memory is allocated.
    pub fn max_decompressed_size(self, stored: usize) -> usize {
        let (ratio, constant) = match self {
            Self::Uncompressed => (1, 0),
            // A copy of 64 bytes takes two bytes and an offset.
            Self::Snappy => (32, 64),
            // Match lengths grow by 255 a byte.
            Self::Lz4Raw | Self::Lz4Hadoop => (256, 64),
            // A match of 258 bytes takes two bits at least.
            Self::Gzip => (1032, 1032),
            // Blocks that repeat one byte, of 128 KiB and 16 MiB.
            Self::Zstd => (128 << 10, 128 << 10),
            Self::Brotli => (16 << 20, 16 << 20),
        };
        stored.saturating_mul(ratio).saturating_add(constant)
    }
}

/// Decompresses with contexts that are kept between pages; one per thread.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Decompresses `stored` into `output`, which has exactly the size the page
    /// header promised; more or fewer bytes are an error.
    pub fn decompress(&mut self, codec: Codec, stored: &[u8], output: &mut [u8]) -> Result<()> {
        if stored.is_empty() && output.is_empty() {
            return Ok(()); // Writers store nothing where there is nothing.
        }
        let expected = output.len();
        let written = match codec {
            Codec::Uncompressed => copy(stored, output),
            Codec::Snappy => snappy::decompress(stored, output),
            Codec::Zstd => self.zstd(stored, output),
            Codec::Gzip => gzip::decompress(stored, output),
            Codec::Brotli => brotli(stored, output),
            Codec::Lz4Raw => lz4::raw(stored, output),
            Codec::Lz4Hadoop => lz4::hadoop(stored, output),
        }
        .map_err(|message| Error::corrupt(format!("{codec:?} data is damaged: {message}")))?;
        if written != expected {
            return Err(Error::corrupt(format!(
                "the page header promises {expected} bytes, {codec:?} gave {written}"
            )));
        }
        Ok(())
    }

    /// Decompresses only the first bytes of `stored`, as many as `output` has. Returns
    /// `false` for codecs that cannot do so, or do not need to.
    pub fn decompress_head(codec: Codec, stored: &[u8], output: &mut [u8]) -> bool {
        let written = match codec {
            Codec::Brotli => brotli_head(stored, output).1,
            Codec::Gzip => gzip::head(stored, output),
            Codec::Zstd => zstd_head(stored, output),
            _ => None,
        };
        written == Some(output.len())
    }

    fn zstd(&mut self, stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
        if self.zstd.is_none() {
            self.zstd = DCtx::try_create();
        }
        let context = self.zstd.as_mut().ok_or("no memory for a context")?;
        context
            .decompress(output, stored)
            .map_err(|code| zstd_safe::get_error_name(code).to_string())
    }
}

fn copy(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    if stored.len() == output.len() {
        output.copy_from_slice(stored);
    }
    Ok(stored.len())
}

/// Decompresses the first bytes, in a fresh context that holds a window.
fn zstd_head(stored: &[u8], output: &mut [u8]) -> Option<usize> {
    let mut context = DCtx::try_create()?;
    let mut input = InBuffer::around(stored);
    let mut output = OutBuffer::around(output);
    let mut left = 1;
    while output.pos() < output.capacity() && input.pos() < stored.len() && left > 0 {
        left = context.decompress_stream(&mut output, &mut input).ok()?;
    }
    Some(output.pos())
}

fn brotli(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    match brotli_head(stored, output) {
        (BrotliResult::ResultSuccess, Some(written)) => Ok(written),
        (BrotliResult::ResultSuccess, None) => Err("bytes follow the stream".to_string()),
        (BrotliResult::NeedsMoreInput, _) => Err("the stream ends early".to_string()),
        (BrotliResult::NeedsMoreOutput, _) => Err(MORE.to_string()),
        (BrotliResult::ResultFailure, _) => Err("not a brotli stream".to_string()),
    }
}

/// Returns how decompression ended, and the bytes written if no bytes follow. Brotli
/// keeps no context: its state is made for each stream.
fn brotli_head(stored: &[u8], output: &mut [u8]) -> (BrotliResult, Option<usize>) {
    let allocator = StandardAlloc::default;
    // Strict: windows of at most 16 MiB, as in RFC 7932.
    let mut state = BrotliState::new_strict(allocator(), allocator(), allocator());
    let (mut input_left, mut input_offset) = (stored.len(), 0);
    let (mut output_left, mut output_offset, mut total) = (output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut input_left,
        &mut input_offset,
        stored,
        &mut output_left,
        &mut output_offset,
        output,
        &mut total,
        &mut state,
    );
    let is_odd = matches!(result, BrotliResult::ResultSuccess) && input_left > 0;
    (result, (!is_odd).then_some(output_offset))
}

#[cfg(test)]
mod tests;
