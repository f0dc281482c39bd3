//! The reference: the `tokenizers` library.

use std::str::FromStr;
use std::sync::OnceLock;

use pagefeed_core::error::{Error, Result, catch_library};
use serde_json::Value;
use tokenizers::{Encoding, Tokenizer as Library};

/// Parts of a tokenizer that do not change the ids of a text: no special tokens are
/// added, and nothing is cut off or padded.
const WITHOUT_EFFECT: [&str; 4] = ["truncation", "padding", "post_processor", "decoder"];

/// Characters of a text or a pattern in a message.
const SHOWN_CHARS: usize = 80;

/// A tokenizer of the library.
pub struct Exact {
    library: Library,
    /// Known only from a copy of the whole vocabulary.
    vocab_size: OnceLock<u32>,
}

impl Exact {
    /// Loads the text of a `tokenizer.json`; special tokens written in a text are plain
    /// text if `as_text`.
    pub fn new(json: &str, as_text: bool) -> Result<Self> {
        let mut library = Library::from_str(json).map_err(|error| {
            Error::invalid(format!("not a tokenizer.json that can be read: {error}"))
        })?;
        // A document is never shortened, nor made longer.
        library
            .with_truncation(None)
            .map_err(|error| failed(&error.to_string()))?
            .with_padding(None);
        library.set_encode_special_tokens(as_text);
        Ok(Self {
            library,
            vocab_size: OnceLock::new(),
        })
    }

    /// Appends the ids of `text`.
    pub fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let encoding = self.encoded(text, || self.library.encode_fast(text, false))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// Returns where in `text` each token comes from: first byte and end.
    pub fn offsets(&self, text: &str) -> Result<Vec<(usize, usize)>> {
        let encoding = self.encoded(text, || self.library.encode(text, false))?;
        Ok(encoding.get_offsets().to_vec())
    }

    /// Encodes a text. A pattern that takes too long on it panics in the library.
    fn encoded(
        &self,
        text: &str,
        encode: impl FnOnce() -> tokenizers::Result<Encoding>,
    ) -> Result<Encoding> {
        let encode = || encode().map_err(|error| failed(&error.to_string()));
        catch_library(encode, |why| {
            let begin = shortened(text);
            Error::invalid(format!(
                "the tokenizer's patterns fail on the text of {} bytes that begins with \
                 {begin:?}: {why}; they are {}: use a tokenizer with patterns that do not try \
                 a text over and over, or leave this one out",
                text.len(),
                self.patterns().join(", ")
            ))
        })
    }

    /// The regular expressions of the tokenizer, as its JSON has them and shortened.
    fn patterns(&self) -> Vec<String> {
        let text = self.library.to_string(false).unwrap_or_default();
        let patterns = text.split("{\"Regex\":\"").skip(1);
        let shown = |pattern: &str| pattern.split("\"}").next().map(shortened);
        patterns.filter_map(shown).collect()
    }

    /// The text of ids, special tokens included.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.library
            .decode(ids, false)
            .map_err(|error| failed(&error.to_string()))
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> u32 {
        *self.vocab_size.get_or_init(|| {
            let vocab = self.library.get_vocab(true);
            vocab.values().max().map_or(0, |id| id.saturating_add(1))
        })
    }

    /// Returns the id of a token, as written in the vocabulary.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.library.token_to_id(token)
    }

    /// The added tokens by their ids, and whether they are special.
    pub fn added_tokens(&self) -> Vec<(u32, String, bool)> {
        let tokens = self.library.get_added_tokens_decoder();
        let mut all: Vec<_> = tokens
            .into_iter()
            .map(|(id, token)| (id, token.content, token.special))
            .collect();
        all.sort_unstable();
        all
    }

    /// Returns everything that decides on ids, in one form for all releases of the
    /// library: null, false and empty entries are left out, since later releases add
    /// such.
    pub fn canonical(&self) -> Result<String> {
        let text = self
            .library
            .to_string(false)
            .map_err(|error| failed(&error.to_string()))?;
        let mut value: Value = serde_json::from_str(&text).map_err(|e| failed(&e.to_string()))?;
        if let Some(parts) = value.as_object_mut() {
            for name in WITHOUT_EFFECT {
                parts.remove(name);
            }
            parts.remove("version");
        }
        settle(&mut value, 0);
        Ok(value.to_string())
    }
}

/// Removes empty entries; lists and the vocabulary, which are deeper, stay unchanged.
fn settle(value: &mut Value, depth: usize) {
    const DEEPEST: usize = 8;
    match value {
        Value::Object(entries) if depth < DEEPEST => {
            entries.retain(|name, entry| {
                if name != "vocab" && name != "merges" {
                    settle(entry, depth + 1);
                }
                !matches!(entry, Value::Null | Value::Bool(false))
            });
        }
        Value::Array(entries) if depth < DEEPEST => {
            for entry in entries {
                settle(entry, depth + 1);
            }
        }
        _ => {}
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

fn failed(why: &str) -> Error {
    Error::invalid(format!("the tokenizer cannot do this text: {why}"))
}
