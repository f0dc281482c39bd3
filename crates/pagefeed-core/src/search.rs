//! Searches among rising numbers, most of which are about equally far apart.

use std::ops::Range;

/// Ranges searched first, around the one that would hold a number if all were equally
/// long.
const NEAR: usize = 8;

/// Returns the last of `ranges` that begins at or before a number; the first if none does.
/// `first` is where a range begins, and for the range after the last, where that one ends.
///
/// It is mostly near where it would be if all were equally long. Halves are chosen
/// without a branch: each would be a guess of the processor's, wrong every other time.
#[inline(always)]
pub fn holding(ranges: Range<usize>, number: u64, first: impl Fn(usize) -> u64) -> usize {
    let Range { start, end } = ranges;
    if end > start + NEAR {
        let share = (end - start) as f64 / first(end).max(1) as f64;
        let guess = start + (number as f64 * share) as usize;
        let low = guess.saturating_sub(NEAR / 2).clamp(start, end - NEAR);
        let is_last = low + NEAR == end || number < first(low + NEAR);
        if is_last & (low == start || first(low) <= number) {
            return halved(low, NEAR, number, first);
        }
    }
    halved(start, end - start, number, first)
}

/// Searches `count` ranges from `low` on by halving.
#[inline(always)]
fn halved(mut low: usize, mut count: usize, number: u64, first: impl Fn(usize) -> u64) -> usize {
    while count > 1 {
        let half = count / 2;
        let above = low + half;
        low = std::hint::select_unpredictable(first(above) <= number, above, low);
        count -= half;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_range_that_begins_by_a_number_holds_it() {
        let even: Vec<u64> = (0..40).map(|border| border * 10).collect();
        let uneven: Vec<u64> = (0..40).map(|border| border * border * border).collect();
        let mut empty = vec![0; 20];
        empty.extend([5; 20]);
        empty.push(6);
        for borders in [even, uneven, empty, vec![0, 3], vec![0, 0, 0, 9]] {
            let ranges = 0..borders.len() - 1;
            for number in 0..borders[ranges.end] {
                let found = holding(ranges.clone(), number, |range| borders[range]);
                let expected = borders[..ranges.end].partition_point(|&first| first <= number);
                assert_eq!(found, expected - 1, "{number} in {borders:?}");
            }
        }
    }
}
