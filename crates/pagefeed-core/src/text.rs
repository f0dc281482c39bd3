//! Texts as tokens: what the data plane needs of a tokenizer.

use crate::error::Result;

/// Encodes texts.
pub trait Encode: Send + Sync {
    /// Appends the ids of `text`, which are the same each time.
    fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()>;
}
