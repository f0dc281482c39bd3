//! The fast engine: `fastokens`, on the calling thread alone.
//!
//! It keeps what it has seen of pre-tokens per thread, at most about 96 MiB (64 of short
//! ones, 32 of long ones) for the tokenizer in use, and starts with some 2 MiB.

use std::sync::Once;

use fastokens::{AddedTokenPolicy, Tokenizer as Library};
use serde_json::Value;

/// A tokenizer of the fast library.
pub struct Fast {
    library: Library,
    policy: AddedTokenPolicy,
}

impl Fast {
    /// Loads a `tokenizer.json`, or says why it cannot.
    pub fn new(json: &Value, as_text: bool) -> Result<Self, String> {
        stay_on_this_thread();
        let mut value = json.clone();
        if let Some(parts) = value.as_object_mut() {
            parts.insert("truncation".into(), Value::Null);
            parts.insert("padding".into(), Value::Null);
            // It does not change ids, and may be of a kind that fastokens does not know.
            parts.insert("post_processor".into(), Value::Null);
        }
        refuse(&value)?;
        let mut library = Library::from_json(value).map_err(|error| error.to_string())?;
        library.enable_segment_cache(0);
        let policy = match as_text {
            true => AddedTokenPolicy::SkipSpecial,
            false => AddedTokenPolicy::All,
        };
        Ok(Self { library, policy })
    }

    /// The ids of `text`.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.library
            .encode_with_policy(text, false, self.policy)
            .map_err(|error| error.to_string())
    }
}

/// Returns a `tokenizer.json` without the added tokens in its vocabulary. With gaps
/// between ids, the library would refuse the vocabulary.
pub fn without_added(json: &Value) -> Option<Value> {
    let mut json = json.clone();
    let tokens = json.get("added_tokens")?.as_array()?.clone();
    let vocab = json.pointer_mut("/model/vocab")?.as_object_mut()?;
    let before = vocab.len();
    for token in &tokens {
        vocab.remove(token["content"].as_str()?);
    }
    (vocab.len() < before).then_some(json)
}

/// Refuses settings that the library is known to ignore.
fn refuse(json: &Value) -> Result<(), String> {
    if json["model"]["dropout"]
        .as_f64()
        .is_some_and(|rate| rate > 0.0)
    {
        return Err("BPE dropout makes ids a matter of chance".into());
    }
    let tokens = json["added_tokens"].as_array().into_iter().flatten();
    for token in tokens {
        if token["single_word"].as_bool() == Some(true) {
            let content = &token["content"];
            return Err(format!("added token {content} matches whole words only"));
        }
    }
    Ok(())
}

/// Keeps the library from starting threads: the caller's suffice, and a forked child
/// would wait for threads that it lacks.
///
/// It starts as many as there are processors for the thread that asks first; so that
/// one is a thread with a single processor, which ends at once.
fn stay_on_this_thread() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let asked = std::thread::Builder::new().spawn(|| {
            if take_one_processor() {
                fastokens::fanout::threads();
            }
        });
        if let Ok(thread) = asked {
            // A panic there leaves the library with its own threads, which is slower while
            // others run, and no worse.
            let _ = thread.join();
        }
    });
}

#[cfg(target_os = "linux")]
fn take_one_processor() -> bool {
    // SAFETY: sets of processors are plain bits, all zeros is an empty one; pid 0 is the
    // calling thread, and both calls get the size of what they are given.
    unsafe {
        let size = size_of::<libc::cpu_set_t>();
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size, &raw mut all) != 0 {
            return false;
        }
        let limit = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
        let Some(first) = (0..limit).find(|&cpu| libc::CPU_ISSET(cpu, &all)) else {
            return false;
        };
        let mut only_first: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first, &mut only_first);
        libc::sched_setaffinity(0, size, &raw const only_first) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn take_one_processor() -> bool {
    false
}
