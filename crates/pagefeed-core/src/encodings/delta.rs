//! Integers as differences, bit-packed in blocks (`DELTA_BINARY_PACKED`): where they
//! end, and the lengths that precede strings.

use super::hybrid::Packed;
use super::unpack::{BATCH, unpack};
use crate::error::{Error, Result};

/// Delta-encoded integers of a page, or of a part of one, not yet read.
pub(crate) struct Delta<'a> {
    bytes: &'a [u8],
    /// Number of integers.
    pub(crate) count: usize,
    pub(crate) first: i64,
    miniblocks: usize,
    /// Integers of a miniblock, a multiple of 8.
    miniblock_size: usize,
}

/// Differences of one bit width.
struct Miniblock<'a> {
    min_delta: i64,
    width: usize,
    packed: &'a [u8],
    count: usize,
}

impl<'a> Delta<'a> {
    /// Reads the header in front of the blocks.
    pub(crate) fn new(mut bytes: &'a [u8]) -> Result<Self> {
        let mut size = || Ok::<_, Error>(varint(&mut bytes)? as usize);
        let (block_size, miniblocks, count) = (size()?, size()?, size()?);
        let first = zigzag(&mut bytes)?;
        let miniblock_size = block_size.checked_div(miniblocks).unwrap_or(0);
        let is_even = miniblock_size.checked_mul(miniblocks) == Some(block_size);
        if block_size == 0 || !is_even || !miniblock_size.is_multiple_of(8) {
            return Err(Error::corrupt(format!(
                "blocks of {block_size} differences in {miniblocks} parts"
            )));
        }
        Ok(Self {
            bytes,
            count,
            first,
            miniblocks,
            miniblock_size,
        })
    }

    /// Returns the bytes after the blocks; all blocks are checked to be there.
    pub(crate) fn end(self) -> Result<&'a [u8]> {
        self.for_each_miniblock(|_| Ok(()))
    }

    /// Calls `visit` with a chunk of lengths at a time; returns the bytes after them.
    pub(crate) fn lengths(self, mut visit: impl FnMut(&[u32])) -> Result<&'a [u8]> {
        let mut last = self.first;
        if self.count > 0 {
            visit(&[length(last)?]);
        }
        let mut buffer = [0; BATCH];
        self.for_each_miniblock(|miniblock| {
            for from in (0..miniblock.count).step_by(BATCH) {
                let lengths = &mut buffer[..BATCH.min(miniblock.count - from)];
                miniblock.unpack(from, lengths)?;
                for value in lengths.iter_mut() {
                    // As 32-bit integers are stored: the sum may wrap around.
                    let delta = miniblock.min_delta.wrapping_add(i64::from(*value));
                    last = i64::from(last.wrapping_add(delta) as i32);
                    *value = length(last)?;
                }
                visit(lengths);
            }
            Ok(())
        })
    }

    fn for_each_miniblock(
        self,
        mut visit: impl FnMut(&Miniblock<'_>) -> Result<()>,
    ) -> Result<&'a [u8]> {
        let (mut bytes, mut left) = (self.bytes, self.count.saturating_sub(1));
        while left > 0 {
            let min_delta = zigzag(&mut bytes)?;
            let (widths, rest) = bytes
                .split_at_checked(self.miniblocks)
                .ok_or_else(|| short(left))?;
            bytes = rest;
            // Widths after the last difference may be anything.
            for &width in widths.iter().take(left.div_ceil(self.miniblock_size)) {
                let (width, count) = (usize::from(width), left.min(self.miniblock_size));
                // The padding of the last one is sometimes left out.
                let needed = count.saturating_mul(width).div_ceil(8);
                if width > 64 || needed > bytes.len() {
                    return Err(short(left));
                }
                let whole = (self.miniblock_size / 8).saturating_mul(width);
                let size = if whole <= bytes.len() { whole } else { needed };
                let (packed, rest) = bytes.split_at(size);
                visit(&Miniblock {
                    min_delta,
                    width,
                    packed,
                    count,
                })?;
                bytes = rest;
                left -= count;
            }
        }
        Ok(bytes)
    }
}

impl Miniblock<'_> {
    fn unpack(&self, from: usize, output: &mut [u32]) -> Result<()> {
        if self.width > 32 {
            return Err(Error::corrupt(format!(
                "lengths of strings differ by {} bits",
                self.width
            )));
        }
        let packed = Packed {
            bytes: self.packed,
            width: self.width as u32,
            count: self.count,
        };
        unpack(&packed, from, output);
        Ok(())
    }
}

fn short(left: usize) -> Error {
    Error::corrupt(format!("{left} differences between values are missing"))
}

fn length(value: i64) -> Result<u32> {
    // Lengths are signed integers of 32 bits.
    i32::try_from(value)
        .ok()
        .and_then(|value| u32::try_from(value).ok())
        .ok_or_else(|| Error::corrupt(format!("a string of {value} bytes")))
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes
            .split_first()
            .ok_or_else(|| Error::corrupt("the page ends inside a number"))?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::corrupt("a number is longer than 64 bits"))
}

fn zigzag(bytes: &mut &[u8]) -> Result<i64> {
    let raw = varint(bytes)?;
    Ok((raw >> 1).cast_signed() ^ -((raw & 1).cast_signed()))
}

#[cfg(test)]
mod tests;
