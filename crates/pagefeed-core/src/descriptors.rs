//! Open files, kept for their next use: a process may have a limited number, for any
//! number of datasets.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use crate::sync::{Mutex, MutexGuard, TryLockError};

/// Locks that guard the descriptors: threads rarely meet.
const NUM_SHARDS: usize = 16;
/// Attempts to take a lock that is held for nanoseconds only.
const MAX_SPINS: usize = 1000;
/// More are not kept, even if the process may have them.
const MOST_KEPT: u64 = 512;

/// Open files by path; the ones used longest ago are closed first.
pub(crate) struct Descriptors {
    shards: [Mutex<Shard>; NUM_SHARDS],
    hasher: RandomState,
    /// Descriptors that a shard may keep open.
    capacity: usize,
}

#[derive(Default)]
struct Shard {
    files: HashMap<Arc<str>, Open>,
    clock: u64,
}

struct Open {
    file: Arc<File>,
    last_used: u64,
    /// The store that opened it last.
    store: u64,
}

impl Descriptors {
    /// Returns the cache that all stores share: a quarter of the descriptors of the
    /// process, at most 512.
    pub(crate) fn of_process() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Descriptors>> = LazyLock::new(|| {
            let allowed = process_limit().map_or(64, |limit| limit / 4);
            let capacity = allowed.clamp(NUM_SHARDS as u64, MOST_KEPT);
            Arc::new(Descriptors::new(capacity as usize))
        });
        Arc::clone(&SHARED)
    }

    /// Keeps at most `most` descriptors, but at least one for each of 16 locks.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            capacity: (most / NUM_SHARDS).max(1),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<File>> {
        let mut shard = self.shard(path)?;
        shard.clock += 1;
        let clock = shard.clock;
        let open = shard.files.get_mut(path)?;
        open.last_used = clock;
        Some(Arc::clone(&open.file))
    }

    /// Keeps a file that a store opened; the one used longest ago makes room.
    pub(crate) fn keep(&self, path: &Arc<str>, file: &Arc<File>, store: u64) {
        let Some(mut shard) = self.shard(path) else {
            return;
        };
        if shard.files.len() >= self.capacity && !shard.files.contains_key(path) {
            let oldest = shard.files.iter().min_by_key(|(_, open)| open.last_used);
            if let Some(oldest) = oldest.map(|(path, _)| Arc::clone(path)) {
                shard.files.remove(&oldest);
            }
        }
        shard.clock += 1;
        let open = Open {
            file: Arc::clone(file),
            last_used: shard.clock,
            store,
        };
        shard.files.insert(Arc::clone(path), open);
    }

    pub(crate) fn forget(&self, path: &str) {
        if let Some(mut shard) = self.shard(path) {
            shard.files.remove(path);
        }
    }

    /// Closes the files of a store that is gone.
    pub(crate) fn forget_all(&self, store: u64) {
        for shard in &self.shards {
            if let Some(mut shard) = locked(shard) {
                shard.files.retain(|_, open| open.store != store);
            }
        }
    }

    fn shard(&self, path: &str) -> Option<MutexGuard<'_, Shard>> {
        locked(&self.shards[self.hasher.hash_one(path) as usize % NUM_SHARDS])
    }
}

/// Takes a lock; `None` if another thread holds it. To do without costs a descriptor
/// for a moment, but a wait could be endless in a process forked while another thread
/// held the lock.
pub(crate) fn locked<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..MAX_SPINS {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            // A panic elsewhere leaves the map whole.
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}

/// Descriptors that this process may have open; `None` if unknown.
fn process_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the result.
    let is_set = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    is_set.then_some(limit.rlim_cur)
}
