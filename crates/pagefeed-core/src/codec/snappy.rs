//! Snappy, raw format: a length, then literals and copies of what was written before.
//!
//! What an element is cannot be foretold, so the fast loop does not branch on it: a
//! table says how to read a tag, the source is selected, and 64 bytes are copied
//! whether as many are asked for or not. Both ideas are those of Google's decoder
//! (<https://github.com/google/snappy>, `DecompressBranchless`); the format is in its
//! `format_description.txt`. Rare elements, and those near the end of a buffer, go
//! through [`careful_step`], which checks everything.
//!
//! The `snap` crate, which compresses what is written, takes 1.4 to 2 times as long for
//! pages of text and of plain integers, and as long for bit-packed indices.

use std::hint::select_unpredictable;
use std::ptr;

/// Bytes that the fast loop may read from the start of an element: its tag, the literal
/// bytes that it copies at once, and the next tag.
const INPUT_MARGIN: usize = 2 + MAX_LENGTH;
/// Bytes that it may write from the end of the output so far on.
const OUTPUT_MARGIN: usize = MAX_LENGTH + PATTERN_BYTES;
/// Bytes of the longest element that the fast loop decodes, and bytes that it copies for
/// any. Copying fewer for a shorter element takes a branch that a processor cannot
/// predict: on bit-packed indices the loop takes 1.2 times as long, and at some
/// addresses of its code twice.
const MAX_LENGTH: usize = 64;
/// Bytes of a pattern that is repeated.
const PATTERN_BYTES: usize = 16;

/// Decompresses all of `stored` into `output`; returns the number of bytes written.
pub(super) fn decompress(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    let (size, stored) = split_size(stored).ok_or("it does not begin with a size")?;
    if size != output.len() {
        return Ok(size);
    }
    let (mut read, mut written) = (0, 0);
    while read < stored.len() {
        if stored.len() - read >= INPUT_MARGIN && size - written >= OUTPUT_MARGIN {
            (read, written) = fast_steps(stored, read, output, written);
        }
        (read, written) = careful_step(stored, read, output, written)
            .ok_or_else(|| format!("no element can be read at byte {read}"))?;
    }
    match written == size {
        true => Ok(size),
        false => Err(format!("it ends after {written} of {size} bytes")),
    }
}

/// Splits off the size, a 32-bit number in groups of 7 bits.
fn split_size(stored: &[u8]) -> Option<(usize, &[u8])> {
    let length = stored.iter().take(5).position(|byte| byte & 0x80 == 0)? + 1;
    let (groups, rest) = stored.split_at(length);
    let groups = groups.iter().rev();
    let size = groups.fold(0u64, |size, byte| size << 7 | u64::from(byte & 0x7f));
    Some((u32::try_from(size).ok()? as usize, rest))
}

/// Decoding of an element in the fast loop, by its tag. Aligned, so that a tag times eight
/// is its address in the table.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Tag {
    length: u16,
    /// Mask of the bytes after the tag that are the distance of a copy. A literal gets
    /// one that is never too short; an element that the fast loop cannot decode has
    /// distance 0.
    mask: u16,
    base: u16,
}

static TAGS: [Tag; 256] = tags();

const fn tags() -> [Tag; 256] {
    let none = Tag {
        length: 1,
        mask: 0,
        base: 0,
    };
    let mut tags = [none; 256];
    let mut byte = 0;
    while byte < 256 {
        let length = (byte as u16 >> 2) + 1;
        let (length, mask, base) = match byte & 3 {
            0 if length <= 60 => (length, 0, MAX_LENGTH as u16),
            1 => ((length - 1) % 8 + 4, 0xff, (byte as u16 >> 5) << 8),
            2 => (length, 0xffff, 0),
            _ => (1, 0, 0), // A long literal, or a distance of 32 bits.
        };
        tags[byte] = Tag { length, mask, base };
        byte += 1;
    }
    tags
}

/// Decodes common elements that are far from both ends; returns how much it read and
/// wrote. Both margins must be free at the beginning.
fn fast_steps(stored: &[u8], read: usize, output: &mut [u8], written: usize) -> (usize, usize) {
    assert!(stored.len() - read >= INPUT_MARGIN && output.len() - written >= OUTPUT_MARGIN);
    let (input, begin) = (stored.as_ptr(), output.as_mut_ptr());
    // SAFETY: `from` stays at least INPUT_MARGIN before the end of the input, and `to`
    // OUTPUT_MARGIN before that of the output, for as long as the loop runs. An
    // element reads its tag, 2 bytes after it, at most 64 literal bytes and the next tag,
    // which is at most 61 bytes on: 66 in all. It writes at most 64 bytes, and a
    // pattern that begins within them. Copies begin inside of what was written:
    // `source` is compared with `begin` before it is read.
    unsafe {
        let (mut from, mut to) = (input.add(read), begin.add(written));
        let last_from = input.add(stored.len() - INPUT_MARGIN);
        let last_to = begin.add(output.len() - OUTPUT_MARGIN);
        while from <= last_from && to <= last_to {
            let tag = usize::from(*from);
            let Tag { length, mask, base } = TAGS[tag];
            let behind = from.add(1).cast::<u16>().read_unaligned().to_le();
            let (length, distance) = (usize::from(length), usize::from((behind & mask) + base));
            let is_literal = tag & 3 == 0;
            let copied = to.wrapping_sub(distance).cast_const();
            let source = select_unpredictable(is_literal, from.add(1), copied);
            let next = select_unpredictable(
                is_literal,
                from.wrapping_add((tag >> 2) + 2),
                from.add((tag & 3) + 1),
            );
            if distance < length || copied < begin {
                if distance == 0 || copied < begin {
                    break;
                }
                repeat(to, distance, length);
            } else {
                // `copy`, not `copy_nonoverlapping`: bytes after `length` may overlap.
                ptr::copy(source, to, MAX_LENGTH);
            }
            (from, to) = (next, to.add(length));
        }
        (
            from.offset_from_unsigned(input),
            to.offset_from_unsigned(begin.cast_const()),
        )
    }
}

/// Writes `length` bytes that repeat the last `distance` bytes before `to`.
///
/// # Safety
/// `distance` bytes, at least one, must have been written before `to`, and `length`
/// bytes and a whole pattern must have room after it.
#[cold]
#[inline(never)]
unsafe fn repeat(to: *mut u8, distance: usize, length: usize) {
    // SAFETY: every write begins within `length` bytes after `to` and is at most a
    // pattern long; every read is of as many bytes, at least one of them before `to`.
    unsafe {
        let source = to.sub(distance).cast_const();
        if distance >= PATTERN_BYTES {
            for at in (0..length).step_by(PATTERN_BYTES) {
                ptr::copy(source.add(at), to.add(at), PATTERN_BYTES);
            }
            return;
        }
        let mut bits = 8 * distance as u32;
        let mut pattern = source.cast::<u128>().read_unaligned().to_le() & ((1 << bits) - 1);
        while bits < u128::BITS {
            pattern |= pattern << bits;
            bits *= 2;
        }
        let whole = PATTERN_BYTES / distance * distance;
        for at in (0..length).step_by(whole) {
            to.add(at).cast::<u128>().write_unaligned(pattern.to_le());
        }
    }
}

/// Decodes any one element; `None` if it is not whole, reaches back too far or has no
/// room.
#[cold]
#[inline(never)]
fn careful_step(
    stored: &[u8],
    read: usize,
    output: &mut [u8],
    written: usize,
) -> Option<(usize, usize)> {
    let tag = usize::from(*stored.get(read)?);
    let behind = read + 1;
    // The number in the first `count` bytes after the tag.
    let little_endian = |count: usize| {
        let bytes = stored.get(behind..behind + count)?.iter().rev();
        Some(bytes.fold(0, |value, &byte| value << 8 | usize::from(byte)))
    };
    let length = (tag >> 2) + 1;
    if tag & 3 == 0 {
        let size_bytes = length.saturating_sub(60);
        let length = match size_bytes {
            0 => length,
            _ => little_endian(size_bytes)? + 1,
        };
        let start = behind + size_bytes;
        let literal = stored.get(start..)?.get(..length)?;
        output[written..]
            .get_mut(..length)?
            .copy_from_slice(literal);
        return Some((start + length, written + length));
    }
    let (length, distance, size) = match tag & 3 {
        1 => ((length - 1) % 8 + 4, (tag >> 5) << 8 | little_endian(1)?, 1),
        2 => (length, little_endian(2)?, 2),
        _ => (length, little_endian(4)?, 4),
    };
    if distance == 0 || distance > written || length > output.len() - written {
        return None;
    }
    for at in written..written + length {
        output[at] = output[at - distance];
    }
    Some((behind + size, written + length))
}

#[cfg(test)]
mod tests;
