//! A tokenizer: the exact engine, and the fast one for as long as it gives the same.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use pagefeed_core::error::{Error, Kind, Result, catch_panic};
use pagefeed_core::text::Encode;
use serde_json::Value;

use crate::exact::Exact;
use crate::fast::{self, Fast};
use crate::patterns::spelled_out;
use crate::trials;

/// Bytes of the first documents that both engines encode.
const TRIED_BYTES: i64 = 256 << 10;
/// Of one document at most so many.
const TRIED_AT_ONCE: usize = 32 << 10;
/// Ids are numbered by 32 bits, offsets of texts likewise.
const LONGEST_TEXT: usize = u32::MAX as usize;

/// Which engine encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `fastokens`.
    Fast,
    /// `tokenizers`.
    Exact,
}

/// Encodes texts as the `tokenizers` library does.
pub struct Tokenizer {
    exact: Exact,
    fast: Option<Fast>,
    /// The fast engine was seen to differ, or to fail.
    is_refuted: AtomicBool,
    reason: Mutex<String>,
    untried: AtomicI64,
}

impl Tokenizer {
    /// Loads the text of a `tokenizer.json`. Special tokens written in a text are plain
    /// text if `as_text`; the fast engine is left out unless `may_be_fast`.
    pub fn new(json: &str, as_text: bool, may_be_fast: bool) -> Result<Self> {
        catch_panic(|| Self::load(json, as_text, may_be_fast))
    }

    fn load(json: &str, as_text: bool, may_be_fast: bool) -> Result<Self> {
        let exact = Exact::new(json, as_text)?;
        let fast = match may_be_fast {
            true => Self::proven(json, as_text, &exact),
            false => Err("it was not asked for".into()),
        };
        let (fast, reason) = match fast {
            Ok(fast) => (Some(fast), "gives the same ids in all trials".into()),
            Err(why) => (None, format!("fastokens is not used: {why}")),
        };
        Ok(Self {
            exact,
            fast,
            is_refuted: AtomicBool::new(false),
            reason: Mutex::new(reason),
            untried: AtomicI64::new(TRIED_BYTES),
        })
    }

    /// The fast engine, if it is equal to the exact one on all hard texts.
    fn proven(json: &str, as_text: bool, exact: &Exact) -> Result<Fast, String> {
        let json: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let added = exact.added_tokens();
        let added: Vec<&str> = added
            .iter()
            .map(|(_, content, _)| content.as_str())
            .collect();
        let texts = trials::texts(&added);
        let tried = |json: &Value| {
            let fast = quietly(|| Fast::new(json, as_text))?;
            for text in &texts {
                compare(exact, &fast, text)?;
            }
            Ok(fast)
        };
        tried(&json).or_else(|why: String| {
            let mut others = [spelled_out(&json), fast::without_added(&json)].into_iter();
            let proven = others.find_map(|json| tried(&json?).ok());
            proven.ok_or(why)
        })
    }

    /// The engine in use, and why it is.
    pub fn engine(&self) -> (Engine, String) {
        let engine = match self.fast() {
            Some(_) => Engine::Fast,
            None => Engine::Exact,
        };
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        (engine, reason.clone())
    }

    fn fast(&self) -> Option<&Fast> {
        let is_refuted = self.is_refuted.load(Ordering::Relaxed);
        self.fast.as_ref().filter(|_| !is_refuted)
    }

    /// Never asks the fast engine again.
    fn refute(&self, why: String) {
        let mut reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_refuted.swap(true, Ordering::Relaxed) {
            *reason = format!("fastokens is no longer used: {why}");
        }
    }

    /// Has both engines encode what is left to be tried.
    fn try_on(&self, fast: &Fast, text: &str) {
        if self.untried.load(Ordering::Relaxed) <= 0 {
            return;
        }
        let part = head(text, TRIED_AT_ONCE);
        let size = i64::try_from(part.len() + 1).unwrap_or(TRIED_BYTES);
        self.untried.fetch_sub(size, Ordering::Relaxed);
        if let Err(why) = compare(&self.exact, fast, part) {
            self.refute(why);
        }
    }

    /// Where in `text` each token comes from: bytes, begin and end.
    pub fn places(&self, text: &str) -> Result<Vec<(usize, usize)>> {
        catch_panic(|| self.exact.places(text))
    }

    /// The text of ids, special tokens included.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        catch_panic(|| self.exact.decode(ids))
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> u32 {
        self.exact.vocab_size()
    }

    /// The id of a token, as it is written in the vocabulary.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.exact.token_to_id(token)
    }

    /// The added tokens by their ids, and whether they are special.
    pub fn added_tokens(&self) -> Vec<(u32, String, bool)> {
        self.exact.added_tokens()
    }

    /// All that decides on ids, in one form whichever release of the library wrote it.
    pub fn canonical(&self) -> Result<String> {
        self.exact.canonical()
    }
}

impl Encode for Tokenizer {
    fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        if text.len() > LONGEST_TEXT {
            return Err(Error::new(
                Kind::Limit,
                format!(
                    "a text has {} bytes, the most is {LONGEST_TEXT}",
                    text.len()
                ),
            ));
        }
        if let Some(fast) = self.fast() {
            self.try_on(fast, text);
        }
        if let Some(fast) = self.fast() {
            match quietly(|| fast.encode(text)) {
                Ok(found) => {
                    ids.extend_from_slice(&found);
                    return Ok(());
                }
                Err(why) => self.refute(why),
            }
        }
        catch_panic(|| self.exact.encode_into(text, ids))
    }
}

/// Runs the fast engine; a panic in it is a reason not to use it, not an error.
fn quietly<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_panic(|| Ok(work())).unwrap_or_else(|panic| Err(panic.message().to_string()))
}

/// Says where the ids of two engines differ, if they do.
fn compare(exact: &Exact, fast: &Fast, text: &str) -> Result<(), String> {
    let found = quietly(|| fast.encode(text))?;
    let mut expected = Vec::with_capacity(found.len());
    catch_panic(|| exact.encode_into(text, &mut expected))
        .map_err(|error| error.message().to_string())?;
    if found == expected {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    let at = found.iter().zip(&expected).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| found.len().min(expected.len()));
    Err(format!(
        "its ids of {shown:?} differ from those of tokenizers, from token {at} on"
    ))
}

/// The first characters of `text`, of at most `most` bytes.
fn head(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
