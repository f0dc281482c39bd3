//! Numbers beside the tokens, in memory: bits of any type, in as few as the numbers need.
//!
//! Most labels then take no more memory than the tokens. In the width of their column,
//! epochs with labels take a third more processor time
//! (`benchmarks/columns/bench_aligned.py`).

pub(crate) mod bits;

use std::ops::Range;

use super::integers::{collect, mismatch, reserve};
use super::numbers::{Tokens, vec_bytes};
use crate::decode::encodings::indices::{Part, for_each_part};
use crate::decode::encodings::unpack::Entry;
use crate::error::Result;
use crate::fields::as_numbers;
use bits::{Bits, Size, half_of, whole_of};

/// Numbers of one column.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Bytes of a number of the column.
    width: usize,
    held: Held,
}

#[derive(Clone, Debug)]
enum Held {
    Short(Vec<u16>),
    Half(Vec<i32>),
    Whole(Vec<i64>),
}

/// Does `$what` with the `$values`, whatever their type.
macro_rules! with_held {
    ($held:expr, $values:ident => $what:expr) => {
        match $held {
            Held::Short($values) => $what,
            Held::Half($values) => $what,
            Held::Whole($values) => $what,
        }
    };
}

impl Default for Held {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl Held {
    /// In how many bits it holds each number.
    fn size(&self) -> Size {
        match self {
            Self::Short(_) => Size::Bits16,
            Self::Half(_) => Size::Bits32,
            Self::Whole(_) => Size::Bits64,
        }
    }

    fn of(numbers: impl ExactSizeIterator<Item = i64>, width: usize, size: Size) -> Result<Self> {
        Ok(match size {
            Size::Bits16 if width <= 2 => {
                Self::Short(collect(numbers.map(|number| number as u16))?)
            }
            Size::Bits16 => Self::Short(collect(numbers.map(Bits::short))?),
            Size::Bits32 => Self::Half(collect(numbers.map(Bits::half))?),
            Size::Bits64 => Self::Whole(collect(numbers)?),
        })
    }
}

fn size_of(table: &Tokens) -> Size {
    match table {
        Tokens::U16(_) => Size::Bits16,
        Tokens::I32(_) | Tokens::U32(_) => Size::Bits32,
        Tokens::I64(_) => Size::Bits64,
    }
}

impl Numbers {
    /// None yet, of `width` bytes each, in the memory of others.
    pub(crate) fn new(width: usize, recycle: Self) -> Self {
        let mut empty = Self { width, ..recycle };
        empty.clear();
        empty
    }

    /// One number of the column that `like` is of, by its bits, held in the same way.
    pub(crate) fn one(like: &Self, bits: u64) -> Result<Self> {
        let mut one = Self::new(like.width, Self::default());
        one.pad(bits, 1, 1)?;
        Ok(one)
    }

    /// None yet, of as many bytes as `other`, in the memory of others.
    pub(crate) fn like(other: &Self, recycle: Self) -> Self {
        Self::new(other.width, recycle)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        with_held!(&self.held, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of a number of the column.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Bytes of memory, as allocated.
    pub fn num_bytes(&self) -> usize {
        with_held!(&self.held, values => vec_bytes(values))
    }

    /// Forgets all, but not the memory.
    pub fn clear(&mut self) {
        with_held!(&mut self.held, values => values.clear());
    }

    /// Appends the number of these bits `count` times, of as many that will come in all.
    pub(crate) fn pad(&mut self, bits: u64, count: usize, all: usize) -> Result<()> {
        let more = match self.is_empty() {
            true => all.saturating_sub(count),
            false => 0,
        };
        match self.width {
            8 => self.extend(&vec![bits.cast_signed(); count], more),
            4 => self.extend(&vec![bits as i32; count], more),
            _ => self.extend(&vec![bits as u16; count], more),
        }
    }

    /// As they are held: what [`Numbers::look_up`] takes for a table.
    pub(super) fn into_table(self) -> Tokens {
        match self.held {
            Held::Short(values) => Tokens::U16(values),
            Held::Half(values) => Tokens::I32(values),
            Held::Whole(values) => Tokens::I64(values),
        }
    }

    /// A number of the column that is held in 16 bits.
    fn widening(&self) -> impl Fn(u16) -> i64 + Copy + use<> {
        let is_narrow = self.width <= 2;
        move |short| match is_narrow {
            true => short.into(),
            false => whole_of(short),
        }
    }

    /// Numbers in `range`, in 64 bits.
    pub(crate) fn whole(&self, range: Range<usize>) -> Vec<i64> {
        match &self.held {
            Held::Short(held) => held[range]
                .iter()
                .map(|&short| self.widening()(short))
                .collect(),
            Held::Half(held) => held[range].iter().map(|&half| half.into()).collect(),
            Held::Whole(held) => held[range].to_vec(),
        }
    }

    /// Makes room for `more` numbers, which take so many bits.
    fn make_room(&mut self, size: Size, more: usize) -> Result<()> {
        if self.is_empty() && self.held.size() != size {
            self.held = Held::of([].into_iter(), self.width, size)?;
        } else if self.held.size() < size {
            let all = self.whole(0..self.len()).into_iter();
            self.held = Held::of(all, self.width, size)?;
        }
        with_held!(&mut self.held,
            values => match values.capacity() - values.len() < more {
                true => reserve(values, more),
                false => Ok(()),
            }
        )
    }

    /// Appends numbers, in the fewest bits that hold them; `more` will follow.
    pub(crate) fn extend<B: Bits>(&mut self, numbers: &[B], more: usize) -> Result<()> {
        self.make_room(B::size_of_all(numbers), numbers.len() + more)?;
        let numbers = numbers.iter();
        match &mut self.held {
            Held::Short(held) => held.extend(numbers.map(|number| number.short())),
            Held::Half(held) => held.extend(numbers.map(|number| number.half())),
            Held::Whole(held) => held.extend(numbers.map(|number| number.whole())),
        }
        Ok(())
    }

    /// Appends the entries of `table` that `values` of a page name.
    pub(super) fn look_up(
        &mut self,
        page: &[u8],
        values: Range<usize>,
        table: &Tokens,
    ) -> Result<()> {
        self.make_room(size_of(table), values.len())?;
        let first = self.widening();
        match (table, &mut self.held) {
            (Tokens::U16(table), Held::Short(held)) => look_up(page, values, table, held),
            (Tokens::I32(table), Held::Half(held)) => look_up(page, values, table, held),
            (Tokens::I64(table), Held::Whole(held)) => look_up(page, values, table, held),
            (Tokens::U16(table), Held::Half(held)) => {
                let wide: Vec<i32> = table.iter().map(|&short| half_of(short)).collect();
                look_up(page, values, &wide, held)
            }
            (Tokens::U16(table), Held::Whole(held)) => {
                let wide: Vec<i64> = table.iter().map(|&short| first(short)).collect();
                look_up(page, values, &wide, held)
            }
            (Tokens::I32(table), Held::Whole(held)) => {
                let wide: Vec<i64> = table.iter().map(|&half| half.into()).collect();
                look_up(page, values, &wide, held)
            }
            _ => Err(mismatch()),
        }
    }

    /// Appends some of another column's, which will come to `count` or so.
    pub fn append(&mut self, other: &Self, range: Range<usize>, count: usize) -> Result<()> {
        self.width = other.width;
        let more = match self.is_empty() {
            true => count.max(range.len()),
            false => range.len(),
        };
        self.make_room(other.held.size(), more)?;
        match (&mut self.held, &other.held) {
            (Held::Short(held), Held::Short(from)) => held.extend_from_slice(&from[range]),
            (Held::Half(held), Held::Half(from)) => held.extend_from_slice(&from[range]),
            (Held::Whole(held), Held::Whole(from)) => held.extend_from_slice(&from[range]),
            _ if self.width <= 2 => {
                let numbers = other.whole(range).into_iter();
                let numbers: Vec<u16> = numbers.map(|number| number as u16).collect();
                return self.extend(&numbers, 0);
            }
            _ => return self.extend(&other.whole(range), 0),
        }
        Ok(())
    }

    /// Writes those from `from` on over all of `target`, in the bytes of their column;
    /// nothing if there are not as many.
    pub fn write(&self, from: usize, target: &mut [u8]) -> Option<()> {
        match (self.width, &self.held) {
            (8, Held::Short(held)) => put(held, from, as_numbers(target), whole_of),
            (8, Held::Half(held)) => put(held, from, as_numbers(target), i64::from),
            (8, Held::Whole(held)) => put(held, from, as_numbers(target), |whole| whole),
            (4, Held::Short(held)) => put(held, from, as_numbers(target), half_of),
            (4, Held::Half(held)) => put(held, from, as_numbers(target), |half| half),
            (2, Held::Short(held)) => put(held, from, as_numbers(target), |short| short),
            (1, Held::Short(held)) => put(held, from, target, |short| short as u8),
            _ => None,
        }
    }
}

fn put<S: Copy, T>(held: &[S], from: usize, target: &mut [T], cast: impl Fn(S) -> T) -> Option<()> {
    let source = held.get(from..from + target.len())?;
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        unsafe { put_avx2(source, target, cast) };
        return Some(());
    }
    put_all(source, target, cast);
    Some(())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn put_avx2<S: Copy, T>(source: &[S], target: &mut [T], cast: impl Fn(S) -> T) {
    put_all(source, target, cast);
}

#[inline(always)]
fn put_all<S: Copy, T>(source: &[S], target: &mut [T], cast: impl Fn(S) -> T) {
    for (to, &from) in target.iter_mut().zip(source) {
        *to = cast(from);
    }
}

fn look_up<T: Entry<T>>(
    page: &[u8],
    values: Range<usize>,
    table: &[T],
    out: &mut Vec<T>,
) -> Result<()> {
    for_each_part(page, values, table.len(), |part| {
        match part {
            Part::Repeated { index, count } => {
                out.resize(out.len() + count, table[index as usize]);
            }
            // SAFETY: each of the indices was seen to be inside the table.
            Part::Batch(indices) => unsafe { T::append(indices, table, out) },
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests;
