//! Decoded dictionaries, kept inside a byte budget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::decode::Tokens;
use crate::error::Result;
use crate::pages::token_ids::TokenIds;

/// What identifies a dictionary: index, file, offset.
pub type Key = (usize, u32, u64);

/// Least recently used dictionaries are dropped first.
pub struct DictionaryCache {
    capacity: usize,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    bytes: usize,
    clock: u64,
}

/// A dictionary that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its entries.
    pub dictionary: Arc<Tokens>,
    /// Whether all of them are token ids.
    pub holds_ids_only: bool,
}

struct Entry {
    kept: Kept,
    last_use: u64,
}

impl Entries {
    fn get(&mut self, key: &Key) -> Option<Kept> {
        self.clock += 1;
        let entry = self.by_key.get_mut(key)?;
        entry.last_use = self.clock;
        Some(entry.kept.clone())
    }

    fn insert(&mut self, key: Key, kept: Kept) {
        let bytes = kept.dictionary.num_bytes();
        let entry = Entry {
            kept,
            last_use: self.clock,
        };
        self.bytes += bytes;
        if let Some(twin) = self.by_key.insert(key, entry) {
            // Two threads decoded the same dictionary at the same time.
            self.bytes -= twin.kept.dictionary.num_bytes();
        }
    }

    /// Drops the least recently used eighth, so that the search for it pays.
    fn shrink(&mut self, capacity: usize) {
        while self.bytes > capacity && self.by_key.len() > 1 {
            let mut uses: Vec<u64> = self.by_key.values().map(|e| e.last_use).collect();
            let victims = uses.len().div_ceil(8);
            let (_, threshold, _) = uses.select_nth_unstable(victims - 1);
            let threshold = *threshold;
            self.by_key.retain(|_, entry| entry.last_use > threshold);
            let held = self.by_key.values();
            self.bytes = held.map(|entry| entry.kept.dictionary.num_bytes()).sum();
        }
    }
}

impl DictionaryCache {
    /// An empty cache of at most `capacity` bytes (always at least one entry).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: Mutex::default(),
        }
    }

    /// Bytes it holds.
    pub fn num_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Whether the dictionary for `key` is there.
    pub fn has(&self, key: &Key) -> bool {
        self.lock().by_key.contains_key(key)
    }

    /// The dictionary for `key`, decoded by `load` if it is not there, and held against
    /// `token_ids` once.
    pub fn get_or_load(
        &self,
        key: Key,
        token_ids: Option<TokenIds>,
        load: impl FnOnce() -> Result<Tokens>,
    ) -> Result<Kept> {
        if let Some(kept) = self.lock().get(&key) {
            return Ok(kept);
        }
        // Loaded without the lock: other threads go on with other dictionaries.
        let dictionary = Arc::new(load()?);
        let kept = Kept {
            holds_ids_only: token_ids.is_none_or(|ids| ids.hold(&dictionary)),
            dictionary,
        };
        let mut entries = self.lock();
        entries.insert(key, kept.clone());
        entries.shrink(self.capacity);
        Ok(kept)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_first_and_the_budget_holds() {
        let cache = DictionaryCache::new(100);
        let load = || Ok(Tokens::U16(vec![7; 10]));
        for offset in 0..5 {
            cache.get_or_load((0, 0, offset), None, load).unwrap();
        }
        cache
            .get_or_load((0, 0, 0), None, || panic!("still held"))
            .unwrap();
        cache.get_or_load((0, 0, 5), None, load).unwrap();
        assert!(cache.lock().bytes <= 100);
        cache
            .get_or_load((0, 0, 0), None, || panic!("used recently"))
            .unwrap();
        let mut loaded = false;
        let again = || {
            loaded = true;
            load()
        };
        cache.get_or_load((0, 0, 1), None, again).unwrap();
        assert!(loaded, "the oldest was dropped");
    }
}
