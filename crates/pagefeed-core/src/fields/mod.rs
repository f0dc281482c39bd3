//! Fields of a batch with its tokens: labels, positions, masks and borders, all made
//! from the same borders of its documents, so that they agree with each other.
//!
//! A segment is a run of tokens that attend to each other: a part of a document in a
//! row, or the padding of a row.

mod borders;
mod lengths;
mod make;
mod sections;
mod slots;

pub use borders::{Borders, Segment};
pub use make::{Made, Maker};
pub use sections::{Sections, Views};
pub use slots::{FieldType, Slots};

use crate::error::{Error, Result};

/// Label that carries no loss, unless another is asked for.
pub const IGNORED: i64 = -100;

/// Shape of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One number for each token: `[batch_size, length]`.
    Tokens,
    /// Starts of segments in the flattened batch, and the end: `[segments + 1]`.
    Borders,
    /// One number for each segment of each row, padded with 0: `[batch_size, most
    /// segments of a row]`.
    Segments,
    /// One number, which takes no memory of the batch.
    Number,
    /// A list with a number for each row, outside the memory of the batch.
    Rows,
    /// One number for each sequence, from the plan: `[batch_size]`. It is outside the
    /// memory of the batch.
    Sequences,
    /// A table of the documents.
    Table,
}

impl Shape {
    /// Name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Borders => "borders",
            Self::Segments => "segments",
            Self::Number => "number",
            Self::Rows => "rows",
            Self::Sequences => "sequences",
            Self::Table => "table",
        }
    }

    /// The most numbers that it takes memory for, of a batch of `num_tokens` tokens: every
    /// token may be a segment.
    fn most_numbers(self, num_tokens: usize) -> usize {
        match self {
            Self::Tokens | Self::Segments => num_tokens,
            Self::Borders => num_tokens.saturating_add(1),
            Self::Number | Self::Rows | Self::Sequences | Self::Table => 0,
        }
    }
}

/// Name, type and shape of a field in every batch.
#[derive(Clone, Copy, Debug)]
pub struct FieldEntry {
    /// Name in a batch.
    pub name: &'static str,
    /// Types that it may have, the default first; empty if it is not an array, or has
    /// the type of the tokens.
    pub types: &'static [FieldType],
    /// Shape of the field.
    pub shape: Shape,
    /// Number at padding, if it is the same everywhere; padding of labels is the
    /// ignored label.
    pub padding: Option<i64>,
    /// Whether only pagefeed can make it: no column of the files can be called so.
    pub is_ours_alone: bool,
    /// Whether models of Hugging Face take it.
    pub is_for_models: bool,
}

/// Lists the fields in the order of memory, with an entry for each.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident: $name:literal, $types:expr, $shape:ident, $padding:expr,
       $ours:literal, $models:literal;)*) => {
        /// A field of a batch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $($(#[$doc])* $field,)*
        }

        impl Field {
            /// All fields, in the order of memory.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$field),*];

            /// Name, type and shape of the field.
            pub const fn entry(self) -> FieldEntry {
                match self {
                    $(Self::$field => FieldEntry {
                        name: $name,
                        types: $types,
                        shape: Shape::$shape,
                        padding: $padding,
                        is_ours_alone: $ours,
                        is_for_models: $models,
                    },)*
                }
            }
        }
    };
}

const WIDE: &[FieldType] = &[FieldType::I64, FieldType::I32];
const NARROW: &[FieldType] = &[FieldType::I32, FieldType::I64];
const SMALL: &[FieldType] = &[FieldType::I32];
const MASK: &[FieldType] = &[FieldType::Bool, FieldType::I64, FieldType::F32];

// Name, types, shape, number on padding, whether it is ours alone, whether it is for
// models.
fields! {
    /// The tokens, always there.
    InputIds: "input_ids", &[], Tokens, None, true, true;
    /// Tokens to predict; the ignored label where there is none.
    Labels: "labels", WIDE, Tokens, None, false, true;
    /// Position of each token in its segment, from 0.
    PositionIds: "position_ids", WIDE, Tokens, None, false, true;
    /// Number of each token's document in its row.
    DocumentIds: "document_ids", NARROW, Tokens, Some(-1), true, false;
    /// Number of each token's segment in the flattened batch.
    SeqIdx: "seq_idx", SMALL, Tokens, None, true, true;
    /// Borders of the segments in the flattened batch.
    CuSeqlens: "cu_seqlens", SMALL, Borders, None, true, false;
    /// Borders of the segments with the padding that fills them up; the other borders then
    /// count tokens of documents alone.
    CuSeqlensPadded: "cu_seqlens_padded", SMALL, Borders, None, true, false;
    /// Tokens of the longest segment.
    MaxSeqlen: "max_seqlen", &[], Number, None, true, false;
    /// Lengths of the segments of each row.
    DocLens: "doc_lens", SMALL, Segments, Some(0), true, false;
    /// Tokens of the longest segment of each row.
    MaxDocLens: "max_doc_lens", &[], Rows, None, true, false;
    /// 1 on tokens of documents.
    AttentionMask: "attention_mask", MASK, Tokens, Some(0), false, true;
    /// 1 where labels carry loss, otherwise 0.
    LossMask: "loss_mask", MASK, Tokens, Some(0), false, false;
    /// Number of each sequence's dataset.
    DatasetIds: "dataset_ids", SMALL, Sequences, Some(-1), true, false;
    /// Metadata of the documents, from the files.
    Metadata: "metadata", &[], Table, None, true, true;
}

impl Field {
    /// Name in a batch.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The field of a name.
    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|field| field.name() == name)
            .ok_or_else(|| Error::invalid(format!("there is no field {name:?}")))
    }
}

/// The fields to make, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    wanted: [bool; Field::ALL.len()],
    types: [FieldType; Field::ALL.len()],
    /// Whether a label is at the position that predicts it, one before its token.
    pub shifted: bool,
    /// The first token of a document is predicted from the last of the one before it.
    pub across_documents: bool,
    /// Label that carries no loss.
    pub ignored: i64,
    /// Documents are padded to a multiple of this many positions.
    pub multiple_of: usize,
    /// Whether aligned columns need the borders of documents.
    pub are_for_columns: bool,
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
            types: Field::ALL.map(|field| *field.entry().types.first().unwrap_or(&FieldType::Bool)),
            shifted,
            across_documents,
            ignored: IGNORED,
            multiple_of: 1,
            are_for_columns: false,
        }
    }

    /// Returns the settings with another type for a field.
    pub fn with_type(mut self, field: Field, field_type: FieldType) -> Result<Self> {
        if !field.entry().types.contains(&field_type) {
            return Err(Error::invalid(format!(
                "{} is never of {field_type:?}",
                field.name()
            )));
        }
        self.types[field as usize] = field_type;
        Ok(self)
    }

    /// Returns the settings with documents padded to a multiple of `multiple_of`.
    pub fn with_multiple_of(mut self, multiple_of: u32) -> Self {
        self.multiple_of = multiple_of.max(1) as usize;
        self
    }

    /// Type of a field whose type can be chosen.
    pub fn type_of(&self, field: Field) -> FieldType {
        self.types[field as usize]
    }

    /// Whether a field is made. Tokens always are.
    pub fn has(&self, field: Field) -> bool {
        field == Field::InputIds || self.wanted[field as usize]
    }

    /// Refuses batches with more tokens than borders can count, and types of labels
    /// that cannot hold the ignored label.
    pub fn check(&self, num_tokens: usize) -> Result<()> {
        for field in Field::ALL {
            let counts_tokens = matches!(field.entry().shape, Shape::Borders | Shape::Segments);
            if counts_tokens && self.has(field) && i32::try_from(num_tokens).is_err() {
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

    /// Whether any field depends on where documents begin and end.
    pub fn need_borders(&self) -> bool {
        let is_given = |field: &Field| {
            let shape = field.entry().shape;
            *field == Field::InputIds || matches!(shape, Shape::Sequences | Shape::Table)
        };
        let mut made = Field::ALL.into_iter().filter(|field| !is_given(field));
        self.are_for_columns || made.any(|field| self.has(field))
    }
}
