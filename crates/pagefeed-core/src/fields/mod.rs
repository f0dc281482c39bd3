//! Fields of a batch beside its tokens: labels, positions, masks and borders, all made
//! from the same borders of its documents, so that they agree with each other.
//!
//! A segment is a run of tokens that attend to each other: a part of a document in a
//! row, or the padding of a row.

mod borders;
mod make;
mod sections;

pub use borders::Borders;
pub use make::{Made, Maker};
pub use sections::{Number, Parts, Sections};

use crate::error::{Error, Result};

/// Label that carries no loss.
pub const IGNORED: i64 = -100;

/// What a batch may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The tokens, always there.
    InputIds,
    /// Tokens to predict, [`IGNORED`] where there is none: i64 per token.
    Labels,
    /// Place of each token in its segment, from 0: i64 per token.
    PositionIds,
    /// Number of each token's document in its row, -1 on padding: i32 per token.
    DocumentIds,
    /// Borders of the segments in the flattened batch: i32, one more than segments.
    CuSeqlens,
    /// Tokens of the longest segment: a number that takes no memory.
    MaxSeqlen,
    /// 0 on padding: one byte per token.
    AttentionMask,
    /// 1 where labels carry loss: one byte per token.
    LossMask,
}

impl Field {
    /// All of them, in the order in which they lie in memory.
    pub const ALL: [Self; 8] = [
        Self::InputIds,
        Self::Labels,
        Self::PositionIds,
        Self::DocumentIds,
        Self::CuSeqlens,
        Self::MaxSeqlen,
        Self::AttentionMask,
        Self::LossMask,
    ];

    /// Its name in a batch.
    pub fn name(self) -> &'static str {
        match self {
            Self::InputIds => "input_ids",
            Self::Labels => "labels",
            Self::PositionIds => "position_ids",
            Self::DocumentIds => "document_ids",
            Self::CuSeqlens => "cu_seqlens",
            Self::MaxSeqlen => "max_seqlen",
            Self::AttentionMask => "attention_mask",
            Self::LossMask => "loss_mask",
        }
    }

    /// The field of a name.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|field| field.name() == name)
            .ok_or_else(|| Error::invalid(format!("there is no field {name:?}")))
    }
}

/// What is made of a batch, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    wanted: [bool; Field::ALL.len()],
    /// Labels stand where they are predicted, one place before their token.
    pub shifted: bool,
    /// The first token of a document is predicted from the last of the one before it.
    pub across_documents: bool,
}

impl Fields {
    /// These fields, and the tokens.
    pub fn new(names: &[Field], shifted: bool, across_documents: bool) -> Self {
        let mut fields = Self {
            shifted,
            across_documents,
            ..Self::default()
        };
        for &name in names {
            fields.wanted[name as usize] = true;
        }
        fields
    }

    /// Whether a field is made. Tokens always are.
    pub fn has(&self, field: Field) -> bool {
        field == Field::InputIds || self.wanted[field as usize]
    }

    /// Refuses batches of more tokens than their borders can count.
    pub fn check(&self, num_tokens: usize) -> Result<()> {
        if self.has(Field::CuSeqlens) && i32::try_from(num_tokens).is_err() {
            return Err(Error::invalid(format!(
                "cu_seqlens are int32 and cannot count the {num_tokens} tokens of a batch; \
                 lower the batch size"
            )));
        }
        Ok(())
    }

    /// Whether there is more than the tokens.
    pub fn need_borders(&self) -> bool {
        self.wanted[1..].contains(&true)
    }
}
