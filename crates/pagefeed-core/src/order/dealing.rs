//! Sequences dealt by what they cost, so that ranks are balanced.
//!
//! The sequences of a rank in a stretch are sorted by cost, and stand at the quantiles
//! of a sequence that spreads evenly: the second of Sobol's, scrambled as Owen does it.
//! Each bit of a number is turned by a keyed hash of the bits before it.

use super::mixed;
use crate::error::{Error, Result};

/// Bits of a quantile: more than the numbers of a stretch differ in.
const LEVELS: u32 = 24;
/// Random bits that follow the quantile and the position in a bucket.
const BESIDE: u32 = 24;
/// A random number of 53 bits times this is below 2.
const TWICE: f64 = 1.0 / (1_u64 << 52) as f64;

/// A key of [`super::mix`].
pub type Key = [u64; 2];

/// Settings of dealing.
#[derive(Clone, Copy, Debug)]
pub struct Dealing {
    /// Keys of the quantiles, of the batches of a bucket, of the ranks that share a
    /// quantile, and of costs.
    pub keys: [Key; 4],
    /// Ranks that are balanced: rank r takes the positions r, r + ranks, and so on.
    pub num_ranks: u64,
    /// Whether the sequences of all ranks are dealt together.
    pub exact: bool,
    /// Consecutive sequences of a rank with about the same quantile.
    pub bucket: u64,
    /// Share of itself and of the mean by which a cost may move up or down.
    pub equal: f64,
}

/// Sequences of some ranks in a stretch, turn after turn.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// First position of each rank, rising, within a turn of all ranks.
    pub first: &'a [u64],
    /// Sequence at each slot of each rank, in the order of positions.
    pub sequences: &'a [i64],
    /// Cost of each sequence.
    pub costs: &'a [f64],
    /// Whether each sequence stays at its slot; empty if none does.
    pub stays: &'a [u8],
}

/// New slots of sequences, rank after rank.
#[derive(Debug, Default)]
pub struct Dealt {
    /// New slot of each slot of a rank; slots after its last keep theirs: `[ranks,
    /// slots]`.
    pub put: Vec<i32>,
    /// Sequence at each slot; 0 after the last: `[ranks, slots]`.
    pub sequences: Vec<i64>,
}

impl Dealing {
    /// Deals the sequences of each rank among its slots.
    pub fn deal(&self, stretch: Stretch<'_>) -> Result<Dealt> {
        self.check(stretch)?;
        let num_rows = stretch.first.len();
        let slots = stretch.sequences.len().div_ceil(num_rows);
        let mut dealt = Dealt {
            put: Vec::with_capacity(num_rows * slots),
            sequences: vec![0; num_rows * slots],
        };
        let mut work = Work::default();
        for row in 0..num_rows {
            let begin = dealt.put.len();
            dealt.put.extend((0..slots).map(|slot| slot as i32));
            self.deal_row(stretch, row, &mut work, &mut dealt.put[begin..]);
            let of_row = stretch.sequences.iter().skip(row).step_by(num_rows);
            for (&sequence, &put) in of_row.zip(&dealt.put[begin..]) {
                dealt.sequences[begin + put as usize] = sequence;
            }
        }
        Ok(dealt)
    }

    fn check(&self, stretch: Stretch<'_>) -> Result<()> {
        let count = stretch.sequences.len();
        let flags_are_whole = stretch.stays.is_empty() || stretch.stays.len() == count;
        let is_whole = stretch.costs.len() == count && flags_are_whole;
        if !is_whole || count > i32::MAX as usize || !(1..=count).contains(&stretch.first.len()) {
            return Err(Error::invalid(
                "give a cost for each sequence, and every rank a sequence",
            ));
        }
        if self.num_ranks == 0 || self.bucket == 0 {
            return Err(Error::invalid(
                "there must be a rank to balance, and a bucket of one sequence or more",
            ));
        }
        Ok(())
    }

    /// Writes the new slot of each slot of a rank.
    fn deal_row(&self, stretch: Stretch<'_>, row: usize, work: &mut Work, put: &mut [i32]) {
        let num_rows = stretch.first.len();
        let apart = if self.exact { 1 } else { self.num_ranks };
        let positions = Positions {
            first: stretch.first[row],
            apart,
        };
        let costs = stretch.costs[row..].iter().copied().step_by(num_rows);
        let count = costs.len();
        let stays = |slot: usize| {
            let flag = stretch.stays.get(row + slot * num_rows);
            flag.is_some_and(|&flag| flag != 0)
        };
        // Added up in order, as every machine does it.
        let mean = costs.clone().fold(0.0, |sum, cost| sum + cost) / count as f64;
        work.by_cost.clear();
        for (slot, cost) in costs.enumerate() {
            if !stays(slot) {
                let drawn = mixed(positions.at(slot), self.keys[3]) >> 11;
                let moved = (drawn as f64 * TWICE - 1.0) * self.equal + 1.0;
                // Costs are not negative, and so in the order of their bits.
                let key = (moved * (cost + mean)).to_bits();
                work.by_cost.push((key, slot as u32));
            }
        }
        work.by_cost.sort_unstable();
        self.order_slots(positions, count, &mut work.by_quantile);
        let slots = work.by_quantile.iter().map(|&(.., slot)| slot);
        let free = slots.filter(|&slot| !stays(slot as usize));
        for (&(_, slot), free) in work.by_cost.iter().zip(free) {
            put[slot as usize] = free as i32;
        }
    }

    /// Sorts the slots of a rank by quantile.
    fn order_slots(&self, positions: Positions, count: usize, slots: &mut Vec<(u64, u64, u32)>) {
        let mut last = None;
        slots.clear();
        slots.extend((0..count).map(|slot| {
            let position = positions.at(slot);
            let number = position / self.num_ranks / self.bucket;
            let quantile = match last {
                Some((same, quantile)) if same == number => quantile,
                _ => self.quantile(number),
            };
            last = Some((number, quantile));
            (quantile, self.drawn(position), slot as u32)
        }));
        slots.sort_unstable();
    }

    /// Returns the quantile of a number.
    fn quantile(&self, number: u64) -> u64 {
        let bits = u64::from(sobol(number));
        (0..LEVELS).fold(bits, |turned, level| {
            // The branches of the tree of bits, numbered level by level.
            let branch = bits >> level >> 1 | 1 << (LEVELS - 1 - level);
            turned ^ mixed(branch, self.keys[0]) >> 63 << level
        })
    }

    /// Returns what orders positions of one quantile: the slot in a bucket, then the
    /// rank.
    fn drawn(&self, position: u64) -> u64 {
        let mut drawn = 0;
        if self.bucket > 1 {
            let turn = position / self.num_ranks;
            let (bucket, within) = (turn / self.bucket, turn % self.bucket);
            let bits = (self.bucket - 1).ilog2() + 1;
            drawn = (within ^ mixed(bucket, self.keys[1]) >> (64 - bits)) << BESIDE;
        }
        if self.exact {
            drawn |= mixed(position, self.keys[2]) >> (64 - BESIDE);
        }
        drawn
    }
}

/// Positions of the slots of a rank.
#[derive(Clone, Copy, Debug)]
struct Positions {
    first: u64,
    apart: u64,
}

impl Positions {
    fn at(self, slot: usize) -> u64 {
        self.first + slot as u64 * self.apart
    }
}

/// Room for the work of a rank, used again for the next one.
#[derive(Debug, Default)]
struct Work {
    by_cost: Vec<(u64, u32)>,
    by_quantile: Vec<(u64, u64, u32)>,
}

/// Returns the first bits of a number of the second of Sobol's sequences.
fn sobol(index: u64) -> u32 {
    let mut bits = index;
    for step in [1, 2, 4, 8, 16, 32] {
        // The bits at positions in which the bit of the step is 0.
        let unset = u64::MAX / ((1_u64 << step) + 1);
        bits ^= bits >> step & unset;
    }
    (bits.reverse_bits() >> (64 - LEVELS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const KEYS: [Key; 4] = [[1, 2], [3, 4], [5, 6], [7, 8]];

    fn dealing(num_ranks: u64, exact: bool, bucket: u64) -> Dealing {
        Dealing {
            keys: KEYS,
            num_ranks,
            exact,
            bucket,
            equal: 0.1,
        }
    }

    #[test]
    fn quantiles_spread_evenly() {
        let dealing = dealing(1, false, 1);
        for first in [0, 48, 1 << 30] {
            let mut eighths: Vec<u64> = (first..first + 8)
                .map(|number| dealing.quantile(number) >> (LEVELS - 3))
                .collect();
            eighths.sort_unstable();
            assert!(eighths.into_iter().eq(0..8));
        }
    }

    #[test]
    fn what_stays_is_put_where_it_was() {
        let sequences: Vec<i64> = (100..117).collect();
        let costs: Vec<f64> = (0..17).map(|cost| f64::from(cost * 7 % 5)).collect();
        let stays: Vec<u8> = (0..17).map(|slot| u8::from(slot % 3 == 1)).collect();
        let stretch = Stretch {
            first: &[6, 7],
            sequences: &sequences,
            costs: &costs,
            stays: &stays,
        };
        let dealt = dealing(2, false, 1).deal(stretch).unwrap();
        let mut all = dealt.sequences.clone();
        all.sort_unstable();
        // The second rank has a slot less.
        assert_eq!(all[0], 0);
        assert!(all[1..].iter().eq(&sequences));
        assert_eq!(dealt.put[17], 8);
        for (slot, (&stays, &sequence)) in stays.iter().zip(&sequences).enumerate() {
            let (row, slot) = (slot % 2, slot / 2);
            let put = dealt.put[row * 9 + slot] as usize;
            assert_eq!(dealt.sequences[row * 9 + put], sequence);
            assert!(stays == 0 || put == slot);
        }
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let refused = |dealing: Dealing, first: &[u64], costs: &[f64], stays: &[u8]| {
            let stretch = Stretch {
                first,
                sequences: &[1, 2],
                costs,
                stays,
            };
            assert_eq!(dealing.deal(stretch).unwrap_err().kind(), Kind::Invalid);
        };
        let right = dealing(1, false, 1);
        refused(right, &[0], &[1.0], &[]);
        refused(right, &[0], &[1.0, 2.0], &[0]);
        refused(right, &[], &[1.0, 2.0], &[]);
        refused(right, &[0, 1, 2], &[1.0, 2.0], &[]);
        refused(dealing(0, false, 1), &[0], &[1.0, 2.0], &[]);
        refused(dealing(1, false, 0), &[0], &[1.0, 2.0], &[]);
    }
}
