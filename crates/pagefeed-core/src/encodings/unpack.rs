//! Bit-packed dictionary indices, unpacked and looked up.
//!
//! Real token columns are 13 to 17 bits wide, in runs of about 500 values. On such
//! runs AVX2 unpacks eight indices in six instructions, NEON four; the lookups stay scalar,
//! because a table of 16-bit entries is served from the nearest caches faster than
//! gathers fetch it, and are put together to eight before they are stored.

use super::hybrid::{Packed, Run, Runs, load_u64};
use crate::error::{Error, Result};

/// Indices unpacked at once: they stay in the nearest cache.
pub(crate) const BATCH: usize = 512;

/// An entry of a dictionary that becomes a `T`.
pub(crate) trait Entry<T>: Copy {
    /// Returns the token of an entry.
    fn token(self) -> T;

    /// Appends the tokens of all `indices`.
    ///
    /// # Safety
    /// All of them must be inside the table.
    unsafe fn append(indices: &[u32], table: &[Self], output: &mut Vec<T>) {
        output.extend(indices.iter().map(|&index| {
            // SAFETY: promised by the caller.
            unsafe { *table.get_unchecked(index as usize) }.token()
        }));
    }
}

impl Entry<u16> for u16 {
    fn token(self) -> u16 {
        self
    }

    unsafe fn append(indices: &[u32], table: &[u16], output: &mut Vec<u16>) {
        #[cfg(target_arch = "x86_64")]
        let indices = if is_x86_feature_detected!("avx2") {
            let (eights, rest) = indices.as_chunks();
            // SAFETY: the processor has AVX2, the rest is promised by the caller.
            unsafe { avx2::append(eights, table, output) };
            rest
        } else {
            indices
        };
        output.extend(indices.iter().map(|&index| {
            // SAFETY: promised by the caller.
            unsafe { *table.get_unchecked(index as usize) }
        }));
    }
}

/// Entries that are looked up one by one.
macro_rules! entries {
    ($($entry:ty => $token:ty),*) => {
        $(impl Entry<$token> for $entry {
            fn token(self) -> $token {
                self.into()
            }
        })*
    };
}

entries!(u16 => i32, u16 => u32, u16 => i64, i32 => i32, u32 => u32, i64 => i64);

/// Refuses an index that the dictionary does not have.
pub(crate) fn check_index(index: u32, entries: usize) -> Result<()> {
    if index as usize >= entries {
        return Err(Error::corrupt(format!(
            "dictionary index {index} in a dictionary of {entries} entries"
        )));
    }
    Ok(())
}

/// Consecutive values.
pub(crate) enum Chunk<'a> {
    /// One value, many times.
    Repeated { value: u32, count: usize },
    /// At most [`BATCH`] values.
    Batch(&'a [u32]),
}

/// Calls `check` with the largest value of each chunk of runs, from number `start` on,
/// and then `visit` with the chunk.
pub(crate) fn unpack_chunks(
    runs: Runs<'_>,
    mut start: usize,
    check: impl Fn(u32) -> Result<()>,
    mut visit: impl FnMut(Chunk<'_>) -> Result<()>,
) -> Result<()> {
    let mut buffer = [0; BATCH];
    for run in runs {
        let run = run?;
        let (skipped, end) = (start, run.count());
        start = start.saturating_sub(end);
        if skipped >= end {
            continue;
        }
        match run {
            Run::Repeated { value, .. } => {
                check(value)?;
                let count = end - skipped;
                visit(Chunk::Repeated { value, count })?;
            }
            Run::Packed(packed) => {
                for from in (skipped / BATCH * BATCH..end).step_by(BATCH) {
                    let values = &mut buffer[..BATCH.min(end - from)];
                    check(unpack(&packed, from, values))?;
                    visit(Chunk::Batch(&values[skipped.saturating_sub(from)..]))?;
                }
            }
        }
    }
    Ok(())
}

/// Unpacks values `from..from + output.len()`; `from` is a multiple of 8. Returns the
/// largest.
pub(crate) fn unpack(packed: &Packed<'_>, from: usize, output: &mut [u32]) -> u32 {
    debug_assert!(from.is_multiple_of(8) && from + output.len() <= packed.count);
    let bytes = &packed.bytes[(from / 8 * packed.width as usize).min(packed.bytes.len())..];
    let (done, largest) = match packed.width {
        1..=lanes::MAX_WIDTH => unpack_lanes(bytes, packed.width, output),
        _ => (0, 0),
    };
    let skipped = done / 8 * packed.width as usize;
    let rest = &mut output[done..];
    largest.max(unpack_scalar(&bytes[skipped..], packed.width, rest))
}

/// Unpacks groups of eight values by the processor's vectors, if it has them. Returns the
/// number of values unpacked, and the largest of them.
fn unpack_lanes(bytes: &[u8], width: u32, output: &mut [u32]) -> (usize, u32) {
    #[cfg(target_arch = "aarch64")]
    return neon::unpack(bytes, width as usize, output);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::unpack(bytes, width as usize, output) };
    }
    #[cfg(not(target_arch = "aarch64"))]
    (0, 0)
}

/// Unpacks `output.len()` values that begin with `bytes`; returns the largest.
fn unpack_scalar(bytes: &[u8], width: u32, output: &mut [u32]) -> u32 {
    if width == 0 {
        output.fill(0);
        return 0;
    }
    let mask = u64::MAX >> (64 - width);
    let (mut bit, mut largest) = (0, 0);
    for value in output {
        *value = ((load_u64(bytes, bit / 8) >> (bit % 8)) & mask) as u32;
        largest = largest.max(*value);
        bit += width as usize;
    }
    largest
}

/// Eight values at a time, in halves of four that are loaded as 16 bytes each.
mod lanes {
    /// Greatest width at which four values and the bits before them fit a load of 16
    /// bytes, with each value in four of these bytes.
    pub(super) const MAX_WIDTH: u32 = 25;

    /// Bytes of its half that each 32-bit lane gets, by bit width.
    pub(super) const SHUFFLES: [[u8; 32]; MAX_WIDTH as usize + 1] = shuffles();
    /// Bits by which each lane is shifted down afterwards, by bit width.
    pub(super) const SHIFTS: [[u32; 8]; MAX_WIDTH as usize + 1] = shifts();

    /// Bits before lane `lane` in the 16 bytes its half is loaded from.
    const fn bit_of(width: usize, lane: usize) -> usize {
        let half_start = if lane < 4 { 0 } else { 4 * width / 8 * 8 };
        lane * width - half_start
    }

    const fn shuffles() -> [[u8; 32]; MAX_WIDTH as usize + 1] {
        let mut tables = [[0; 32]; MAX_WIDTH as usize + 1];
        let mut i = 0;
        while i < tables.len() * 32 {
            let (width, lane, byte) = (i / 32, i % 32 / 4, i % 4);
            tables[width][i % 32] = (bit_of(width, lane) / 8 + byte) as u8;
            i += 1;
        }
        tables
    }

    const fn shifts() -> [[u32; 8]; MAX_WIDTH as usize + 1] {
        let mut tables = [[0; 8]; MAX_WIDTH as usize + 1];
        let mut i = 0;
        while i < tables.len() * 8 {
            tables[i / 8][i % 8] = (bit_of(i / 8, i % 8) % 8) as u32;
            i += 1;
        }
        tables
    }

    /// Returns the byte where the second half of a group begins.
    pub(super) const fn second_half(width: usize) -> usize {
        4 * width / 8
    }

    /// Returns the number of groups of `num_values` whose loads stay inside `num_bytes`.
    pub(super) fn num_groups(num_bytes: usize, width: usize, num_values: usize) -> usize {
        // A group at `8 * group * width` bits is loaded up to the second half's end.
        let loadable = (num_bytes + width).saturating_sub(second_half(width) + 16) / width;
        loadable.min(num_values / 8)
    }
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64::*;

    use super::lanes::{SHIFTS, SHUFFLES, num_groups, second_half};

    /// Unpacks groups of eight values while loads stay inside `bytes`. Returns the
    /// number of values unpacked, and the largest of them.
    pub(super) fn unpack(bytes: &[u8], width: usize, output: &mut [u32]) -> (usize, u32) {
        let groups = num_groups(bytes.len(), width, output.len());
        let (shuffles, shifts) = (SHUFFLES[width].as_ptr(), SHIFTS[width].as_ptr());
        // SAFETY: every processor of this kind has NEON. Tables have 32 bytes, and
        // `groups` was chosen so that loads end inside `bytes` and stores inside `output`.
        unsafe {
            // Shifted up by a negative number: down.
            let down = |at| vnegq_s32(vreinterpretq_s32_u32(vld1q_u32(shifts.add(at))));
            let halves = [
                (0, vld1q_u8(shuffles), down(0)),
                (second_half(width), vld1q_u8(shuffles.add(16)), down(4)),
            ];
            let mask = vdupq_n_u32((1 << width) - 1);
            let mut largest = vdupq_n_u32(0);
            let mut to = output.as_mut_ptr();
            for group in 0..groups {
                for (byte, shuffle, shift) in halves {
                    let loaded = vld1q_u8(bytes.as_ptr().add(group * width + byte));
                    let lanes = vreinterpretq_u32_u8(vqtbl1q_u8(loaded, shuffle));
                    let values = vandq_u32(vshlq_u32(lanes, shift), mask);
                    largest = vmaxq_u32(largest, values);
                    vst1q_u32(to, values);
                    to = to.add(4);
                }
            }
            (groups * 8, vmaxvq_u32(largest))
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::lanes::{SHIFTS, SHUFFLES, num_groups, second_half};

    /// Appends the entries of all indices, eight at a time: single stores would take
    /// longest.
    ///
    /// # Safety
    /// All of them must be inside the table.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn append(eights: &[[u32; 8]], table: &[u16], output: &mut Vec<u16>) {
        output.reserve(8 * eights.len());
        let targets = output.spare_capacity_mut().as_chunks_mut::<8>().0;
        for (to, indices) in targets.iter_mut().zip(eights) {
            // SAFETY: indices are promised by the caller, and `to` has 16 bytes.
            unsafe {
                let entry = |at: usize| i32::from(*table.get_unchecked(indices[at] as usize));
                let mut entries = _mm_cvtsi32_si128(entry(0));
                entries = _mm_insert_epi16::<1>(entries, entry(1));
                entries = _mm_insert_epi16::<2>(entries, entry(2));
                entries = _mm_insert_epi16::<3>(entries, entry(3));
                entries = _mm_insert_epi16::<4>(entries, entry(4));
                entries = _mm_insert_epi16::<5>(entries, entry(5));
                entries = _mm_insert_epi16::<6>(entries, entry(6));
                entries = _mm_insert_epi16::<7>(entries, entry(7));
                _mm_storeu_si128(to.as_mut_ptr().cast(), entries);
            }
        }
        let num_tokens = output.len() + 8 * eights.len();
        // SAFETY: room for all of them was reserved, and all were written.
        unsafe { output.set_len(num_tokens) };
    }

    /// Unpacks groups of eight values while loads stay inside `bytes`. Returns the
    /// number of values unpacked, and the largest of them.
    #[target_feature(enable = "avx2")]
    pub(super) fn unpack(bytes: &[u8], width: usize, output: &mut [u32]) -> (usize, u32) {
        let second = second_half(width);
        let groups = num_groups(bytes.len(), width, output.len());
        // SAFETY: unaligned loads from tables of 32 bytes.
        let (shuffle, shift) = unsafe {
            (
                _mm256_loadu_si256(SHUFFLES[width].as_ptr().cast()),
                _mm256_loadu_si256(SHIFTS[width].as_ptr().cast()),
            )
        };
        let mask = _mm256_set1_epi32((1 << width) - 1);
        let mut largest = _mm256_setzero_si256();
        for group in 0..groups {
            // SAFETY: `groups` was chosen so that both loads end inside `bytes` and the
            // store inside `output`.
            unsafe {
                let low = bytes.as_ptr().add(group * width);
                let halves = _mm256_loadu2_m128i(low.add(second).cast(), low.cast());
                let lanes = _mm256_shuffle_epi8(halves, shuffle);
                let values = _mm256_and_si256(_mm256_srlv_epi32(lanes, shift), mask);
                largest = _mm256_max_epu32(largest, values);
                _mm256_storeu_si256(output.as_mut_ptr().add(group * 8).cast(), values);
            }
        }
        let mut lanes = [0u32; 8];
        // SAFETY: `lanes` has 32 bytes.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), largest) };
        (groups * 8, lanes.into_iter().max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::{Random, pack};

    #[test]
    fn all_widths_and_lengths_agree_with_packing_bit_by_bit() {
        let mut random = Random(4);
        for width in 0..=32u32 {
            let mask = ((1u64 << width) - 1) as u32;
            for count in [0, 1, 7, 8, 9, 31, 64, 100, 504, 512, 1000] {
                let values: Vec<u32> = (0..count).map(|_| random.next() as u32 & mask).collect();
                // With and without bytes after the values.
                for slack in [0, 1, 15, 40] {
                    let mut bytes = pack(&values, width);
                    bytes.extend((0..slack).map(|_| random.next() as u8));
                    let packed = Packed {
                        bytes: &bytes,
                        width,
                        count,
                    };
                    for from in [0, 8, 64] {
                        let Some(expected) = values.get(from..) else {
                            continue;
                        };
                        let (mut fast, mut slow) =
                            (vec![9; expected.len()], vec![9; expected.len()]);
                        let largest = unpack(&packed, from, &mut fast);
                        unpack_scalar(&bytes[from / 8 * width as usize..], width, &mut slow);
                        assert_eq!(fast, expected, "width {width}");
                        assert_eq!(slow, expected, "width {width}");
                        assert_eq!(largest, expected.iter().copied().max().unwrap_or(0));
                    }
                }
            }
        }
    }
}
