//! Bytes of local files: cached descriptors, `pread`, access advice.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use bytes::Bytes;

use crate::buffers::RecycledBuffer;
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_READ_BYTES;

/// What identifies the state of a file cheaply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Inode number.
    pub inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.size(),
            modified_ns: metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec()),
            inode: metadata.ino(),
        }
    }
}

/// A file and the state it must be in.
#[derive(Clone, Debug)]
pub struct FileId {
    /// Path.
    pub path: Arc<str>,
    /// State at the time of indexing.
    pub stamp: Stamp,
}

impl FileId {
    /// Refuses a file that is now in the state `found`.
    pub fn check(&self, found: Stamp) -> Result<()> {
        let stamp = self.stamp;
        let mut differences = Vec::new();
        if found.size != stamp.size {
            differences.push(format!("{} bytes then, {} now", stamp.size, found.size));
        }
        if found.modified_ns != stamp.modified_ns {
            differences.push(format!(
                "modified at {} ns then, at {} ns now",
                stamp.modified_ns, found.modified_ns
            ));
        }
        if found.inode != stamp.inode {
            differences.push(format!("inode {} then, {} now", stamp.inode, found.inode));
        }
        if differences.is_empty() {
            return Ok(());
        }
        Err(self.stale(&format!(
            "the file changed since it was indexed ({})",
            differences.join("; ")
        )))
    }

    fn stale(&self, what: &str) -> Error {
        let message = format!("{what}; put the indexed file back or build the index again");
        Error::new(Kind::Stale, message).in_file(&self.path)
    }
}

/// Locks that guard the descriptors: threads rarely meet.
const NUM_SHARDS: usize = 16;
/// Attempts to take a lock that is only ever held for nanoseconds.
const MAX_SPINS: usize = 1000;

/// Reads byte ranges of files, keeping some descriptors open.
pub struct Store {
    shards: [Mutex<Shard>; NUM_SHARDS],
    hasher: RandomState,
    /// Descriptors each shard may keep.
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
}

impl Default for Store {
    /// Keeps at most a quarter of the descriptors the process may have, and 512.
    fn default() -> Self {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `limit` is a valid place for the result.
        let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
        let allowed = if known { limit.rlim_cur / 4 } else { 64 };
        Self::new(allowed.clamp(NUM_SHARDS as u64, 512) as usize)
    }
}

impl Store {
    /// A store that keeps at most `max_open_files` descriptors open (at least 16).
    pub fn new(max_open_files: usize) -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
            capacity: (max_open_files / NUM_SHARDS).max(1),
        }
    }

    /// The state of a file now.
    pub fn stamp(&self, path: &str) -> Result<Stamp> {
        let metadata = std::fs::metadata(path).map_err(|error| Error::from(error).in_file(path))?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() {
                io::ErrorKind::IsADirectory
            } else {
                io::ErrorKind::InvalidInput
            };
            return Err(Error::new(Kind::Io(kind), "not a regular file").in_file(path));
        }
        Ok(Stamp::of(&metadata))
    }

    /// Reads `range` of `file`; refuses a file that is not in the state it was
    /// indexed in (also when it was changed or replaced while open).
    pub fn read(&self, file: &FileId, range: Range<u64>) -> Result<Bytes> {
        let size = readable(file, &range).map_err(|error| error.in_file(&file.path))?;
        let Some(open) = self.cached(&file.path) else {
            let open = self.open(&file.path)?;
            return read_checked(&open, file, range.start, size);
        };
        match read_checked(&open, file, range.start, size) {
            // The path may lead to another file by now: the one that was indexed.
            Err(stale) if stale.kind() == Kind::Stale => {
                self.forget(&file.path);
                match self.open(&file.path) {
                    Ok(open) => read_checked(&open, file, range.start, size),
                    Err(_) => Err(stale),
                }
            }
            result => result,
        }
    }

    /// Tells the system that `range` of `file` will be read soon.
    pub fn will_need(&self, file: &FileId, range: Range<u64>) {
        let open = self
            .cached(&file.path)
            .map_or_else(|| self.open(&file.path), Ok);
        if let (Ok(open), Ok(size)) = (open, readable(file, &range)) {
            advise(&open, range.start, size, Advice::WillNeed);
        }
    }

    /// The part of the cache that knows `path`. `None` when another thread keeps it:
    /// going without costs a descriptor for a moment, whereas waiting could take
    /// forever in a process forked while a thread of its parent held the lock.
    fn shard(&self, path: &str) -> Option<MutexGuard<'_, Shard>> {
        let shard = &self.shards[self.hasher.hash_one(path) as usize % NUM_SHARDS];
        for _ in 0..MAX_SPINS {
            match shard.try_lock() {
                Ok(guard) => return Some(guard),
                // A panic elsewhere leaves the map whole.
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    fn cached(&self, path: &str) -> Option<Arc<File>> {
        let mut shard = self.shard(path)?;
        shard.clock += 1;
        let clock = shard.clock;
        let open = shard.files.get_mut(path)?;
        open.last_used = clock;
        Some(Arc::clone(&open.file))
    }

    fn forget(&self, path: &str) {
        if let Some(mut shard) = self.shard(path) {
            shard.files.remove(path);
        }
    }

    fn open(&self, path: &Arc<str>) -> Result<Arc<File>> {
        let file = File::open(&**path).map_err(|error| Error::from(error).in_file(path))?;
        advise(&file, 0, 0, Advice::Random);
        let file = Arc::new(file);
        let Some(mut shard) = self.shard(path) else {
            return Ok(file);
        };
        if shard.files.len() >= self.capacity {
            let oldest = shard.files.iter().min_by_key(|(_, open)| open.last_used);
            if let Some(oldest) = oldest.map(|(path, _)| Arc::clone(path)) {
                shard.files.remove(&oldest);
            }
        }
        shard.clock += 1;
        let last_used = shard.clock;
        let open = Open {
            file: Arc::clone(&file),
            last_used,
        };
        shard.files.insert(Arc::clone(path), open);
        Ok(file)
    }
}

/// The size of `range` if it may be read.
fn readable(file: &FileId, range: &Range<u64>) -> Result<usize> {
    let size = range.end.saturating_sub(range.start);
    if range.start > range.end || range.end > file.stamp.size {
        return Err(Error::corrupt(format!(
            "bytes {}..{} were asked for, the file has {}",
            range.start, range.end, file.stamp.size
        )));
    }
    if size > MAX_READ_BYTES as u64 {
        return Err(Error::limit(format!(
            "{size} bytes were asked for at once, the limit is {MAX_READ_BYTES}"
        )));
    }
    Ok(size as usize)
}

/// Reads, then makes sure that what was read is the file that was indexed.
fn read_checked(open: &File, file: &FileId, offset: u64, size: usize) -> Result<Bytes> {
    let bytes = read_at(open, offset, size);
    let metadata = open
        .metadata()
        .map_err(|error| Error::from(error).in_file(&file.path))?;
    file.check(Stamp::of(&metadata))?;
    if metadata.nlink() == 0 {
        return Err(file.stale("the file was deleted or replaced since it was indexed"));
    }
    let bytes = bytes.map_err(|error| error.in_file(&file.path).at_offset(offset))?;
    Ok(Bytes::from_owner(bytes))
}

fn read_at(file: &File, offset: u64, size: usize) -> Result<RecycledBuffer> {
    let mut bytes = RecycledBuffer::new(size)?;
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

#[derive(Clone, Copy)]
enum Advice {
    Random,
    WillNeed,
}

/// Advice only: a failure changes nothing.
#[cfg(target_os = "linux")]
fn advise(file: &File, offset: u64, size: usize, advice: Advice) {
    let advice = match advice {
        Advice::Random => libc::POSIX_FADV_RANDOM,
        Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
    };
    let (Ok(offset), Ok(size)) = (offset.try_into(), size.try_into()) else {
        return;
    };
    // SAFETY: a call without pointers on a descriptor that is open.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, size, advice) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &File, _: u64, _: usize, _: Advice) {}
