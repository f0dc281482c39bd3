//! Columns aligned with tokens, number by number, as Python asks for them.

use std::sync::Arc;

use pagefeed_core::engine::Aligned;
use pagefeed_core::error::Result;
use pagefeed_core::index::Indexed;
use pagefeed_core::page::PageOpener;
use pagefeed_core::pages::aligned_column::AlignedColumn;
use pagefeed_core::pages::dictionaries::DictionaryCache;
use pagefeed_core::pages::row_ranges::SharedPages;
use pagefeed_core::pages::token_column::TokenColumn;
use pagefeed_core::storage::Fetched;
use pagefeed_core::tokens::{NumberType, PerToken};
use pyo3::prelude::*;

/// An aligned column as asked for: its name, numbers for each token, and their type.
#[derive(Clone, Copy, FromPyObject)]
#[pyo3(from_item_all)]
pub struct AskedAligned {
    padding: u64,
    behind: u64,
    #[pyo3(default = 1)]
    width: usize,
    #[pyo3(default)]
    is_counted: bool,
    #[pyo3(default)]
    num_without: usize,
    #[pyo3(default)]
    scale: Option<f32>,
    #[pyo3(default)]
    pub is_shifted: bool,
    #[pyo3(default)]
    is_of_next: bool,
    #[pyo3(default)]
    pub unlearned: Option<u64>,
}

impl AskedAligned {
    /// Whether the numbers depend on where documents begin.
    pub fn needs_borders(&self) -> bool {
        self.is_shifted || self.unlearned.is_some()
    }

    /// Numbers of the column for each token.
    pub fn per_token(&self) -> PerToken {
        PerToken {
            width: self.width,
            is_counted: self.is_counted,
            num_without: self.num_without,
            padding: self.padding,
            scale: self.scale,
            is_of_next: self.is_of_next,
        }
    }

    /// Number of batch columns it becomes.
    pub fn num_columns(&self) -> usize {
        1 + usize::from(self.is_counted)
    }

    /// Batch columns it becomes: the numbers, and how many there are.
    pub fn columns(&self, number: NumberType) -> impl Iterator<Item = Aligned> + use<> {
        let (per_token, shifted) = (self.per_token(), self.is_shifted);
        Aligned::columns(per_token, number, self.behind, shifted, self.unlearned)
    }
}

/// Reads a page of tokens with the rows of an aligned column, and refuses rows without
/// the numbers that are wanted.
pub fn check_page(tokens: Indexed, page: u64, aligned: Indexed, per_token: PerToken) -> Result<()> {
    let dictionaries = Arc::new(DictionaryCache::new(0));
    let shared = Arc::new(SharedPages::new(0));
    let aligned = AlignedColumn::new(aligned, per_token, &dictionaries, &shared)?;
    let column = TokenColumn::new(tokens, &dictionaries, None)?.with(vec![aligned])?;
    column.read(&mut PageOpener::default(), page, Fetched::NOTHING)?;
    Ok(())
}
