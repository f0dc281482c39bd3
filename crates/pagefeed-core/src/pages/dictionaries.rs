//! Decoded dictionaries and the like, kept inside a byte budget.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::error::Result;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::tokens::Dictionary;

/// Identity of a dictionary: index, file, offset.
pub type Key = (usize, u32, u64);

/// Values that a [`Cache`] keeps.
pub trait Cached: Clone {
    /// Memory it takes.
    fn num_bytes(&self) -> usize;
}

/// Keeps values, and drops the least recently used ones first.
pub struct Cache<V> {
    capacity: usize,
    entries: Mutex<Entries<V>>,
    /// Bytes of the kept values, for readers that do not take the lock.
    num_bytes: AtomicUsize,
}

/// Decoded dictionaries.
pub type DictionaryCache = Cache<KeptDictionary>;

/// Says who fetches a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// None: it is kept.
    Nobody,
    /// The caller.
    Caller,
    /// Another, which is fetching it or has fetched it.
    Another,
}

struct Entries<V> {
    by_key: HashMap<Key, Entry<V>>,
    /// Values that somebody fetches for all, and their bytes until they are decoded.
    claimed: HashMap<Key, Option<Bytes>>,
    /// Bytes of kept values.
    bytes: usize,
    /// Bytes of claimed values that arrived.
    claimed_bytes: usize,
    clock: u64,
    /// Fetches that wait for claimed values.
    waiting: Vec<Waker>,
}

/// A dictionary that is kept.
#[derive(Clone, Debug)]
pub struct KeptDictionary {
    /// Entries of the dictionary.
    pub dictionary: Arc<Dictionary>,
    /// Whether all entries are token ids.
    pub holds_ids_only: bool,
}

impl Cached for KeptDictionary {
    fn num_bytes(&self) -> usize {
        self.dictionary.num_bytes()
    }
}

struct Entry<V> {
    kept: V,
    last_use: u64,
}

impl<V: Cached> Entries<V> {
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
        self.give_up(&key);
        if let Some(twin) = self.by_key.insert(key, entry) {
            // Two threads made the same value at the same time.
            self.bytes -= twin.kept.num_bytes();
        }
    }

    /// Drops the claim of `key`, and what was fetched for it.
    fn give_up(&mut self, key: &Key) {
        let came = self.claimed.remove(key).flatten();
        self.claimed_bytes -= came.map_or(0, |came| came.len());
    }

    /// Drops fetched bytes except those for `key`. After a seek, no thread would ask for
    /// them. A thread that waits for them reads them again.
    fn forget_others(&mut self, key: &Key) {
        self.claimed
            .retain(|other, came| came.is_none() || other == key);
        self.claimed_bytes = self.claimed.values().flatten().map(Bytes::len).sum();
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

impl<V: Cached> Cache<V> {
    /// An empty cache of at most `capacity` bytes (always at least one entry).
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: Mutex::new(Entries {
                by_key: HashMap::new(),
                claimed: HashMap::new(),
                bytes: 0,
                claimed_bytes: 0,
                clock: 0,
                waiting: Vec::new(),
            }),
            num_bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes of the kept values. Never waits for the lock.
    pub fn num_bytes(&self) -> usize {
        self.num_bytes.load(Ordering::Relaxed)
    }

    /// Call after every change: counts what is held, and wakes those who wait for it.
    fn release(&self, mut entries: MutexGuard<'_, Entries<V>>) {
        let num_bytes = entries.bytes + entries.claimed_bytes;
        self.num_bytes.store(num_bytes, Ordering::Relaxed);
        let waiting = std::mem::take(&mut entries.waiting);
        drop(entries);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns who fetches the value of `key`. A caller that does must call
    /// [`Cache::settle`].
    pub fn claim(&self, key: Key) -> Claim {
        let mut entries = self.lock();
        if entries.by_key.contains_key(&key) {
            return Claim::Nobody;
        }
        if entries.claimed.contains_key(&key) {
            return Claim::Another;
        }
        entries.claimed.insert(key, None);
        Claim::Caller
    }

    /// Gives a claimed value to all who wait for it. Without bytes, since they could
    /// not be fetched, each reads it itself.
    pub fn settle(&self, key: Key, bytes: Option<Bytes>) {
        let mut entries = self.lock();
        // It may have been made meanwhile.
        if entries.claimed.contains_key(&key) {
            entries.give_up(&key);
            if let Some(came) = bytes {
                entries.claimed_bytes += came.len();
                entries.claimed.insert(key, Some(came));
            }
            if entries.claimed_bytes > self.capacity {
                entries.forget_others(&key);
            }
        }
        self.release(entries);
    }

    /// Waits for another fetch of `key`; `None` if the value is kept by now, could not be
    /// fetched, or was dropped.
    pub async fn wait(&self, key: &Key) -> Option<Bytes> {
        let came = |context: &mut Context<'_>| {
            let mut entries = self.lock();
            match entries.claimed.get(key) {
                Some(None) => {
                    entries.waiting.push(context.waker().clone());
                    Poll::Pending
                }
                came => Poll::Ready(came.cloned().flatten()),
            }
        };
        poll_fn(came).await
    }

    /// Whether there is a value for `key`.
    pub fn has(&self, key: &Key) -> bool {
        self.lock().by_key.contains_key(key)
    }

    /// Returns the value of `key`; makes it with `load` if there is none.
    pub fn get_or_load(&self, key: Key, load: impl FnOnce() -> Result<V>) -> Result<V> {
        if let Some(kept) = self.lock().get(&key) {
            return Ok(kept);
        }
        // Made without the lock: other threads continue with other dictionaries.
        let made = load();
        let mut entries = self.lock();
        match &made {
            Ok(kept) => {
                entries.insert(key, kept.clone());
                entries.shrink(self.capacity);
            }
            // Another attempt fetches it again.
            Err(_) => entries.give_up(&key),
        }
        self.release(entries);
        made
    }

    /// Bytes it holds, summed: for simulations.
    #[cfg(any(test, feature = "simulate"))]
    pub fn summed_bytes(&self) -> usize {
        let entries = self.lock();
        let kept = entries.by_key.values().map(|entry| entry.kept.num_bytes());
        let came = entries.claimed.values().flatten().map(Bytes::len);
        kept.sum::<usize>() + came.sum::<usize>()
    }

    fn lock(&self) -> MutexGuard<'_, Entries<V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::error::Error;
    use crate::tokens::Tokens;

    /// Returns the bytes of a value that others fetch; `None` if it is on its way.
    fn came(cache: &DictionaryCache, key: &Key) -> Option<Option<Bytes>> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(cache.wait(key)).as_mut().poll(&mut context) {
            Poll::Ready(came) => Some(came),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_least_recently_used_go_first_and_the_budget_holds() {
        let cache = DictionaryCache::new(100);
        let load = || {
            Ok(KeptDictionary {
                dictionary: Arc::new(Dictionary::new(Tokens::U16(vec![7; 10]))),
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
        assert!(cache.num_bytes() <= 100);
        assert_eq!(cache.num_bytes(), cache.summed_bytes());
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
        assert_eq!(cache.claim(key), Claim::Caller);
        assert_eq!(cache.claim(key), Claim::Another);
        let load = || {
            Ok(KeptDictionary {
                dictionary: Arc::new(Dictionary::new(Tokens::U16(vec![7; 60]))),
                holds_ids_only: true,
            })
        };
        cache.get_or_load(key, load).unwrap();
        assert_eq!(cache.claim(key), Claim::Nobody, "it is there");
        assert_eq!(came(&cache, &key), Some(None), "nothing is to come");
        cache.get_or_load((0, 0, 8), load).unwrap();
        assert_eq!(cache.claim(key), Claim::Caller, "it is gone");
    }

    #[test]
    fn what_came_and_is_asked_for_no_more_is_bounded() {
        let cache = DictionaryCache::new(100);
        for offset in 0..9 {
            assert_eq!(cache.claim((0, 0, offset)), Claim::Caller);
        }
        for offset in 0..8 {
            cache.settle((0, 0, offset), Some(Bytes::from_static(&[0; 40])));
            assert!(cache.num_bytes() <= 100);
            assert_eq!(cache.num_bytes(), cache.summed_bytes());
        }
        let last = came(&cache, &(0, 0, 7));
        assert!(last.flatten().is_some(), "the last is there");
        assert_eq!(came(&cache, &(0, 0, 0)), Some(None));
        assert_eq!(cache.claim((0, 0, 0)), Claim::Caller, "anew");
        assert_eq!(cache.claim((0, 0, 8)), Claim::Another, "on its way");
    }

    #[test]
    fn others_wait_for_what_one_fetches() {
        let cache = DictionaryCache::new(100);
        let key = (0, 0, 7);
        for bytes in [Some(Bytes::from_static(b"seven")), None] {
            assert_eq!(cache.claim(key), Claim::Caller);
            assert_eq!(came(&cache, &key), None, "it is on its way");
            cache.settle(key, bytes.clone());
            assert_eq!(came(&cache, &key), Some(bytes.clone()));
            assert_eq!(cache.num_bytes(), bytes.map_or(0, |bytes| bytes.len()));
            // A dictionary that cannot be decoded is fetched again.
            let failed = cache.get_or_load(key, || Err(Error::corrupt("bad")));
            assert!(failed.is_err());
            assert_eq!(cache.num_bytes(), 0);
        }
        cache.settle(key, Some(Bytes::from_static(b"late")));
        assert_eq!(cache.num_bytes(), 0, "no thread claimed it");
    }
}
