//! Text to token ids: as the `tokenizers` library gives them, and fast where that can be
//! had.
//!
//! ```text
//! tokenizer.json -> exact (`tokenizers`) --+-- trials: the same ids? --> Tokenizer
//!                   fast  (`fastokens`)  --+
//! ```
//!
//! [`Tokenizer`] holds both and uses the fast one for as long as it has never been seen
//! to differ: on the hard texts of [`trials`] when it is made, on the first documents
//! when it is used. Nothing here knows about Python.

mod batch;
mod exact;
mod fast;
mod json_lines;
mod patterns;
pub mod trials;

mod tokenizer;

pub use batch::{Encoded, TakePart, encode_batch, encode_joined};
pub use json_lines::{Joined, json_texts};
pub use tokenizer::{Engine, Tokenizer};
