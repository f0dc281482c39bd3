//! Packs documents into sequences of one length: a pure function of their lengths.
//!
//! With a fixed yield `T` tokens make `ceil(T / length)` sequences, whatever the lengths
//! are: documents are placed whole as long as one has room for them, and what is left
//! is split over the room that remains, which suffices. Best-fit decreasing (Johnson,
//! "Near-optimal bin packing algorithms", 1973) seldom leaves anything. If it does, some
//! documents are kept back, the others are packed again, and they are poured into the
//! gaps: first rests of documents that are longer than a sequence and split anyway.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::error::{Error, Result};

/// Where a document goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Longest first, into the sequence that it fills best.
    #[default]
    BestFit,
    /// In their order, into the first sequence that has room.
    FirstFit,
    /// In their order, into the last sequence, or a new one.
    Greedy,
}

/// How to pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Where a document goes.
    pub method: Method,
    /// Split only documents longer than a sequence, in however many sequences that
    /// ends; otherwise the number of sequences is fixed.
    pub never_split: bool,
}

/// A run of tokens of one document, and its place in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the document.
    pub row: u32,
    /// First token, counted within the document.
    pub first_token: u32,
    /// Number of tokens.
    pub num_tokens: u32,
    /// Place of the first token in the sequence.
    pub offset: u32,
}

/// Documents, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    pieces: Vec<Piece>,
    /// First piece of each sequence, and the number of pieces.
    first_piece: Vec<u32>,
}

impl Packing {
    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        self.pieces.capacity() * size_of::<Piece>() + self.first_piece.capacity() * 4
    }

    /// Number of sequences.
    pub fn num_sequences(&self) -> usize {
        self.first_piece.len().saturating_sub(1)
    }

    /// The pieces of a sequence, in its order.
    pub fn sequence(&self, sequence: usize) -> Option<&[Piece]> {
        let (first, end) = (
            self.first_piece.get(sequence)?,
            self.first_piece.get(sequence + 1)?,
        );
        self.pieces.get(*first as usize..*end as usize)
    }
}

/// A document, or the rest of one that is longer than a sequence.
#[derive(Clone, Copy)]
struct Item {
    num_tokens: u32,
    row: u32,
    first_token: u32,
}

/// Packs documents of so many tokens into sequences of `length`. Documents without
/// tokens are nowhere.
pub fn pack(lengths: &[u32], length: u32, rule: Rule) -> Result<Packing> {
    if length == 0 {
        return Err(Error::invalid("sequences of no token hold no document"));
    }
    let mut total = 0;
    let mut full = Vec::new();
    let mut items = Vec::with_capacity(lengths.len());
    for (row, &num_tokens) in (0u32..).zip(lengths) {
        total += u64::from(num_tokens);
        let rest = num_tokens % length;
        for piece in 0..num_tokens / length {
            full.push(Item {
                num_tokens: length,
                row,
                first_token: piece * length,
            });
        }
        if rest > 0 {
            items.push(Item {
                num_tokens: rest,
                row,
                first_token: num_tokens - rest,
            });
        }
    }
    let num_sequences = if rule.never_split {
        full.len() + items.len()
    } else {
        usize::try_from(total.div_ceil(u64::from(length))).unwrap_or(usize::MAX)
    };
    if num_sequences >= u32::MAX as usize {
        return Err(Error::invalid("too many sequences in one block"));
    }
    if rule.method == Method::BestFit {
        items.sort_unstable_by_key(|item| (Reverse(item.num_tokens), item.row));
    }
    let limit = num_sequences - full.len();
    let placed = match rule.method {
        Method::BestFit => fewest_splits(&items, length, limit),
        method => Attempt::new(&items, &[], length, limit, method).placed,
    };
    let before = full.len() as u32;
    let mut all = Vec::with_capacity(full.len() + placed.len());
    all.extend((0u32..).zip(full));
    all.extend(
        placed
            .into_iter()
            .map(|(sequence, item)| (sequence + before, item)),
    );
    Ok(collect(all))
}

/// Keeps back nothing, or one, two, four and so on, until no document is split that
/// was short enough, or that does not help further.
fn fewest_splits(items: &[Item], length: u32, limit: usize) -> Vec<(u32, Item)> {
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
        // With all rests kept back, what is kept back further is split itself.
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

/// Puts what was placed into order.
fn collect(mut placed: Vec<(u32, Item)>) -> Packing {
    placed.sort_unstable_by_key(|(sequence, item)| (*sequence, item.row, item.first_token));
    let mut packing = Packing {
        pieces: Vec::with_capacity(placed.len()),
        first_piece: vec![0],
    };
    let (mut current, mut offset) = (0, 0);
    for (sequence, item) in placed {
        if sequence != current {
            packing.first_piece.push(packing.pieces.len() as u32);
            (current, offset) = (sequence, 0);
        }
        packing.pieces.push(Piece {
            row: item.row,
            first_token: item.first_token,
            num_tokens: item.num_tokens,
            offset,
        });
        offset += item.num_tokens;
    }
    if !packing.pieces.is_empty() {
        packing.first_piece.push(packing.pieces.len() as u32);
    }
    packing
}

/// Items in at most `limit` sequences.
struct Attempt {
    placed: Vec<(u32, Item)>,
    /// Documents no longer than a sequence that are split.
    num_split: usize,
}

impl Attempt {
    /// Places items whole, those `kept` back last, and splits what has no room.
    fn new(items: &[Item], kept: &[usize], length: u32, limit: usize, method: Method) -> Self {
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
        // Those that it would be a loss to split choose first.
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
                let piece = Item {
                    num_tokens,
                    row: item.row,
                    first_token,
                };
                self.placed.push((sequence, piece));
                first_token += num_tokens;
            }
        }
    }
}

/// Finds room for items one after the other.
enum Rooms {
    BestFit {
        /// Room and number of each sequence begun.
        begun: BTreeSet<(u32, u32)>,
        num_begun: u32,
        limit: u32,
        length: u32,
    },
    /// A tree of maxima: the children of node n are 2n and 2n + 1.
    FirstFit { most: Vec<u32> },
    Greedy {
        current: u32,
        free: u32,
        limit: u32,
        length: u32,
    },
}

impl Rooms {
    fn new(method: Method, length: u32, limit: usize) -> Self {
        let num_sequences = limit as u32;
        match method {
            Method::BestFit => Self::BestFit {
                begun: BTreeSet::new(),
                num_begun: 0,
                limit: num_sequences,
                length,
            },
            Method::FirstFit => {
                let num_leaves = limit.next_power_of_two();
                let mut most = vec![0; 2 * num_leaves];
                most[num_leaves..num_leaves + limit].fill(length);
                for node in (1..num_leaves).rev() {
                    most[node] = most[2 * node].max(most[2 * node + 1]);
                }
                Self::FirstFit { most }
            }
            Method::Greedy => Self::Greedy {
                current: 0,
                free: if limit > 0 { length } else { 0 },
                limit: num_sequences,
                length,
            },
        }
    }

    /// The sequence that takes so many tokens, if one has room.
    fn take(&mut self, num_tokens: u32) -> Option<u32> {
        match self {
            Self::BestFit {
                begun,
                num_begun,
                limit,
                length,
            } => {
                let (free, sequence) = match begun.range((num_tokens, 0)..).next().copied() {
                    Some(found) => {
                        begun.remove(&found);
                        found
                    }
                    None if num_begun < limit => {
                        *num_begun += 1;
                        (*length, *num_begun - 1)
                    }
                    None => return None,
                };
                if free > num_tokens {
                    begun.insert((free - num_tokens, sequence));
                }
                Some(sequence)
            }
            Self::FirstFit { most } => {
                let num_leaves = most.len() / 2;
                if most[1] < num_tokens {
                    return None;
                }
                let mut node = 1;
                while node < num_leaves {
                    node *= 2;
                    node += usize::from(most[node] < num_tokens);
                }
                let sequence = (node - num_leaves) as u32;
                most[node] -= num_tokens;
                while node > 1 {
                    node /= 2;
                    most[node] = most[2 * node].max(most[2 * node + 1]);
                }
                Some(sequence)
            }
            Self::Greedy {
                current,
                free,
                limit,
                length,
            } => {
                if *free < num_tokens {
                    if *current + 1 >= *limit {
                        return None;
                    }
                    (*current, *free) = (*current + 1, *length);
                }
                *free -= num_tokens;
                Some(*current)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const METHODS: [Method; 3] = [Method::BestFit, Method::FirstFit, Method::Greedy];

    /// Checks what holds for every packing; returns the documents split needlessly.
    fn check(lengths: &[u32], length: u32, rule: Rule) -> usize {
        let packing = pack(lengths, length, rule).unwrap();
        let total: u64 = lengths.iter().map(|&tokens| u64::from(tokens)).sum();
        let expected = total.div_ceil(u64::from(length)) as usize;
        if !rule.never_split {
            assert_eq!(packing.num_sequences(), expected, "{lengths:?}");
        }
        let mut next = vec![0; lengths.len()];
        let mut num_pieces = vec![0u32; lengths.len()];
        for sequence in 0..packing.num_sequences() {
            let mut offset = 0;
            let pieces = packing.sequence(sequence).unwrap();
            assert!(!pieces.is_empty());
            for piece in pieces {
                let row = piece.row as usize;
                assert!(piece.num_tokens > 0);
                assert_eq!((piece.offset, piece.first_token), (offset, next[row]));
                offset += piece.num_tokens;
                next[row] += piece.num_tokens;
                num_pieces[row] += 1;
            }
            assert!(offset <= length);
        }
        assert_eq!(next, lengths, "every token once, in order");
        let is_split = |(pieces, tokens): &(u32, &u32)| *pieces > 1 && **tokens <= length;
        num_pieces.into_iter().zip(lengths).filter(is_split).count()
    }

    #[test]
    fn every_token_once_whatever_the_lengths() {
        let mut state = 7u64;
        let mut random = |end: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % end
        };
        for round in 0..400 {
            let length = [1, 2, 7, 64, 2048][round % 5];
            let count = random(200) as usize;
            let lengths: Vec<u32> = (0..count)
                .map(|_| match round % 6 {
                    0 => length / 2 + 1,
                    1 => length,
                    2 => length + 1 + random(5 * u64::from(length)) as u32,
                    3 => random(2 * u64::from(length)) as u32,
                    4 => (f64::from(length) / (1.0 + random(999) as f64)) as u32,
                    _ => (20.0 / (0.001 + random(1000) as f64 / 1000.0).powf(1.3)) as u32,
                })
                .collect();
            for method in METHODS {
                for never_split in [false, true] {
                    let rule = Rule {
                        method,
                        never_split,
                    };
                    let num_split = check(&lengths, length, rule);
                    assert!(!never_split || num_split == 0);
                }
            }
        }
    }

    #[test]
    fn at_most_one_document_is_split_where_small_ones_abound() {
        let mut state = 3u64;
        for _ in 0..50 {
            let lengths: Vec<u32> = (0..600)
                .map(|_| {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    let uniform = ((state >> 40) as f64 + 1.0) / (1u64 << 24) as f64;
                    (30.0 / uniform.powf(0.8)) as u32 + 1
                })
                .collect();
            assert!(check(&lengths, 2048, Rule::default()) <= 1);
        }
    }

    #[test]
    fn whole_documents_fill_sequences_best() {
        let packing = pack(&[3, 5, 2, 0, 6], 8, Rule::default()).unwrap();
        assert_eq!(packing.num_sequences(), 2);
        let rows = |sequence| {
            let pieces = packing.sequence(sequence).unwrap().iter();
            pieces.map(|piece| piece.row).collect::<Vec<_>>()
        };
        assert_eq!((rows(0), rows(1)), (vec![2, 4], vec![0, 1]));
    }

    #[test]
    fn nothing_makes_no_sequence() {
        assert_eq!(pack(&[], 8, Rule::default()).unwrap().num_sequences(), 0);
        assert_eq!(
            pack(&[0, 0], 8, Rule::default()).unwrap().num_sequences(),
            0
        );
        assert!(pack(&[1], 0, Rule::default()).is_err());
    }
}
