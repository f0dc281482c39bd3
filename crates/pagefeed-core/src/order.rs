//! What orders are made of, number by number: a keyed hash, and permutations of any
//! size, forward and backward. What they come to is the control plane's.

pub mod dealing;

use crate::error::{Error, Result};

/// Odd constants with well-spread bits: the multipliers of two known mixers.
const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];
const HALF: u32 = 32;

/// Hashes each of `values` to 64 bits; the upper half is the more random one.
pub fn mix(values: &mut [u64], key: [u64; 2]) {
    for value in values {
        *value = mixed(*value, key);
    }
}

#[inline(always)]
fn mixed(mut value: u64, key: [u64; 2]) -> u64 {
    for (word, multiplier) in key.into_iter().zip(MULTIPLIERS) {
        value = value.wrapping_add(word).wrapping_mul(multiplier);
        value ^= value >> HALF;
    }
    value
}

/// Sizes of permutations: one for all numbers, or one for each.
#[derive(Clone, Copy, Debug)]
pub enum Sizes<'a> {
    /// One for all.
    One(u64),
    /// A size for each number.
    Each(&'a [u64]),
}

/// Permutations of one key.
///
/// Each is a Feistel network over a grid of nearly square shape, just large enough to
/// hold its numbers. The few spare cells are left by walking on until a number that is
/// permuted is met: as a cycle returns, it must get there.
#[derive(Clone, Copy, Debug)]
pub struct Permutations<'a> {
    /// Key of each round; the number of rounds is even.
    pub rounds: &'a [u64],
    /// Whether they are undone.
    pub inverse: bool,
}

impl Permutations<'_> {
    /// Permutes each of `values`, which must be below its size. `tweaks` select
    /// different permutations of one size: 0, or one for each value.
    pub fn apply(&self, values: &mut [u64], sizes: Sizes<'_>, tweaks: &[u64]) -> Result<()> {
        let is_whole = match sizes {
            Sizes::One(_) => true,
            Sizes::Each(sizes) => sizes.len() == values.len(),
        };
        if !self.rounds.len().is_multiple_of(2) {
            return Err(Error::invalid("an even number of rounds"));
        }
        if !is_whole || !(tweaks.is_empty() || tweaks.len() == values.len()) {
            return Err(Error::invalid("a size or a tweak for each number"));
        }
        // Most numbers have the size of the one before them, and its grid.
        let (mut size_before, mut grid) = (0, Grid::new(0));
        for (index, value) in values.iter_mut().enumerate() {
            let size = match sizes {
                Sizes::One(size) => size,
                Sizes::Each(sizes) => sizes[index],
            };
            if size != size_before {
                (size_before, grid) = (size, Grid::new(size));
            }
            let tweak = tweaks.get(index).copied().unwrap_or(0);
            *value = self.walk(*value, size, grid, tweak)?;
        }
        Ok(())
    }

    #[inline]
    fn walk(&self, value: u64, size: u64, grid: Grid, tweak: u64) -> Result<u64> {
        if value >= size {
            return Err(Error::invalid(format!("{value} of {size} numbers")));
        }
        let mut mapped = self.step(value, grid, tweak);
        while mapped >= size {
            mapped = self.step(mapped, grid, tweak);
        }
        Ok(mapped)
    }

    /// One pass of the network: each round adds a hash of one coordinate to the other.
    #[inline]
    fn step(&self, value: u64, grid: Grid, tweak: u64) -> u64 {
        let mut left = value / grid.columns;
        let mut right = value - left * grid.columns;
        let pairs = self.rounds.chunks_exact(2);
        if self.inverse {
            for pair in pairs.rev() {
                right = subtract(
                    right,
                    hash(left, pair[1], tweak, grid.columns),
                    grid.columns,
                );
                left = subtract(left, hash(right, pair[0], tweak, grid.rows), grid.rows);
            }
        } else {
            for pair in pairs {
                left = add(left, hash(right, pair[0], tweak, grid.rows), grid.rows);
                right = add(
                    right,
                    hash(left, pair[1], tweak, grid.columns),
                    grid.columns,
                );
            }
        }
        left * grid.columns + right
    }
}

/// Rows and columns with at least as many cells as numbers.
#[derive(Clone, Copy, Debug)]
struct Grid {
    rows: u64,
    columns: u64,
}

impl Grid {
    /// Returns a grid with an even number of rows, so that odd permutations are as
    /// frequent as even ones.
    fn new(size: u64) -> Self {
        let rows = (size.saturating_sub(1).isqrt() + 2) / 2 * 2;
        let columns = size.div_ceil(rows).max(1);
        Self { rows, columns }
    }
}

/// Hashes a coordinate to one below `extent`, which is far below 2^32.
#[inline]
fn hash(coordinate: u64, key: u64, tweak: u64, extent: u64) -> u64 {
    let mut mixed = coordinate.wrapping_add(key).wrapping_add(tweak);
    mixed = mixed.wrapping_mul(MULTIPLIERS[0]);
    mixed ^= mixed >> HALF;
    mixed = mixed.wrapping_mul(MULTIPLIERS[1]) >> HALF;
    // 32 random bits times the extent: the upper bits are uniform below it.
    mixed.wrapping_mul(extent) >> HALF
}

/// The sum of two numbers below `extent`, modulo it, without a branch.
#[inline]
fn add(value: u64, more: u64, extent: u64) -> u64 {
    let sum = value + more;
    sum.min(sum.wrapping_sub(extent))
}

#[inline]
fn subtract(value: u64, less: u64, extent: u64) -> u64 {
    add(value, extent - less, extent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const ROUNDS: [u64; 8] = [3, 1 << 40, u64::MAX, 7, 0, 1, 2, 99];

    fn of(inverse: bool) -> Permutations<'static> {
        let rounds = &ROUNDS;
        Permutations { rounds, inverse }
    }

    #[test]
    fn every_number_comes_up_once_and_goes_back() {
        for size in [1, 2, 3, 5, 16, 17, 100, 1023] {
            let mut values: Vec<u64> = (0..size).collect();
            of(false).apply(&mut values, Sizes::One(size), &[]).unwrap();
            let mut sorted = values.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..size), "{size}: {values:?}");
            of(true).apply(&mut values, Sizes::One(size), &[]).unwrap();
            assert!(values.into_iter().eq(0..size), "{size}");
        }
    }

    #[test]
    fn sizes_and_tweaks_of_each_are_those_of_all() {
        let sizes = [5, 9, 5, 1 << 40, 9];
        let tweaks = [0, 0, 8, 1, 8];
        let given = [4, 8, 4, 77, 8];
        let mut values = given;
        of(false)
            .apply(&mut values, Sizes::Each(&sizes), &tweaks)
            .unwrap();
        for index in 0..given.len() {
            let mut alone = [given[index]];
            let size = Sizes::One(sizes[index]);
            of(false)
                .apply(&mut alone, size, &tweaks[index..=index])
                .unwrap();
            assert_eq!(alone[0], values[index]);
        }
        of(true)
            .apply(&mut values, Sizes::Each(&sizes), &tweaks)
            .unwrap();
        assert_eq!(values, given);
    }

    #[test]
    fn numbers_outside_and_arrays_of_other_lengths_are_refused() {
        let refused = |values: &mut [u64], sizes, tweaks| {
            let error = of(false).apply(values, sizes, tweaks).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
        };
        refused(&mut [5], Sizes::One(5), &[]);
        refused(&mut [0], Sizes::One(0), &[]);
        refused(&mut [0, 1], Sizes::Each(&[5]), &[]);
        refused(&mut [0, 1], Sizes::One(5), &[1]);
        let odd = Permutations {
            rounds: &ROUNDS[1..],
            inverse: false,
        };
        assert!(odd.apply(&mut [0], Sizes::One(5), &[]).is_err());
    }
}
