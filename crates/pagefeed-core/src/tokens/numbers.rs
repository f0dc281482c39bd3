//! Numbers with the tokens, in memory: bits of any type, in as few as the numbers need.
//!
//! Most labels then take no more memory than the tokens. In the width of their column,
//! epochs with labels take a third more processor time
//! (`benchmarks/columns/bench_aligned.py`).

use std::ops::Range;

use arrow_buffer::{Buffer, MutableBuffer};

use super::integers::{Tokens, mismatch, with_values};
use super::number_type::as_numbers;
use crate::buffers::{collect, reserve};
use crate::encodings::indices::look_up;
use crate::error::Result;
use crate::simd::vectorized;

/// The number that 0 means in 16 bits, if wider numbers are stored so: labels without
/// loss are negative, and most ids are below 65,000.
const FIRST: i64 = -256;

/// Numbers of one column; of none by default, see [`Numbers::are_absent`].
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Bytes of a number of the column.
    width: usize,
    /// Signed ones in 16, 32 or 64 bits. In 16 bits they count from [`FIRST`] on, unless
    /// the column has no more.
    held: Tokens,
}

/// Bytes of each number.
fn size_of(held: &Tokens) -> usize {
    match held {
        Tokens::U16(_) => 2,
        Tokens::I32(_) | Tokens::U32(_) => 4,
        Tokens::I64(_) => 8,
    }
}

impl Numbers {
    /// Returns an empty column for numbers of `width` bytes, in the memory of `recycle`.
    pub(crate) fn new(width: usize, recycle: Self) -> Self {
        let mut empty = Self { width, ..recycle };
        empty.clear();
        empty
    }

    /// Returns one number, given by its bits, of the same column as `like`.
    pub(crate) fn one(like: &Self, bits: u64) -> Result<Self> {
        let mut one = Self::new(like.width, Self::default());
        one.pad(bits, 1, 1)?;
        Ok(one)
    }

    /// Returns an empty column for numbers as wide as those of `other`, in the memory of
    /// `recycle`.
    pub(crate) fn like(other: &Self, recycle: Self) -> Self {
        Self::new(other.width, recycle)
    }

    /// Number of numbers.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether the dataset lacks the column: its tokens get padding.
    pub fn are_absent(&self) -> bool {
        self.width == 0
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, as allocated.
    pub fn num_bytes(&self) -> usize {
        self.held.num_bytes()
    }

    /// Forgets all, but not the memory.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Appends the number with these bits `count` times; announces how many will be
    /// appended in all.
    pub(crate) fn pad(&mut self, bits: u64, count: usize, all: usize) -> Result<()> {
        let more = match self.is_empty() {
            true => all.saturating_sub(count),
            false => 0,
        };
        let number = match self.width {
            8 => bits.cast_signed(),
            4 => i64::from(bits as i32),
            _ => i64::from(bits as u16),
        };
        self.extend(std::iter::repeat_n(number, count), more)
    }

    /// Returns the numbers as stored, as a table for [`Numbers::look_up`].
    pub(crate) fn into_table(self) -> Tokens {
        self.held
    }

    /// Returns the number that 0 means in 16 bits.
    fn first(&self) -> i64 {
        match self.width {
            ..=2 => 0,
            _ => FIRST,
        }
    }

    /// Returns the fewest bytes that hold each of `numbers`.
    fn fewest_bytes(&self, numbers: impl Iterator<Item = i64> + Clone) -> usize {
        let above_first = |number: i64| number.wrapping_sub(FIRST).cast_unsigned();
        let excess = |number: i64| number ^ i64::from(number as i32);
        if self.width <= 2 || numbers.clone().fold(0, |all, n| all | above_first(n)) >> 16 == 0 {
            return 2;
        }
        match numbers.fold(0, |all, n| all | excess(n)) {
            0 => 4,
            _ => 8,
        }
    }

    /// Numbers in `range`, in 64 bits.
    pub(crate) fn whole(&self, range: Range<usize>) -> Vec<i64> {
        match &self.held {
            Tokens::U16(held) => widened(&held[range], self.first()),
            held => held.wide(range),
        }
    }

    /// Makes room for `more` numbers of `bytes` bytes each.
    fn make_room(&mut self, bytes: usize, more: usize) -> Result<()> {
        let is_empty = self.is_empty();
        if (is_empty && size_of(&self.held) != bytes) || size_of(&self.held) < bytes {
            let all = self.whole(0..self.len()).into_iter();
            self.held = match bytes {
                2 => Tokens::U16(Vec::new()),
                4 => Tokens::I32(collect(all.map(|number| number as i32))?),
                _ => Tokens::I64(collect(all)?),
            };
        }
        with_values!(&mut self.held,
            values => match values.capacity() - values.len() < more {
                true => reserve(values, more),
                false => Ok(()),
            }
        )
    }

    /// Appends numbers, in the fewest bytes that hold them; `more` will follow.
    pub(crate) fn extend(
        &mut self,
        numbers: impl ExactSizeIterator<Item = i64> + Clone,
        more: usize,
    ) -> Result<()> {
        let first = self.first();
        self.make_room(self.fewest_bytes(numbers.clone()), numbers.len() + more)?;
        match &mut self.held {
            Tokens::U16(held) => held.extend(numbers.map(|n| n.wrapping_sub(first) as u16)),
            Tokens::I32(held) => held.extend(numbers.map(|number| number as i32)),
            Tokens::I64(held) => held.extend(numbers),
            Tokens::U32(_) => return Err(mismatch()),
        }
        Ok(())
    }

    /// Appends the entries of `table` that `values` of a page name.
    pub(crate) fn look_up(
        &mut self,
        page: &[u8],
        values: Range<usize>,
        table: &Tokens,
    ) -> Result<()> {
        self.make_room(size_of(table), values.len())?;
        let first = self.first();
        match (table, &mut self.held) {
            (Tokens::U16(table), Tokens::U16(held)) => look_up(page, values, table, held),
            (Tokens::I32(table), Tokens::I32(held)) => look_up(page, values, table, held),
            (Tokens::I64(table), Tokens::I64(held)) => look_up(page, values, table, held),
            (Tokens::U16(table), Tokens::I32(held)) => {
                let wide = table.iter().map(|&short| (i64::from(short) + first) as i32);
                look_up(page, values, &wide.collect::<Vec<_>>(), held)
            }
            (Tokens::U16(table), Tokens::I64(held)) => {
                look_up(page, values, &widened(table, first), held)
            }
            (table, Tokens::I64(held)) => look_up(page, values, &table.wide(0..table.len()), held),
            _ => Err(mismatch()),
        }
    }

    /// Appends a range of another column's numbers, `count` in all calls; nothing for
    /// an absent column.
    pub fn append(&mut self, other: &Self, range: Range<usize>, count: usize) -> Result<()> {
        self.width = other.width;
        if self.are_absent() {
            return Ok(());
        }
        let more = match self.is_empty() {
            true => count.max(range.len()),
            false => range.len(),
        };
        self.make_room(size_of(&other.held), more)?;
        match (&mut self.held, &other.held) {
            (Tokens::U16(held), Tokens::U16(from)) => held.extend_from_slice(&from[range]),
            (Tokens::I32(held), Tokens::I32(from)) => held.extend_from_slice(&from[range]),
            (Tokens::I64(held), Tokens::I64(from)) => held.extend_from_slice(&from[range]),
            _ => return self.extend(other.whole(range).iter().copied(), 0),
        }
        Ok(())
    }

    /// Returns all numbers in the type of their column.
    pub(crate) fn to_buffer(&self) -> Option<Buffer> {
        let mut bytes = MutableBuffer::from_len_zeroed(self.len() * self.width);
        self.write(0, &mut bytes)?;
        Some(bytes.into())
    }

    /// Writes the numbers from `from` on into all of `target`, in the type of their
    /// column; `None` if there are too few.
    pub fn write(&self, from: usize, target: &mut [u8]) -> Option<()> {
        let whole = |short: u16| i64::from(short) + FIRST;
        match (self.width, &self.held) {
            (8, Tokens::U16(held)) => put(held, from, as_numbers(target), whole),
            (8, Tokens::I32(held)) => put(held, from, as_numbers(target), i64::from),
            (8, Tokens::I64(held)) => put(held, from, as_numbers(target), |whole| whole),
            (4, Tokens::U16(held)) => put(held, from, as_numbers(target), |s| whole(s) as i32),
            (4, Tokens::I32(held)) => put(held, from, as_numbers(target), |half| half),
            (2, Tokens::U16(held)) => put(held, from, as_numbers(target), |short| short),
            (1, Tokens::U16(held)) => put(held, from, target, |short| short as u8),
            _ => None,
        }
    }
}

fn put<S: Copy, T>(held: &[S], from: usize, target: &mut [T], cast: impl Fn(S) -> T) -> Option<()> {
    let source = held.get(from..from + target.len())?;
    vectorized(source, target, |source, target| {
        for (to, &from) in target.iter_mut().zip(source) {
            *to = cast(from);
        }
    });
    Some(())
}

fn widened(held: &[u16], first: i64) -> Vec<i64> {
    held.iter().map(|&short| i64::from(short) + first).collect()
}

#[cfg(test)]
mod tests;
