//! Fields of a batch beside its tokens: labels, positions, masks and borders, all made
//! from the same borders of its documents, so that they agree with each other.
//!
//! A segment is a run of tokens that attend to each other: a part of a document in a
//! row, or the padding of a row.

mod borders;
mod lengths;
mod make;
mod sections;
mod slots;

pub use borders::Borders;
pub use make::{Made, Maker};
pub use sections::{Number, Parts, Sections};
pub use slots::{FieldType, Slots};

use crate::error::{Error, Result};

/// Label that carries no loss, unless another is asked for.
pub const IGNORED: i64 = -100;

/// What a batch may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The tokens, always there.
    InputIds,
    /// Tokens to predict, where there is none that which is ignored.
    Labels,
    /// Place of each token in its segment, from 0.
    PositionIds,
    /// Number of each token's document in its row, -1 on padding.
    DocumentIds,
    /// Borders of the segments in the flattened batch: i32, one more than segments.
    CuSeqlens,
    /// Tokens of the longest segment: a number that takes no memory.
    MaxSeqlen,
    /// Lengths of the segments of each row, 0 behind them.
    DocLens,
    /// Tokens of the longest segment of each row: numbers that take no memory.
    MaxDocLens,
    /// 0 on padding, otherwise 1.
    AttentionMask,
    /// 1 where labels carry loss, otherwise 0.
    LossMask,
}

impl Field {
    /// All of them, in the order in which they lie in memory.
    pub const ALL: [Self; 10] = [
        Self::InputIds,
        Self::Labels,
        Self::PositionIds,
        Self::DocumentIds,
        Self::CuSeqlens,
        Self::MaxSeqlen,
        Self::DocLens,
        Self::MaxDocLens,
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
            Self::DocLens => "doc_lens",
            Self::MaxDocLens => "max_doc_lens",
            Self::AttentionMask => "attention_mask",
            Self::LossMask => "loss_mask",
        }
    }

    /// The types that it may have, its usual one first; none if that is not its own.
    pub fn types(self) -> &'static [FieldType] {
        match self {
            Self::InputIds | Self::MaxSeqlen | Self::MaxDocLens => &[],
            Self::CuSeqlens | Self::DocLens => &[FieldType::I32],
            Self::Labels | Self::PositionIds => &[FieldType::I64, FieldType::I32],
            Self::DocumentIds => &[FieldType::I32, FieldType::I64],
            Self::AttentionMask | Self::LossMask => {
                &[FieldType::Bool, FieldType::I64, FieldType::F32]
            }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    wanted: [bool; Field::ALL.len()],
    types: [FieldType; Field::ALL.len()],
    /// Labels stand where they are predicted, one place before their token.
    pub shifted: bool,
    /// The first token of a document is predicted from the last of the one before it.
    pub across_documents: bool,
    /// Label that carries no loss.
    pub ignored: i64,
}

impl Default for Fields {
    fn default() -> Self {
        Self::new(&[], false, false)
    }
}

impl Fields {
    /// These fields in their usual types, and the tokens.
    pub fn new(names: &[Field], shifted: bool, across_documents: bool) -> Self {
        Self {
            wanted: Field::ALL.map(|field| names.contains(&field)),
            types: Field::ALL
                .map(|field| field.types().first().copied().unwrap_or(FieldType::Bool)),
            shifted,
            across_documents,
            ignored: IGNORED,
        }
    }

    /// The same with a field of another type.
    pub fn with_type(mut self, field: Field, field_type: FieldType) -> Result<Self> {
        if !field.types().contains(&field_type) {
            return Err(Error::invalid(format!(
                "{} is never of {field_type:?}",
                field.name()
            )));
        }
        self.types[field as usize] = field_type;
        Ok(self)
    }

    /// The type of a field that has one of its own.
    pub fn type_of(&self, field: Field) -> FieldType {
        self.types[field as usize]
    }

    /// Whether a field is made. Tokens always are.
    pub fn has(&self, field: Field) -> bool {
        field == Field::InputIds || self.wanted[field as usize]
    }

    /// Refuses batches of more tokens than their borders can count, and labels that
    /// cannot tell what is ignored.
    pub fn check(&self, num_tokens: usize) -> Result<()> {
        for field in [Field::CuSeqlens, Field::DocLens] {
            if self.has(field) && i32::try_from(num_tokens).is_err() {
                return Err(Error::invalid(format!(
                    "{} are int32 and cannot count the {num_tokens} tokens of a batch; \
                     lower the batch size",
                    field.name()
                )));
            }
        }
        let of_labels = self.type_of(Field::Labels);
        if !of_labels.holds(self.ignored) {
            return Err(Error::invalid(format!(
                "labels of {of_labels:?} do not hold {}, the label that is ignored",
                self.ignored
            )));
        }
        Ok(())
    }

    /// Whether there is more than the tokens.
    pub fn need_borders(&self) -> bool {
        self.wanted[1..].contains(&true)
    }
}
