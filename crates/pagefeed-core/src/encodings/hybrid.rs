//! The hybrid of run-length and bit-packed runs that levels and dictionary indices
//! are stored in.

use crate::error::{Error, Result};

/// Values of a block: DuckDB fills the last one up, and adds another after one that was
/// full. Others fill up a group of eight.
const BLOCK: usize = 256;
/// Header of a run of one block.
const BLOCK_HEADER: u8 = (BLOCK / 4 + 1) as u8;

/// One run of the hybrid encoding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<'a> {
    /// One value, many times.
    Repeated { value: u32, count: usize },
    /// Values of `width` bits, the first in the lowest bits.
    Packed(Packed<'a>),
}

/// Bit-packed values: `count` of them at the start of `bytes`. More bytes may follow,
/// so that wide loads need not stop early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) width: u32,
    pub(crate) count: usize,
}

impl Run<'_> {
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Repeated { count, .. } => *count,
            Self::Packed(packed) => packed.count,
        }
    }
}

/// Iterates over runs until they cover the number of values asked for; cuts the last
/// one if it is longer.
#[derive(Clone, Debug)]
pub(crate) struct Runs<'a> {
    bytes: &'a [u8],
    width: u32,
    remaining: usize,
    /// Values of the last run that are left, without padding.
    num_left: usize,
    /// Whether the last run was one block.
    was_block: bool,
}

impl<'a> Runs<'a> {
    /// `width` is at most 32.
    pub(crate) fn new(bytes: &'a [u8], width: u32, num_values: usize) -> Self {
        debug_assert!(width <= 32);
        Self {
            bytes,
            width,
            remaining: num_values,
            num_left: 0,
            was_block: false,
        }
    }

    /// Returns the bytes left once the values asked for are read. Refuses values that are
    /// left: the writer of the page wrote more of them.
    pub(crate) fn end(&self) -> Result<&'a [u8]> {
        match self.num_left {
            0 if self.was_block && self.is_block() => Ok(&[]),
            0 => Ok(self.bytes),
            left => Err(Error::corrupt(format!(
                "{left} levels or indices are left after the last of the page"
            ))),
        }
    }

    /// Whether one block is left, and nothing else.
    fn is_block(&self) -> bool {
        self.bytes.first() == Some(&BLOCK_HEADER)
            && self.bytes.len() == 1 + BLOCK / 8 * self.width as usize
    }

    fn run(&mut self) -> Result<Run<'a>> {
        self.was_block = self.bytes.first() == Some(&BLOCK_HEADER);
        let header = self.header()?;
        let count = header >> 1;
        let run = if header & 1 == 0 {
            // A run of one value has no padding.
            self.num_left = count.saturating_sub(self.remaining);
            let count = count.min(self.remaining);
            Run::Repeated {
                value: self.repeated_value()?,
                count,
            }
        } else {
            let stored = count.saturating_mul(8);
            let count = stored.min(self.remaining);
            // The last group may be cut off after the last value.
            let needed = (count * self.width as usize).div_ceil(8);
            let bytes = self.bytes;
            if needed > bytes.len() {
                return Err(Error::corrupt(format!(
                    "a bit-packed run of {count} values takes {needed} bytes, {} are left",
                    bytes.len()
                )));
            }
            let size = (stored / 8).saturating_mul(self.width as usize);
            self.bytes = &bytes[size.min(bytes.len())..];
            let is_block = stored.is_multiple_of(BLOCK) && size <= bytes.len();
            let padded = if is_block { BLOCK } else { 8 };
            self.num_left = (stored - count) / padded * padded;
            Run::Packed(Packed {
                bytes,
                width: self.width,
                count,
            })
        };
        self.remaining -= run.count();
        Ok(run)
    }

    /// A run's header, a varint of at most 32 bits.
    fn header(&mut self) -> Result<usize> {
        let mut header = 0u64;
        for (i, &byte) in self.bytes.iter().enumerate().take(5) {
            header |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(header as usize);
            }
        }
        Err(if self.bytes.len() >= 5 {
            Error::corrupt("the length of a run does not fit 32 bits")
        } else {
            Error::corrupt(format!("{} values are missing", self.remaining))
        })
    }

    fn repeated_value(&mut self) -> Result<u32> {
        let size = self.width.div_ceil(8) as usize;
        let (value, rest) = self
            .bytes
            .split_at_checked(size)
            .ok_or_else(|| Error::corrupt("a run lacks its value"))?;
        self.bytes = rest;
        let mut bytes = [0; 4];
        bytes[..size].copy_from_slice(value);
        Ok(u32::from_le_bytes(bytes))
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Result<Run<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.remaining > 0).then(|| self.run())
    }
}

/// Returns the 64 bits from bit `8 * at` on; zeros after the end.
#[inline]
pub(crate) fn load_u64(bytes: &[u8], at: usize) -> u64 {
    if let Some(chunk) = bytes[at..].first_chunk::<8>() {
        return u64::from_le_bytes(*chunk);
    }
    let mut padded = [0; 8];
    padded[..bytes.len() - at].copy_from_slice(&bytes[at..]);
    u64::from_le_bytes(padded)
}

impl Packed<'_> {
    /// Value number `index`.
    #[cfg(test)]
    pub(crate) fn get(&self, index: usize) -> u32 {
        debug_assert!(index < self.count);
        if self.width == 0 {
            return 0;
        }
        let bit = index * self.width as usize;
        let mask = u64::MAX >> (64 - self.width);
        ((load_u64(self.bytes, bit / 8) >> (bit % 8)) & mask) as u32
    }

    /// Number of values in `from..to` that equal `value`.
    pub(crate) fn count_equal(&self, value: u32, from: usize, to: usize) -> usize {
        self.matches(value, from, to)
            .map(|(_, matches)| matches.count_ones() as usize)
            .sum()
    }

    /// Calls `visit` with the position of each of values `from..to` that equals
    /// `value`.
    pub(crate) fn for_each_match(
        &self,
        value: u32,
        from: usize,
        to: usize,
        mut visit: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        for (position, mut matches) in self.matches(value, from, to) {
            while matches != 0 {
                visit(position + (matches.trailing_zeros() / self.width) as usize)?;
                matches &= matches - 1;
            }
        }
        Ok(())
    }

    /// Position of value number `nth`, counted from 0, of those that equal `value`.
    pub(crate) fn nth_match(&self, value: u32, mut nth: usize) -> Option<usize> {
        for (position, mut matches) in self.matches(value, 0, self.count) {
            let count = matches.count_ones() as usize;
            if nth < count {
                (0..nth).for_each(|_| matches &= matches - 1);
                return Some(position + (matches.trailing_zeros() / self.width) as usize);
            }
            nth -= count;
        }
        None
    }

    /// Compares as many values at once as fit 56 bits: yields the position of the
    /// first and a mask with the lowest bit of each value that equals `value`.
    fn matches(
        &self,
        value: u32,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (usize, u64)> + '_ {
        let width = self.width as usize;
        debug_assert!((1..=56).contains(&width) && to <= self.count);
        let step = 56 / width;
        let ones = (0..step).fold(0u64, |ones, i| ones | 1 << (i * width));
        let pattern = ones * u64::from(value);
        (from..to).step_by(step).map(move |position| {
            let bit = position * width;
            let different = (load_u64(self.bytes, bit / 8) >> (bit % 8)) ^ pattern;
            // The lowest bit of each value gathers all its bits.
            let any = (1..width).fold(different, |any, shift| any | different >> shift);
            let valid = (to - position).min(step) * width;
            (position, !any & ones & ((1 << valid) - 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::{Random, encode_hybrid, pack};

    #[test]
    fn runs_give_back_the_values_of_every_width() {
        let mut random = Random(1);
        for width in 0..=32u32 {
            for _ in 0..20 {
                let n = random.below(300) as usize;
                let mask = ((1u64 << width) - 1) as u32;
                let mut values = vec![0; n];
                for i in 0..n {
                    let repeat = i > 0 && random.below(4) > 0;
                    values[i] = if repeat {
                        values[i - 1]
                    } else {
                        random.next() as u32 & mask
                    };
                }
                let bytes = encode_hybrid(&values, width, &mut random);
                let mut decoded = Vec::new();
                for run in Runs::new(&bytes, width, n) {
                    match run.unwrap() {
                        Run::Repeated { value, count } => {
                            decoded.extend(std::iter::repeat_n(value, count));
                        }
                        Run::Packed(packed) => {
                            decoded.extend((0..packed.count).map(|i| packed.get(i)));
                        }
                    }
                }
                assert_eq!(decoded, values, "width {width}");
            }
        }
    }

    #[test]
    fn missing_values_are_an_error() {
        // A run of 100 fives, then one group of eight values in three bytes.
        let bytes = [100 << 1 & 0x7f | 0x80, 1, 5, 1 << 1 | 1, 7, 7, 7];
        let covered = |bytes, n| Runs::new(bytes, 3, n).collect::<Result<Vec<_>>>().is_ok();
        assert!(covered(&bytes, 108));
        assert!(!covered(&bytes, 109));
        assert!(!covered(&bytes[..6], 108));
        assert!(covered(&bytes[..6], 105)); // The cut byte is not needed.
        assert!(!covered(&bytes[..2], 100));
        assert!(!covered(&[0xff; 9], 1));
    }

    #[test]
    fn matches_are_found_in_any_stretch() {
        let mut random = Random(2);
        for width in 1..=9u32 {
            let values: Vec<u32> = (0..203)
                .map(|_| random.below(1 << width.min(2)) as u32)
                .collect();
            let bytes = pack(&values, width);
            let packed = Packed {
                bytes: &bytes,
                width,
                count: values.len(),
            };
            for _ in 0..50 {
                let from = random.below(203) as usize;
                let to = from + random.below(204 - from as u64) as usize;
                let expected: Vec<usize> = (from..to).filter(|&i| values[i] == 1).collect();
                let mut matched = Vec::new();
                let push = |i| {
                    matched.push(i);
                    Ok(())
                };
                packed.for_each_match(1, from, to, push).unwrap();
                assert_eq!(matched, expected);
                let nth = random.below(203) as usize;
                let mut all = (0..203).filter(|&i| values[i] == 1);
                assert_eq!(packed.nth_match(1, nth), all.nth(nth));
                assert_eq!(packed.count_equal(1, from, to), expected.len());
            }
        }
    }
}
