//! Decoded dictionaries and the like, kept inside a byte budget.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef};

use crate::decode::{OpenedRun, Tokens};
use crate::error::Result;

/// What identifies a dictionary: index, file, offset.
pub type Key = (usize, u32, u64);

/// What is kept.
pub trait Held: Clone {
    /// Memory it takes.
    fn num_bytes(&self) -> usize;
}

/// Keeps what was made; the least recently used goes first.
pub struct Cache<V> {
    capacity: usize,
    entries: Mutex<Entries<V>>,
}

/// Decoded dictionaries.
pub type DictionaryCache = Cache<Kept>;

/// Pages of columns that come with tokens, opened.
pub type OpenedCache = Cache<Arc<OpenedRun>>;

struct Entries<V> {
    by_key: HashMap<Key, Entry<V>>,
    /// What somebody fetches, to keep it.
    claimed: HashSet<Key>,
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

impl Held for Kept {
    fn num_bytes(&self) -> usize {
        self.dictionary.num_bytes()
    }
}

impl Held for Arc<OpenedRun> {
    fn num_bytes(&self) -> usize {
        OpenedRun::num_bytes(self)
    }
}

impl Held for ArrayRef {
    fn num_bytes(&self) -> usize {
        self.get_array_memory_size()
    }
}

struct Entry<V> {
    kept: V,
    last_use: u64,
}

impl<V: Held> Entries<V> {
    fn get(&mut self, key: &Key) -> Option<V> {
        self.clock += 1;
        let entry = self.by_key.get_mut(key)?;
        entry.last_use = self.clock;
        Some(entry.kept.clone())
    }

    fn insert(&mut self, key: Key, kept: V) {
        let bytes = kept.num_bytes();
        let entry = Entry {
            kept,
            last_use: self.clock,
        };
        self.bytes += bytes;
        self.claimed.remove(&key);
        if let Some(twin) = self.by_key.insert(key, entry) {
            // Two threads made the same at the same time.
            self.bytes -= twin.kept.num_bytes();
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
            self.bytes = held.map(|entry| entry.kept.num_bytes()).sum();
        }
    }
}

impl<V: Held> Cache<V> {
    /// An empty cache of at most `capacity` bytes (always at least one entry).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: Mutex::new(Entries {
                by_key: HashMap::new(),
                claimed: HashSet::new(),
                bytes: 0,
                clock: 0,
            }),
        }
    }

    /// Bytes it holds.
    pub fn num_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Whether the caller is to fetch what is for `key`: it is not there, and nobody else
    /// is at it.
    pub fn claim(&self, key: Key) -> bool {
        let mut entries = self.lock();
        !entries.by_key.contains_key(&key) && entries.claimed.insert(key)
    }

    /// Whether there is something for `key`.
    pub fn has(&self, key: &Key) -> bool {
        self.lock().by_key.contains_key(key)
    }

    /// What there is for `key`, made by `load` if it is not there.
    pub fn get_or_load(&self, key: Key, load: impl FnOnce() -> Result<V>) -> Result<V> {
        if let Some(kept) = self.lock().get(&key) {
            return Ok(kept);
        }
        // Made without the lock: other threads go on with others.
        let kept = load()?;
        let mut entries = self.lock();
        entries.insert(key, kept.clone());
        entries.shrink(self.capacity);
        Ok(kept)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries<V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_first_and_the_budget_holds() {
        let cache = DictionaryCache::new(100);
        let load = || {
            Ok(Kept {
                dictionary: Arc::new(Tokens::U16(vec![7; 10])),
                holds_ids_only: true,
            })
        };
        for offset in 0..5 {
            cache.get_or_load((0, 0, offset), load).unwrap();
        }
        cache
            .get_or_load((0, 0, 0), || panic!("still held"))
            .unwrap();
        cache.get_or_load((0, 0, 5), load).unwrap();
        assert!(cache.lock().bytes <= 100);
        cache
            .get_or_load((0, 0, 0), || panic!("used recently"))
            .unwrap();
        let mut loaded = false;
        let again = || {
            loaded = true;
            load()
        };
        cache.get_or_load((0, 0, 1), again).unwrap();
        assert!(loaded, "the oldest was dropped");
    }

    #[test]
    fn one_fetches_for_all() {
        let cache = DictionaryCache::new(100);
        let key = (0, 0, 7);
        assert!(cache.claim(key) && !cache.claim(key));
        let load = || {
            Ok(Kept {
                dictionary: Arc::new(Tokens::U16(vec![7; 60])),
                holds_ids_only: true,
            })
        };
        cache.get_or_load(key, load).unwrap();
        assert!(!cache.claim(key), "it is there");
        cache.get_or_load((0, 0, 8), load).unwrap();
        assert!(cache.claim(key), "it is gone");
    }
}
