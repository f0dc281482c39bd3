//! A decoded page, and ways to read it.

use arrow_array::{Array, ArrayRef};

use crate::error::{Error, Result};
use crate::infill::{Arranged, Postponed};
use crate::page::PageOpener;
use crate::tokens::{Numbers, TokenPage};

/// A page in memory.
#[derive(Debug)]
pub enum Page {
    /// Rows of tokens, for the rows of a batch that are tokens.
    Tokens(TokenPage),
    /// Rows of any column, for its cells.
    Rows(ArrayRef),
}

impl Page {
    /// Memory the page occupies, as allocated.
    pub fn num_bytes(&self) -> usize {
        match self {
            Self::Tokens(page) => page.num_bytes(),
            Self::Rows(rows) => rows.get_array_memory_size(),
        }
    }

    /// The tokens, where it holds some.
    pub fn tokens(&self) -> Option<&TokenPage> {
        match self {
            Self::Tokens(page) => Some(page),
            Self::Rows(_) => None,
        }
    }

    /// The tokens; an error where it holds none.
    pub fn into_tokens(self) -> Result<TokenPage> {
        match self {
            Self::Tokens(page) => Ok(page),
            Self::Rows(_) => Err(Error::internal("a page of rows, not of tokens")),
        }
    }
}

impl TokenPage {
    /// Memory the page occupies, as allocated.
    pub fn num_bytes(&self) -> usize {
        let aligned = self.aligned.iter().map(Numbers::num_bytes);
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|array| array.get_array_memory_size());
        self.tokens.num_bytes()
            + self.row_offsets.capacity() * size_of::<u32>()
            + self.infilled.capacity() * size_of::<Arranged>()
            + self.postponed.as_ref().map_or(0, Postponed::num_bytes)
            + aligned.sum::<usize>()
            + metadata.sum::<usize>()
    }
}

/// Memory that workers keep from one load to the next.
#[derive(Default)]
pub(super) struct Scratch {
    pub opener: PageOpener,
    /// A page of a bundle before it is joined.
    pub page: TokenPage,
}

impl Scratch {
    /// Bytes of memory that loads keep for later ones.
    pub fn load_bytes(&self) -> usize {
        self.page.num_bytes() + self.opener.kept_bytes()
    }

    /// Frees scratch memory beyond a worker's share of the budget; returns the bytes of
    /// a page.
    pub fn release_beyond(&mut self, share: usize) -> usize {
        let mut freed = 0;
        if self.page.num_bytes() > share {
            freed = std::mem::take(&mut self.page).num_bytes();
        }
        self.opener.keep_at_most(share - self.page.num_bytes());
        freed
    }
}
