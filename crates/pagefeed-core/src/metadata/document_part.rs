//! Place of a part of a document.

/// A run of tokens of one document in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentPart {
    /// Row of the batch.
    pub sequence: usize,
    /// First token, counted in the sequence.
    pub start: usize,
    /// First token, counted in the document.
    pub first_token: usize,
    /// Number of tokens.
    pub num_tokens: usize,
}
