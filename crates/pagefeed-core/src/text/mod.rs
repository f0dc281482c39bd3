//! Texts as tokens: what the data plane needs of a tokenizer.

mod batch;

use arrow_array::ArrayRef;
use arrow_schema::Field;

use crate::error::Result;

pub use batch::{Encoded, encode_batch, encode_concatenated};

/// Encodes texts.
pub trait Encode: Send + Sync {
    /// Appends the ids of `text`, which are always the same.
    fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()>;
}

/// Called with the number of a row, its ids, and its labels if there are any.
pub type Visit<'a> = dyn FnMut(usize, &[u32], &[i32]) -> Result<()> + 'a;

/// Encodes rows of a column, or of several.
pub trait EncodeRows: Send + Sync {
    /// Refuses a column of a type that it cannot encode.
    fn check(&self, field: &Field) -> Result<()>;

    /// Whether every id has a label.
    fn has_labels(&self) -> bool {
        false
    }

    /// Visits all rows in order; a null is a row without tokens. `columns` are the
    /// column, and further columns, with the same rows.
    fn encode(&self, columns: &[ArrayRef], visit: &mut Visit<'_>) -> Result<()>;
}
