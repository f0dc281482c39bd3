//! Settings of an engine, and of its batches.

use std::sync::Arc;

use arrow_schema::Field;

use super::aligned::Aligned;
use super::documents::Documents;
use crate::error::{Error, Result};
use crate::fields::{Borders, Fields, Sections};
use crate::gather::{BatchToken, Separators};
use crate::metadata::TableSchema;
use crate::packing::Rule;

/// Rows made of the lists of a batch count as one part in this many of the budget at most.
const DOCUMENTS_DIVISOR: usize = 8;

/// Type of the tokens in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// 64-bit signed.
    I64,
    /// 32-bit signed.
    I32,
    /// 16-bit unsigned.
    U16,
}

impl TokenType {
    /// Bytes of one token.
    pub fn num_bytes(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::I32 => 4,
            Self::U16 => 2,
        }
    }

    pub(super) fn holds(self, value: i64) -> bool {
        match self {
            Self::I64 => true,
            Self::I32 => <i32 as BatchToken>::from_i64(value).is_some(),
            Self::U16 => <u16 as BatchToken>::from_i64(value).is_some(),
        }
    }
}

/// Settings of the engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Threads that read, decode and scatter.
    pub num_threads: usize,
    /// Bytes of pages in memory or being read, of plans, and of batches until the
    /// consumer drops them.
    pub budget: usize,
    /// Type of the tokens in a batch.
    pub token_type: TokenType,
    /// Rows of a batch, unless its plan has another number.
    pub batch_rows: usize,
    /// Tokens of a row; 0 where batches have none.
    pub row_length: usize,
    /// Cells of a row after its tokens: columns that come as Arrow arrays.
    pub columns: Vec<Field>,
    /// Bytes of a row besides its tokens, such as text; an estimate.
    pub row_payload: usize,
    /// Token where no segment writes.
    pub padding: i64,
    /// Layout of rows as the tokens of a batch.
    pub layout: Layout,
}

/// Layout of rows as the tokens of a batch.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Token before every row, also before an empty one.
    pub bos: Option<i64>,
    /// Token after every row, also after an empty one.
    pub eos: Option<i64>,
    /// Packing of bundles; without it, their rows are joined like those of a page.
    pub packing: Option<Rule>,
    /// Rows of a batch that each sequence is cut into; 0 means one.
    pub row_parts: usize,
    /// The fields to make besides tokens.
    pub fields: Fields,
    /// The aligned columns.
    pub aligned: Vec<Aligned>,
    /// Aligned column that decides on the loss mask: tokens with its padding have no
    /// loss.
    pub loss_column: Option<usize>,
    /// Columns of the metadata table, if metadata was asked for.
    pub metadata: Option<Arc<TableSchema>>,
    /// Bytes that this takes for a token, about.
    pub metadata_token_bytes: f64,
    /// Padding and types of the lists in its cells.
    pub documents: Option<Arc<Documents>>,
}

impl EngineConfig {
    /// Separators of rows, and where they are put.
    pub(super) fn separators(&self) -> Separators<i64> {
        let repeats_bos = self.layout.packing.is_some_and(|rule| rule.repeats_bos);
        let length = u32::try_from(self.row_length).unwrap_or(u32::MAX);
        Separators {
            bos: self.layout.bos,
            eos: self.layout.eos,
            bos_every: if repeats_bos { length } else { 0 },
        }
    }

    /// The settings for batches of `batch_rows` sequences, or of the default number, of
    /// which each gives `row_parts` rows.
    pub(super) fn with_rows(
        self: &Arc<Self>,
        batch_rows: Option<usize>,
        row_parts: usize,
    ) -> Result<Arc<Self>> {
        let batch_rows = batch_rows.unwrap_or(self.batch_rows);
        if (batch_rows, row_parts) == (self.batch_rows, self.layout.row_parts) {
            return Ok(Arc::clone(self));
        }
        if !self.row_length.is_multiple_of(row_parts.max(1)) {
            return Err(Error::invalid(format!(
                "sequences of {} tokens do not give {row_parts} rows of one length",
                self.row_length
            )));
        }
        let mut config = Self::clone(self);
        (config.batch_rows, config.layout.row_parts) = (batch_rows, row_parts);
        config.check()?;
        Ok(Arc::new(config))
    }

    /// Tokens of a row of a batch: of a sequence, or of each part of it.
    pub(super) fn part_length(&self) -> usize {
        self.row_length / self.layout.row_parts.max(1)
    }

    /// Tokens of a batch.
    pub fn batch_tokens(&self) -> usize {
        self.batch_rows.saturating_mul(self.row_length)
    }

    /// Positions of a row: its tokens, then its cells.
    pub(super) fn row_width(&self) -> usize {
        self.row_length.saturating_add(self.columns.len())
    }

    /// Byte ranges of tokens and fields in the memory of a batch.
    pub fn sections(&self) -> Sections {
        let token_bytes = self.token_type.num_bytes();
        let num_tokens = self.batch_tokens();
        let sections = Sections::new(&self.layout.fields, num_tokens, token_bytes);
        let widths = self.layout.aligned.iter();
        widths.fold(sections, |sections, column| {
            sections.with_aligned(num_tokens, column.token_bytes())
        })
    }

    /// Bytes of a batch.
    pub fn batch_bytes(&self) -> usize {
        let borders = match self.layout.fields.need_borders() {
            true => Borders::num_bytes(self.batch_tokens()),
            false => 0,
        };
        let cells = self.columns.len().saturating_mul(8);
        let rows = self
            .batch_rows
            .saturating_mul(self.row_payload.saturating_add(cells));
        let metadata = self.batch_tokens() as f64 * self.layout.metadata_token_bytes;
        let sections = self.sections().num_bytes();
        let documents = self.layout.documents.as_ref();
        let documents = documents.map_or(0, |documents| {
            let token_bytes = self.token_type.num_bytes();
            documents.num_bytes(self.batch_rows, token_bytes, &self.layout.fields)
        });
        let sum = sections.saturating_add(rows).saturating_add(borders);
        // An estimate, which refuses no batch.
        sum.saturating_add(metadata as usize)
            .saturating_add(documents.min(self.budget / DOCUMENTS_DIVISOR))
    }

    /// The error of a token among the settings.
    pub(super) fn bad_token(&self, name: &str, token: i64) -> Error {
        let token_type = self.token_type;
        Error::invalid(format!(
            "{name} {token} does not fit tokens of type {token_type:?}"
        ))
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.num_threads == 0 {
            return Err(Error::invalid("an engine needs at least one thread"));
        }
        for (name, token) in [
            ("padding", Some(self.padding)),
            ("bos", self.layout.bos),
            ("eos", self.layout.eos),
        ] {
            if token.is_some_and(|token| !self.token_type.holds(token)) {
                return Err(self.bad_token(name, token.unwrap_or_default()));
            }
        }
        let num_tokens = self.row_length.checked_mul(self.batch_rows);
        if num_tokens.is_none() || self.batch_bytes() > self.budget {
            let of_each = match (self.row_length, self.layout.fields.need_borders()) {
                (0, _) => "",
                (_, true) => ", with their tokens and fields",
                (_, false) => ", with their tokens",
            };
            return Err(Error::invalid(format!(
                "a budget of {} bytes does not hold one batch of {} rows, which takes {} \
                 bytes{of_each}; raise the memory or lower the batch size",
                self.budget,
                self.batch_rows,
                self.batch_bytes(),
            )));
        }
        self.layout.fields.check(self.batch_tokens())
    }
}
