//! Rule of packing.

use crate::error::{Error, Result};

/// Choice of a document's sequence.
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

/// Settings of packing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Choice of a document's sequence.
    pub method: Method,
    /// Split only documents longer than a sequence, in however many sequences that
    /// ends; otherwise the number of sequences is fixed.
    pub never_split: bool,
    /// Each document takes up a multiple of this number of positions, the last ones
    /// without tokens; 0 and 1 are the same. If it is more, no document is split that
    /// fits.
    pub multiple_of: u32,
    /// A document longer than a sequence has its first token, `bos`, in front of every
    /// rest again. No document is split that fits.
    pub repeats_bos: bool,
}

impl Rule {
    /// Whether only documents longer than a sequence are split.
    pub(super) fn splits_long_alone(self) -> bool {
        self.never_split || self.multiple_of > 1 || self.repeats_bos
    }

    /// Tokens of a document in sequences of `length`, every `bos` included.
    pub fn line_tokens(self, num_tokens: u32, length: u32) -> Result<u32> {
        if !self.repeats_bos || num_tokens <= length {
            return Ok(num_tokens);
        }
        num_tokens
            .checked_add((num_tokens - length).div_ceil(length - 1))
            .ok_or_else(too_long)
    }

    /// Positions that a number of tokens takes up.
    pub(super) fn padded(self, num_tokens: u32) -> Result<u32> {
        num_tokens
            .checked_next_multiple_of(self.multiple_of.max(1))
            .ok_or_else(too_long)
    }
}

pub(super) fn too_long() -> Error {
    Error::limit("a document of 2^32 tokens or more")
}
