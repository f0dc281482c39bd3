//! Takes the place of the crate `pagefeed-tokenizer` in builds without it.

use pagefeed_core::error::{Error, Result};
use pagefeed_core::text::Encode;

/// Returns texts on which engines are compared, given the added tokens.
pub type Trials<'a> = dyn Fn(Vec<String>) -> Result<Vec<String>> + Sync + 'a;

/// A tokenizer of a `tokenizer.json`; this build can make none.
pub enum Tokenizer {}

/// The engine that encodes.
#[expect(dead_code, reason = "no tokenizer is made that could name one")]
pub enum Engine {
    Fast,
    Exact,
}

/// Texts, one after another.
pub struct JsonTexts {
    pub bytes: Vec<u8>,
    pub offsets: Vec<i64>,
}

/// Leaves every block to the slower reader in Python.
pub fn json_texts(_: &[u8], _: &str) -> Option<JsonTexts> {
    None
}

impl Tokenizer {
    pub fn new(_: &str, _: bool, _: Option<&Trials<'_>>) -> Result<Self> {
        Err(Error::unsupported(
            "this build of pagefeed has no tokenizers (the cargo feature \"tokenizer\"): \
             `pip install .` builds all of pagefeed, or give a Python function of a text that \
             returns its ids, and vocab_size",
        ))
    }

    pub fn offsets(&self, _: &str) -> Result<Vec<(usize, usize)>> {
        match *self {}
    }

    pub fn decode(&self, _: &[u32]) -> Result<String> {
        match *self {}
    }

    pub fn exact(&self) -> &Exact {
        match *self {}
    }

    pub fn engine(&self) -> (Engine, String) {
        match *self {}
    }
}

/// A tokenizer with a vocabulary.
pub enum Exact {}

impl Exact {
    pub fn vocab_size(&self) -> u32 {
        match *self {}
    }

    pub fn token_to_id(&self, _: &str) -> Option<u32> {
        match *self {}
    }

    pub fn added_tokens(&self) -> Vec<(u32, String, bool)> {
        match *self {}
    }

    pub fn canonical(&self) -> Result<String> {
        match *self {}
    }
}

impl Encode for Tokenizer {
    fn encode_into(&self, _: &str, _: &mut Vec<u32>) -> Result<()> {
        match *self {}
    }
}
