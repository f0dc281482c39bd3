//! Texts to token ids: the same ids as the `tokenizers` library gives, faster where possible.
//!
//! ```text
//! tokenizer.json -> exact (`tokenizers`) --+-- trials: the same ids? --> Tokenizer
//!                   fast  (`fastokens`)  --+
//! ```
//!
//! [`Tokenizer`] holds both engines. It uses the fast one until the two are seen to differ:
//! on the trial texts that Python gives when it is made, or on documents when it is used.
//! Nothing here knows about Python.

mod exact;
mod fast;
mod json_lines;
mod patterns;
mod tokenizer;

pub use exact::Exact;
pub use json_lines::{JsonTexts, json_texts};
pub use tokenizer::{Engine, Tokenizer, Trials};
