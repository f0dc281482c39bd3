//! Packs documents into sequences of one length: a pure function of their lengths.
//!
//! With a fixed yield `T` tokens make `ceil(T / length)` sequences, for any lengths:
//! documents are placed whole as long as one has room for them, and what is left is
//! split over the room that remains, which suffices. Best-fit decreasing (Johnson,
//! "Near-optimal bin packing algorithms", 1973) seldom leaves anything. If it does, some
//! documents are kept back, the others are packed again, and they are poured into the
//! gaps: first rests of documents that are longer than a sequence and split anyway.
//!
//! Packed like that the fullest sequences come first, those of fewest documents. So they
//! are numbered in the order of a hash: a reader of some in a row meets all kinds.

mod attempt;
mod rooms;
mod rule;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use crate::buffers::reserve;
use crate::error::{Error, Result};
use crate::order::mix;
use crate::prefetch::fetch;
use attempt::{Attempt, Item, fewest_splits};
pub use rule::{Method, Rule};

/// A run of tokens of one document, and its offset in a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the document.
    pub row: u32,
    /// First token, counted within the document.
    pub first_token: u32,
    /// Number of tokens.
    pub num_tokens: u32,
    /// Offset of the first token in the sequence.
    pub offset: u32,
}

/// Documents, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    parts: Vec<Part>,
    /// First part of each sequence, and the number of parts.
    first_part: Vec<u32>,
}

impl Packing {
    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Part>() + self.first_part.capacity() * 4
    }

    /// Number of sequences.
    pub fn num_sequences(&self) -> usize {
        self.first_part.len().saturating_sub(1)
    }

    /// All parts, document by document, each from its begin on.
    pub fn by_row(&self) -> Vec<Part> {
        let mut parts = self.parts.clone();
        parts.sort_unstable_by_key(|part| (part.row, part.first_token));
        parts
    }

    /// The parts of a sequence, in its order.
    pub fn sequence(&self, sequence: usize) -> Option<&[Part]> {
        let (first, end) = (
            self.first_part.get(sequence)?,
            self.first_part.get(sequence + 1)?,
        );
        self.parts.get(*first as usize..*end as usize)
    }

    /// Prefetches what says where the parts of a sequence are.
    pub(crate) fn prefetch(&self, sequence: usize) {
        fetch(self.first_part.as_ptr().wrapping_add(sequence));
    }
}

/// Packs documents of these lengths into sequences of `length`. Documents without
/// tokens are nowhere.
pub fn pack(lengths: &[u32], length: u32, rule: Rule) -> Result<Packing> {
    if length == 0 {
        return Err(Error::invalid("sequences of no token hold no document"));
    }
    if !length.is_multiple_of(rule.multiple_of.max(1)) {
        return Err(Error::invalid(format!(
            "sequences of {length} tokens are not a multiple of {}",
            rule.multiple_of
        )));
    }
    if rule.repeats_bos && length < 2 {
        return Err(Error::invalid("sequences of one token hold `bos` alone"));
    }
    let line = |&num_tokens: &u32| rule.line_tokens(num_tokens, length);
    let lengths: Vec<u32> = lengths.iter().map(line).collect::<Result<_>>()?;
    let mut total = 0;
    let (mut full, mut items) = (Vec::new(), Vec::new());
    // A length can stand for a great many sequences.
    let full_of = |tokens: &u32| u64::from(tokens / length);
    let num_full = usize::try_from(lengths.iter().map(full_of).sum::<u64>()).unwrap_or(usize::MAX);
    reserve(&mut full, num_full)?;
    reserve(&mut items, lengths.len())?;
    for (row, &num_tokens) in (0u32..).zip(&lengths) {
        let num_tokens = rule.padded(num_tokens)?;
        total += u64::from(num_tokens);
        let rest = num_tokens % length;
        for part in 0..num_tokens / length {
            full.push(Item {
                num_tokens: length,
                row,
                first_token: part * length,
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
    let num_sequences = if rule.splits_long_alone() {
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
    let placed = placed
        .into_iter()
        .map(|(sequence, item)| (sequence + before, item));
    collect(
        (0u32..).zip(full).chain(placed),
        num_full + items.len(),
        &lengths,
    )
}

/// Puts about `count` items that were placed into order. Parts are of tokens alone, at
/// offsets apart.
fn collect(
    items: impl Iterator<Item = (u32, Item)>,
    count: usize,
    lengths: &[u32],
) -> Result<Packing> {
    // Keyed by the lengths: blocks of as many sequences are not ordered alike.
    let key = lengths.iter().fold([1], |mut key, &num_tokens| {
        mix(&mut key, [u64::from(num_tokens), 0]);
        key
    });
    let hashed = |(sequence, item)| {
        let mut hash = [u64::from(sequence)];
        mix(&mut hash, [key[0], 0]); // One to one: no two sequences have the same.
        (hash[0], item)
    };
    let mut placed: Vec<(u64, Item)> = Vec::new();
    reserve(&mut placed, count)?;
    placed.extend(items.map(hashed));
    placed.sort_unstable_by_key(|(hash, item)| (*hash, item.row, item.first_token));
    let mut packing = Packing::default();
    reserve(&mut packing.parts, placed.len())?;
    reserve(&mut packing.first_part, placed.len() + 1)?;
    packing.first_part.push(0);
    for sequence in placed.chunk_by(|(one, _), (next, _)| one == next) {
        let mut offset = 0;
        for (_, item) in sequence {
            packing.parts.push(Part {
                row: item.row,
                first_token: item.first_token,
                num_tokens: item
                    .num_tokens
                    .min(lengths[item.row as usize] - item.first_token),
                offset,
            });
            offset += item.num_tokens;
        }
        packing.first_part.push(packing.parts.len() as u32);
    }
    Ok(packing)
}
