//! Documents in batches, as Python asks for them.

use pagefeed_core::engine::{AlignedLists, DocumentColumns, Documents, Pad};
use pagefeed_core::error::{Error, Result};
use pyo3::prelude::*;

use crate::aligned::AskedAligned;

/// Padding and types of the lists in columns of batches, by the column's number.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct AskedDocuments {
    /// Whether the first column holds the tokens.
    #[pyo3(default)]
    has_tokens: bool,
    max_length: Option<usize>,
    /// "longest", "max_length", or None to join them.
    pad: Option<String>,
    /// Columns that become rows of integers, and what fills these up.
    #[pyo3(default)]
    padded: Vec<(usize, i64)>,
    /// Columns with numbers for each token: name, column, and the column that tells
    /// which rows have it.
    #[pyo3(default)]
    aligned: Vec<(String, usize, Option<usize>, AskedAligned)>,
    /// The first column of the metadata, the names, which of them hold spans, and the
    /// column that tells which rows are documents.
    #[pyo3(default)]
    metadata: Option<(usize, Vec<String>, Vec<bool>, usize)>,
    /// Columns before those that are not handed out.
    num_named: usize,
    #[pyo3(default)]
    only_filled: bool,
    #[pyo3(default)]
    row_tokens: usize,
}

impl AskedDocuments {
    pub fn parse(self) -> Result<Documents> {
        let pad = match self.pad.as_deref() {
            Some("longest") => Pad::Longest,
            Some("max_length") if self.max_length.is_some() => Pad::Full,
            None => Pad::Joined,
            _ => {
                return Err(Error::invalid(
                    "pad is \"longest\", or \"max_length\" with a max_length",
                ));
            }
        };
        let aligned = self.aligned.into_iter();
        let aligned = aligned.map(|(name, column, has, asked)| AlignedLists {
            name,
            column,
            has,
            per_token: asked.per_token(),
            is_shifted: asked.is_shifted,
            unlearned: asked.unlearned,
        });
        let metadata = self.metadata;
        Ok(Documents {
            has_tokens: self.has_tokens,
            max_length: self.max_length,
            pad,
            padded: self.padded,
            aligned: aligned.collect(),
            metadata: metadata.map(|(first, names, are_spans, there)| DocumentColumns {
                first,
                names,
                are_spans,
                there,
            }),
            num_named: self.num_named,
            only_filled: self.only_filled,
            row_tokens: self.row_tokens,
        })
    }
}
