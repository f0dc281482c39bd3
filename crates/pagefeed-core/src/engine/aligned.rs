//! Columns that come with the tokens: what a batch has of them.

use std::ops::Range;

use crate::tokens::{NumberType, PerToken};

/// A column with numbers for each token.
#[derive(Clone, Copy, Debug)]
pub struct Aligned {
    /// Type of its numbers in a batch.
    pub number: NumberType,
    /// Numbers for each token, and padding where there is none.
    pub per_token: PerToken,
    /// Bits of the number for a separator after a row.
    pub behind: u64,
    /// Whether numbers are shifted to the position before their token, as shifted
    /// labels are.
    pub is_shifted: bool,
    /// Bits of the number that carries no loss, which the first token of a segment gets;
    /// `None` for numbers that say nothing about the loss.
    pub unlearned: Option<u64>,
}

impl Aligned {
    /// The columns of a batch for numbers of a type: themselves, and how many each token
    /// has if that is wanted. `behind` are the bits for a separator after a row.
    pub fn columns(
        per_token: PerToken,
        number: NumberType,
        behind: u64,
        is_shifted: bool,
        unlearned: Option<u64>,
    ) -> impl Iterator<Item = Self> + use<> {
        let numbers = Self {
            number: per_token.number(number),
            per_token,
            behind,
            is_shifted,
            unlearned,
        };
        let counts = per_token.is_counted.then_some(Self {
            number: NumberType::I32,
            per_token: PerToken {
                is_of_next: per_token.is_of_next,
                ..PerToken::default()
            },
            behind: 0,
            is_shifted,
            unlearned: unlearned.and(Some(0)),
        });
        std::iter::once(numbers).chain(counts)
    }

    /// Bytes of a token in a batch.
    pub(super) fn token_bytes(&self) -> usize {
        self.number.num_bytes().saturating_mul(self.per_token.width)
    }

    /// Returns the positions of the numbers for some tokens, and how many leading
    /// positions get none.
    pub(super) fn positions(&self, tokens: Range<usize>) -> (Range<usize>, usize) {
        match self.is_shifted {
            true => {
                let lost = usize::from(tokens.start == 0 && tokens.end > 0);
                (
                    tokens.start.saturating_sub(1)..tokens.end.saturating_sub(1),
                    lost,
                )
            }
            false => (tokens, 0),
        }
    }
}
