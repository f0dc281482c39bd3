//! Documents placed whole where there is room, and split over what is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rooms::Rooms;
use super::rule::Method;

/// A document, or the rest of one that is longer than a sequence.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub num_tokens: u32,
    pub row: u32,
    pub first_token: u32,
}

/// Keeps back 0, 1, 2, 4 and more items, until no document that could be whole is
/// split, or more does not help.
pub(super) fn fewest_splits(items: &[Item], length: u32, limit: usize) -> Vec<(u32, Item)> {
    let mut best = Attempt::new(items, &[], length, limit, Method::BestFit);
    if best.num_split == 0 {
        return best.placed;
    }
    let (rests, short): (Vec<usize>, Vec<usize>) =
        (0..items.len()).partition(|&number| items[number].first_token > 0);
    let candidates: Vec<usize> = rests.iter().chain(&short).copied().collect();
    let mut count = 1;
    loop {
        let count_here = count.min(candidates.len());
        let kept = &candidates[..count_here];
        let attempt = Attempt::new(items, kept, length, limit, Method::BestFit);
        if attempt.num_split < best.num_split {
            best = attempt;
        }
        // Once all rests are kept back, further documents that are kept back are split.
        let num_short = count_here.saturating_sub(rests.len());
        if best.num_split <= num_short || count_here == candidates.len() {
            return best.placed;
        }
        count = if count < rests.len() {
            (count * 2).min(rests.len())
        } else {
            rests.len() + (2 * num_short).max(1)
        };
    }
}

/// Items in at most `limit` sequences.
pub(super) struct Attempt {
    pub placed: Vec<(u32, Item)>,
    /// Documents no longer than a sequence that are split.
    num_split: usize,
}

impl Attempt {
    /// Places items whole, with those in `kept` last, and splits what does not fit.
    pub fn new(items: &[Item], kept: &[usize], length: u32, limit: usize, method: Method) -> Self {
        let mut is_kept = vec![false; items.len()];
        kept.iter().for_each(|&number| is_kept[number] = true);
        let mut placed = Vec::with_capacity(items.len());
        let mut free = vec![length; limit];
        let mut left = Vec::new();
        let mut rooms = Rooms::new(method, length, limit);
        for (item, is_kept) in items.iter().zip(is_kept) {
            let sequence = if is_kept {
                None
            } else {
                rooms.take(item.num_tokens)
            };
            match sequence {
                Some(sequence) => {
                    free[sequence as usize] -= item.num_tokens;
                    placed.push((sequence, *item));
                }
                None => left.push(*item),
            }
        }
        // Whole documents choose before the rests of documents that are split already.
        left.sort_by_key(|item| item.first_token > 0);
        let mut attempt = Self {
            placed,
            num_split: 0,
        };
        attempt.split(left, &free);
        attempt
    }

    /// Splits items over the largest rooms: they are enough, since the room of all
    /// sequences is that of all tokens at least.
    fn split(&mut self, left: Vec<Item>, free: &[u32]) {
        let mut rooms: BinaryHeap<_> = (0u32..)
            .zip(free)
            .filter(|&(_, &free)| free > 0)
            .map(|(sequence, &free)| (free, Reverse(sequence)))
            .collect();
        for item in left {
            let mut taken = Vec::new();
            let mut rest = item.num_tokens;
            while rest > 0 {
                let Some((free, sequence)) = rooms.pop() else {
                    break;
                };
                let count = rest.min(free);
                taken.push((sequence.0, count));
                rest -= count;
                if free > count {
                    rooms.push((free - count, sequence));
                }
            }
            self.num_split += usize::from(item.first_token == 0 && taken.len() > 1);
            // Its tokens stay in order from sequence to sequence.
            taken.sort_unstable();
            let mut first_token = item.first_token;
            for (sequence, num_tokens) in taken {
                let part = Item {
                    num_tokens,
                    row: item.row,
                    first_token,
                };
                self.placed.push((sequence, part));
                first_token += num_tokens;
            }
        }
    }
}
