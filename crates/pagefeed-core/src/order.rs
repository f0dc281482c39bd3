//! Elements of orders, number by number: a keyed hash, and permutations of any
//! size, forward and backward. What they come to is the control plane's.

pub mod dealing;

use crate::error::{Error, Result};
use crate::simd::{Loops, run_vectorized};

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

impl Sizes<'_> {
    #[inline(always)]
    fn of(self, number: usize) -> u64 {
        match self {
            Self::One(size) => size,
            Self::Each(sizes) => sizes[number],
        }
    }
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
            return Err(Error::invalid("the number of rounds must be even"));
        }
        if !is_whole || !(tweaks.is_empty() || tweaks.len() == values.len()) {
            return Err(Error::invalid(
                "give one size and one tweak, or one for each number",
            ));
        }
        let is_outside = |values: &[u64], number: usize| values[number] >= sizes.of(number);
        if let Some(number) = (0..values.len()).find(|&number| is_outside(values, number)) {
            let (value, size) = (values[number], sizes.of(number));
            return Err(Error::invalid(format!("{value} of {size} numbers")));
        }
        for begin in (0..values.len()).step_by(LANES) {
            let end = values.len().min(begin + LANES);
            self.permute(values, begin..end, sizes, tweaks);
        }
        let mut walking: Vec<usize> = (0..values.len())
            .filter(|&number| is_outside(values, number))
            .collect();
        while !walking.is_empty() {
            for some in walking.chunks(LANES) {
                self.permute(values, some.iter().copied(), sizes, tweaks);
            }
            walking.retain(|&number| is_outside(values, number));
        }
        Ok(())
    }

    /// Permutes the cells of up to `LANES` values, side by side.
    #[inline(always)]
    fn permute(
        &self,
        values: &mut [u64],
        numbers: impl Iterator<Item = usize> + Clone,
        sizes: Sizes<'_>,
        tweaks: &[u64],
    ) {
        // Most numbers have the size of the one before them, and its grid.
        let (mut size_before, mut grid) = (0, Grid::new(0));
        let mut cells = Cells::default();
        for (lane, number) in numbers.clone().enumerate() {
            let size = sizes.of(number);
            if size != size_before {
                (size_before, grid) = (size, Grid::new(size));
            }
            let tweak = tweaks.get(number).copied().unwrap_or(0);
            cells.put(lane, values[number], grid, tweak);
        }
        run_vectorized(Pass {
            of: self,
            cells: &mut cells,
        });
        for (lane, number) in numbers.enumerate() {
            values[number] = cells.number(lane);
        }
    }
}

/// One pass of the network: each round adds a hash of one coordinate to the other.
struct Pass<'a> {
    of: &'a Permutations<'a>,
    cells: &'a mut Cells,
}

impl Loops for Pass<'_> {
    #[inline(always)]
    fn run(self) {
        let cells = self.cells;
        let pairs = self.of.rounds.chunks_exact(2);
        if self.of.inverse {
            for pair in pairs.rev() {
                cells.turn_right(pair[1], true);
                cells.turn_left(pair[0], true);
            }
        } else {
            for pair in pairs {
                cells.turn_left(pair[0], false);
                cells.turn_right(pair[1], false);
            }
        }
    }
}

/// Numbers permuted side by side: enough for the processor's vectors.
const LANES: usize = 32;

/// Numbers as coordinates in their grids.
struct Cells {
    left: [u64; LANES],
    right: [u64; LANES],
    rows: [u64; LANES],
    columns: [u64; LANES],
    tweaks: [u64; LANES],
}

impl Default for Cells {
    /// The only number of grids of one cell.
    fn default() -> Self {
        Self {
            left: [0; LANES],
            right: [0; LANES],
            rows: [1; LANES],
            columns: [1; LANES],
            tweaks: [0; LANES],
        }
    }
}

impl Cells {
    #[inline(always)]
    fn put(&mut self, lane: usize, value: u64, grid: Grid, tweak: u64) {
        (self.rows[lane], self.columns[lane]) = (grid.rows, grid.columns);
        self.tweaks[lane] = tweak;
        self.left[lane] = value / grid.columns;
        self.right[lane] = value - self.left[lane] * grid.columns;
    }

    #[inline(always)]
    fn number(&self, lane: usize) -> u64 {
        self.left[lane] * self.columns[lane] + self.right[lane]
    }

    #[inline(always)]
    fn turn_left(&mut self, key: u64, back: bool) {
        turn(
            &mut self.left,
            &self.right,
            &self.rows,
            &self.tweaks,
            key,
            back,
        );
    }

    #[inline(always)]
    fn turn_right(&mut self, key: u64, back: bool) {
        turn(
            &mut self.right,
            &self.left,
            &self.columns,
            &self.tweaks,
            key,
            back,
        );
    }
}

/// Adds a hash of the other coordinate to one, or takes it off again.
#[inline(always)]
fn turn(
    coordinate: &mut [u64; LANES],
    other: &[u64; LANES],
    extents: &[u64; LANES],
    tweaks: &[u64; LANES],
    key: u64,
    back: bool,
) {
    for lane in 0..LANES {
        let extent = extents[lane];
        let hashed = hash(other[lane], key, tweaks[lane], extent);
        let more = if back { extent - hashed } else { hashed };
        let sum = coordinate[lane] + more;
        coordinate[lane] = if sum as i64 >= extent as i64 {
            sum - extent
        } else {
            sum
        };
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
#[inline(always)]
fn hash(coordinate: u64, key: u64, tweak: u64, extent: u64) -> u64 {
    let mut mixed = coordinate.wrapping_add(key).wrapping_add(tweak);
    mixed = mixed.wrapping_mul(MULTIPLIERS[0]);
    mixed ^= mixed >> HALF;
    mixed = mixed.wrapping_mul(MULTIPLIERS[1]) >> HALF;
    // 32 random bits times the extent: the upper bits are uniform below it.
    mixed.wrapping_mul(extent & u64::from(u32::MAX)) >> HALF
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
