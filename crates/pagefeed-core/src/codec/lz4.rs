//! LZ4 blocks, and the three ways in which files that say "LZ4" wrap them.

use lz4_flex::block::decompress_into;
use lz4_flex::frame::FrameDecoder;

use super::gzip::{check_end, fill};

const FRAME_MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();

/// One block, nothing around it.
pub(super) fn raw(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    decompress_into(stored, output).map_err(|error| error.to_string())
}

/// Decompresses Hadoop's framing, or what other writers store under the same name: an
/// LZ4 frame, or a raw block. Nothing says which one it is, so they are tried in turn.
pub(super) fn hadoop(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    if let Some(written) = hadoop_frames(stored, output)
        && written == output.len()
    {
        return Ok(written);
    }
    if stored.starts_with(&FRAME_MAGIC) {
        return lz4_frame(stored, output);
    }
    raw(stored, output)
}

/// Decompresses frames of a decompressed size and blocks, where each block has its
/// compressed size (all big-endian); `None` if the bytes have another format.
fn hadoop_frames(mut stored: &[u8], output: &mut [u8]) -> Option<usize> {
    let mut written = 0;
    while !stored.is_empty() {
        let (size, rest) = stored.split_first_chunk::<4>()?;
        let end = written + u32::from_be_bytes(*size) as usize;
        stored = rest;
        let frame = output.get_mut(..end)?;
        while written < end {
            let (size, rest) = stored.split_first_chunk::<4>()?;
            let (block, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
            let count = decompress_into(block, &mut frame[written..]).ok()?;
            if count == 0 {
                return None;
            }
            written += count;
            stored = rest;
        }
    }
    Some(written)
}

fn lz4_frame(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    let mut decoder = FrameDecoder::new(stored);
    let written = fill(&mut decoder, output)?;
    check_end(&mut decoder)?;
    Ok(written)
}
