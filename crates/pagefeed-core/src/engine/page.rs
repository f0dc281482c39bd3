//! A decoded page, and ways to read it.

use arrow_array::{Array, ArrayRef};

use crate::error::{Error, Result};
use crate::infill::{Arranged, Postponed};
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
            Self::Rows(_) => Err(Error::internal(
                "expected a page of tokens, found one of rows",
            )),
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
