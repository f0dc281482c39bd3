//! Texts as tokens: what the data plane needs of a tokenizer.

mod batch;

use arrow_array::ArrayRef;
use arrow_schema::Field;

use crate::error::Result;

pub use batch::{Encoded, encode_batch, encode_joined};

/// Encodes texts.
pub trait Encode: Send + Sync {
    /// Appends the ids of `text`, which are the same each time.
    fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()>;
}

/// Takes the number of a row, its ids, and its labels if there are such.
pub type Visit<'a> = dyn FnMut(usize, &[u32], &[i32]) -> Result<()> + 'a;

/// Encodes rows of a column, or of several.
pub trait EncodeRows: Send + Sync {
    /// Refuses a column that does not hold what it encodes.
    fn check(&self, field: &Field) -> Result<()>;

    /// Whether every id has a label.
    fn has_labels(&self) -> bool {
        false
    }

    /// Visits all rows in order; a null is a row without tokens. `columns` have the same
    /// rows: of the column, and of those that lie beside it.
    fn encode(&self, columns: &[ArrayRef], visit: &mut Visit<'_>) -> Result<()>;
}
