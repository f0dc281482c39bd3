//! A tokenizer: the exact engine, and the fast one for as long as it gives the same.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use pagefeed_core::error::{Error, Kind, Result, catch_panic};
use pagefeed_core::text::Encode;
use serde_json::Value;

use crate::exact::Exact;
use crate::fast::{self, Fast};
use crate::patterns::spelled_out;

/// Bytes of the first documents that both engines encode.
const TRIED_BYTES: i64 = 256 << 10;
/// Bytes of a document that both engines encode, at most.
const TRIED_AT_ONCE: usize = 32 << 10;
/// Afterwards both engines encode one document after each stretch of this many bytes.
/// The exact engine takes 200 times as long, which adds one percent of time.
const TRIED_AFTER: u64 = 40 << 20;
const TRIED_LATER: usize = 2 << 10;
/// Ids are below; the largest vocabularies have some millions.
const MOST_IDS: u32 = 1 << 24;
/// Ids and offsets of texts have 32 bits.
const LONGEST_TEXT: usize = u32::MAX as usize;

/// The engine that encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `fastokens`.
    Fast,
    /// `tokenizers`.
    Exact,
}

/// Returns texts on which engines are compared, given the added tokens.
pub type Trials<'a> = dyn Fn(Vec<String>) -> Result<Vec<String>> + Sync + 'a;

/// Encodes texts as the `tokenizers` library does.
pub struct Tokenizer {
    exact: Exact,
    fast: Option<Fast>,
    /// Whether the fast engine was found to differ, or failed.
    is_refuted: AtomicBool,
    reason: Mutex<String>,
    untried: AtomicI64,
    /// Bytes since both encoded a document.
    since_tried: AtomicU64,
    /// A difference that was found after other ids may have been delivered.
    refusal: OnceLock<Error>,
}

impl Tokenizer {
    /// Loads the text of a `tokenizer.json`. Special tokens written in a text are plain
    /// text if `as_text`. The fast engine is used if it gives the same ids on the texts that
    /// `trials` returns for the added tokens; without `trials` it is left out.
    pub fn new(json: &str, as_text: bool, trials: Option<&Trials<'_>>) -> Result<Self> {
        catch_panic(|| Self::load(json, as_text, trials))
    }

    fn load(json: &str, as_text: bool, trials: Option<&Trials<'_>>) -> Result<Self> {
        let value: Value = serde_json::from_str(json).map_err(|error| {
            Error::invalid(format!("not a tokenizer.json that can be read: {error}"))
        })?;
        check_ids(&value)?;
        let exact = Exact::new(json, as_text)?;
        let fast = match trials {
            Some(trials) => Self::proven(&value, as_text, &exact, trials),
            None => Err("it was not asked for".into()),
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
            since_tried: AtomicU64::new(0),
            refusal: OnceLock::new(),
        })
    }

    /// The fast engine, if it is equal to the exact one on all texts of `trials`.
    fn proven(
        json: &Value,
        as_text: bool,
        exact: &Exact,
        trials: &Trials<'_>,
    ) -> Result<Fast, String> {
        let added = exact.added_tokens().into_iter();
        let texts = trials(added.map(|(_, content, _)| content).collect());
        let texts = texts.map_err(|error| error.message().to_string())?;
        let tried = |json: &Value| {
            let fast = quietly(|| Fast::new(json, as_text))?;
            for text in &texts {
                compare(exact, &fast, text)?;
            }
            Ok(fast)
        };
        tried(json).or_else(|why: String| {
            let mut others = [spelled_out(json), fast::without_added(json)].into_iter();
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

    /// Has both engines encode the first documents, and a later one now and then. If ids
    /// differ in the first documents, the fast engine is left out. A later difference is
    /// an error, then and in every later call.
    fn try_on(&self, fast: &Fast, text: &str) -> Result<()> {
        if self.untried.load(Ordering::Relaxed) > 0 {
            let sample = head(text, TRIED_AT_ONCE);
            let size = i64::try_from(sample.len() + 1).unwrap_or(TRIED_BYTES);
            self.untried.fetch_sub(size, Ordering::Relaxed);
            if let Err(why) = compare(&self.exact, fast, sample) {
                self.refute(why);
            }
            return Ok(());
        }
        let size = text.len() as u64 + 1;
        if self.since_tried.fetch_add(size, Ordering::Relaxed) + size >= TRIED_AFTER {
            self.since_tried.store(0, Ordering::Relaxed);
            if let Err(why) = compare(&self.exact, fast, head(text, TRIED_LATER)) {
                self.refusal.get_or_init(|| {
                    Error::unsupported(format!(
                        "fastokens encoded until now, and {why}: what it encoded may be wrong, \
                         too; begin again with Tokenizer(..., engine=\"tokenizers\"), and \
                         report it, please"
                    ))
                });
            }
        }
        self.refusal
            .get()
            .map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Returns where in `text` each token comes from: first byte and end.
    pub fn offsets(&self, text: &str) -> Result<Vec<(usize, usize)>> {
        catch_panic(|| self.exact.offsets(text))
    }

    /// The text of ids, special tokens included.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        catch_panic(|| self.exact.decode(ids))
    }

    /// Returns the tokenizer with the vocabulary.
    pub fn exact(&self) -> &Exact {
        &self.exact
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
            self.try_on(fast, text)?;
        }
        if let Some(fast) = self.fast() {
            match quietly(|| fast.encode(text)) {
                Ok(encoded) => {
                    ids.extend_from_slice(&encoded);
                    return Ok(());
                }
                Err(why) => self.refute(why),
            }
        }
        catch_panic(|| self.exact.encode_into(text, ids))
    }
}

/// Refuses very large ids: tables of engines have an entry for every id up to the
/// largest.
fn check_ids(json: &Value) -> Result<()> {
    let added = json["added_tokens"].as_array().into_iter().flatten();
    let added = added.map(|token| &token["id"]);
    let vocab = json["model"]["vocab"].as_object().into_iter().flatten();
    for id in added.chain(vocab.map(|(_, id)| id)) {
        if id.as_f64().is_some_and(|id| id >= f64::from(MOST_IDS)) {
            return Err(Error::new(
                Kind::Limit,
                format!("a tokenizer.json has ids below {MOST_IDS}, this one has {id}"),
            ));
        }
    }
    Ok(())
}

/// Runs the fast engine; a panic in it is a reason not to use it, not an error.
fn quietly<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_panic(|| Ok(work())).unwrap_or_else(|panic| Err(panic.message().to_string()))
}

/// Returns how the ids of two engines differ, if they do.
fn compare(exact: &Exact, fast: &Fast, text: &str) -> Result<(), String> {
    let ids = quietly(|| fast.encode(text))?;
    let mut expected = Vec::with_capacity(ids.len());
    catch_panic(|| exact.encode_into(text, &mut expected))
        .map_err(|error| error.message().to_string())?;
    if ids == expected {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    let at = ids.iter().zip(&expected).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| ids.len().min(expected.len()));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Words by their letters, with one more token.
    fn json(more: &str) -> String {
        let letters = ('a'..='z').map(|letter| letter.to_string());
        let vocab: serde_json::Map<String, Value> = letters
            .chain(["\u{120}".into(), more.into()])
            .zip(0..)
            .map(|(token, id): (String, u32)| (token, id.into()))
            .collect();
        let (left, right) = more.split_at(1);
        serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "post_processor": null, "decoder": {"type": "ByteLevel",
                "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
                "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": null, "end_of_word_suffix": null,
                "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocab, "merges": [[left, right]]},
        })
        .to_string()
    }

    /// One whose fast engine merges other letters.
    fn differing() -> Tokenizer {
        let fast = Fast::new(&serde_json::from_str(&json("qz")).unwrap(), false).unwrap();
        Tokenizer {
            fast: Some(fast),
            ..Tokenizer::new(&json("xy"), false, None).unwrap()
        }
    }

    #[test]
    fn a_difference_after_the_first_documents_is_an_error_from_then_on() {
        let tokenizer = differing();
        let long = "so it is ".repeat(1 << 14);
        let encode = |text: &str| tokenizer.encode_into(text, &mut Vec::new());
        let count = 2 * TRIED_AFTER as usize / long.len();
        (0..count).for_each(|_| encode(&long).unwrap());
        assert_eq!(tokenizer.engine().0, Engine::Fast, "the same so far");
        let refused = (0..count).find_map(|_| encode(&format!("xy {long}")).err());
        let refused = refused.unwrap();
        assert_eq!(refused.kind(), Kind::Unsupported);
        assert!(refused.message().contains("fastokens"), "{refused}");
        assert!(encode("so").is_err(), "what comes later is refused as well");
    }

    #[test]
    fn a_difference_in_the_first_documents_leaves_the_fast_engine_out() {
        let tokenizer = differing();
        let mut ids = Vec::new();
        tokenizer.encode_into("xy", &mut ids).unwrap();
        assert_eq!((ids, tokenizer.engine().0), (vec![27], Engine::Exact));
    }
}
