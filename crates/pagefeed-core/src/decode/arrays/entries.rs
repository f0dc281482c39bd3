//! Dictionaries of strings.

use crate::buffers::{LARGE_BYTES, RecycledBuffer, reserve};
use crate::decode::bounds::string_lengths;
use crate::encodings::indices::sequence;
use crate::error::Result;
use crate::page::Dictionary;

/// Whether strings should be moved together in place rather than copied: where they are
/// long, and the space of their lengths is small.
pub(super) fn is_worth_taking(size: usize, num_values: usize) -> bool {
    size >= LARGE_BYTES && num_values <= size / 32
}

/// A dictionary of strings, where the page has them.
pub(crate) struct Entries {
    pub(super) dictionary: Dictionary,
    lengths: Vec<u32>,
    /// Offset at which each string begins.
    starts: Vec<u32>,
}

impl Entries {
    pub(super) fn new(dictionary: Dictionary) -> Result<Self> {
        let lengths = string_lengths(dictionary.values(), dictionary.num_values)?;
        let mut starts = Vec::new();
        reserve(&mut starts, lengths.len())?;
        let mut at = 0;
        for length in &lengths {
            starts.push(at + 4);
            at += 4 + length;
        }
        Ok(Self {
            dictionary,
            lengths,
            starts,
        })
    }

    /// Bytes of every entry.
    pub(crate) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Entry number `index`, which must be one.
    pub(crate) fn get(&self, index: u32) -> &[u8] {
        let start = self.starts[index as usize] as usize;
        &self.dictionary.values()[start..start + self.lengths[index as usize] as usize]
    }

    /// Takes the dictionary's buffer, and where the strings of `indices` begin in it.
    /// This works if the indices are consecutive and most of the dictionary, as from
    /// writers that never meet a text twice. The entries are gone afterwards.
    pub(super) fn take(
        &mut self,
        indices: &[u8],
        num_values: usize,
    ) -> Result<Option<(RecycledBuffer, usize)>> {
        if num_values == 0 || !is_worth_taking(self.dictionary.values().len(), num_values) {
            return Ok(None);
        }
        let Some(first) = sequence(indices, num_values, self.lengths.len())? else {
            return Ok(None);
        };
        let last = first + num_values - 1;
        let start = self.starts[first] as usize - 4;
        let size = (self.starts[last] + self.lengths[last]) as usize - start;
        if !is_worth_taking(size, num_values) || size < self.dictionary.values().len() / 2 {
            return Ok(None);
        }
        Ok(self.dictionary.take_values().map(|data| (data, start)))
    }
}
