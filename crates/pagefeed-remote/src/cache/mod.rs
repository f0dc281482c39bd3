//! Cache of fetched ranges, in a folder that the processes of a machine share.
//!
//! Every range is a separate file, written under another name and renamed, named by its
//! age, begin and size, in a folder for the object and its version. So there are no
//! locks: a process that is killed leaves a draft, and a range that another one removed
//! or damaged is fetched again. Nothing that goes wrong here is an error of a read.

mod room;
mod segment;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use pagefeed_core::error::{Error, Result};

use crate::counters::{Counters, add};
use room::{Name, make_room};
use segment::Segment;

/// Folder of the files inside the named one; changes with their format.
const FOLDER: &str = "pages-1";
/// Files of an object that others wrote are looked for this often.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Pause after a failed write, in which nothing is written.
const REST: Duration = Duration::from_secs(30);
/// Room is made each time one of this many equal shares of the limit was written.
const WRITTEN_DIVISOR: u64 = 256;
/// Segments before a position that are searched for one that holds it.
const NEIGHBOURS: usize = 4;

/// The cache of a process.
pub(crate) struct PageCache {
    folder: PathBuf,
    capacity: u64,
    counters: Arc<Counters>,
    state: Mutex<State>,
    num_drafts: AtomicU64,
}

#[derive(Default)]
struct State {
    objects: HashMap<u64, Object>,
    /// Bytes written since room was last made; `None` if it never was.
    written: Option<u64>,
    /// Bytes of the files that this process writes now.
    under_way: u64,
    resting_until: Option<Instant>,
}

/// Facts about the cached files of one version of an object.
struct Object {
    looked: Instant,
    /// By their begin: size and age.
    segments: BTreeMap<u64, (u64, u64)>,
}

/// Cached bytes of some ranges, and what is missing.
pub(crate) struct Cached {
    pub(crate) found: Vec<(Range<u64>, Bytes)>,
    pub(crate) missing: Vec<Range<u64>>,
}

impl PageCache {
    /// A cache of at most `capacity` bytes below a folder, which is made.
    pub(crate) fn new(folder: &str, capacity: u64, counters: Arc<Counters>) -> Result<Self> {
        let folder = Path::new(folder).join(FOLDER);
        make_folder(&folder).map_err(|error| {
            Error::invalid(format!(
                "storage_cache_dir: {} cannot be made: {error}",
                folder.display()
            ))
        })?;
        Ok(Self {
            folder,
            capacity,
            counters,
            state: Mutex::default(),
            num_drafts: AtomicU64::default(),
        })
    }

    /// Returns the cached bytes of `ranges` of one version of an object.
    pub(crate) fn find(&self, object: u64, ranges: &[Range<u64>]) -> Cached {
        let mut cached = Cached {
            found: Vec::new(),
            missing: Vec::new(),
        };
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let (end, bytes) = self.find_at(object, at, range.end);
                match bytes {
                    Some(bytes) => {
                        add(&self.counters.cache_hits, 1);
                        add(&self.counters.cache_bytes, end - at);
                        cached.found.push((at..end, bytes));
                    }
                    None => cached.missing.push(at..end),
                }
                at = end;
            }
        }
        cached
    }

    /// Returns bytes from a position to their end, or the end of a gap without bytes.
    fn find_at(&self, object: u64, at: u64, end: u64) -> (u64, Option<Bytes>) {
        loop {
            let Some((segment, name)) = self.segment_at(object, at) else {
                let next = self.next_after(object, at).unwrap_or(end);
                return (next.min(end), None);
            };
            let path = self.folder_of(object).join(name.to_string());
            let end = end.min(segment.end());
            if let Some(bytes) = segment.read(&path, &(at..end)) {
                return (end, Some(bytes));
            }
            // Removed to make room, or damaged: another will be written.
            if fs::remove_file(&path).is_ok() {
                add(&self.counters.cache_failures, 1);
            }
            if let Some(entry) = self.lock().objects.get_mut(&object) {
                entry.segments.remove(&segment.start);
            }
        }
    }

    fn segment_at(&self, object: u64, at: u64) -> Option<(Segment, Name)> {
        self.look(object);
        let state = self.lock();
        let segments = &state.objects.get(&object)?.segments;
        let mut before = segments.range(..=at).rev().take(NEIGHBOURS);
        let (&start, &(size, age)) = before.find(|(start, (size, _))| *start + size > at)?;
        let segment = Segment {
            object,
            start,
            size,
        };
        Some((segment, Name { age, start, size }))
    }

    fn next_after(&self, object: u64, at: u64) -> Option<u64> {
        let state = self.lock();
        let segments = &state.objects.get(&object)?.segments;
        segments.range(at + 1..).next().map(|(start, _)| *start)
    }

    /// Lists the cached files of an object, from time to time.
    fn look(&self, object: u64) {
        let entry = self.lock().objects.get(&object).map(|entry| entry.looked);
        if entry.is_some_and(|looked| looked.elapsed() < LOOK_AGAIN) {
            return;
        }
        let mut segments = BTreeMap::new();
        for name in room::names(&self.folder_of(object)) {
            let longest = segments.entry(name.start).or_insert((0, 0));
            *longest = (name.size, name.age).max(*longest);
        }
        let looked = Instant::now();
        let mut state = self.lock();
        state.objects.insert(object, Object { looked, segments });
    }

    /// Keeps bytes of an object from `start` on.
    pub(crate) fn store(&self, object: u64, start: u64, bytes: &Bytes) {
        let size = bytes.len() as u64;
        if size == 0 || size > self.capacity / 8 || self.is_resting() {
            return;
        }
        let on_disk = segment::bytes_on_disk(size);
        self.make_room(on_disk);
        let age = since_1970();
        let name = Name { age, start, size };
        let written = self.write(object, &name, bytes);
        self.lock().under_way -= on_disk;
        match written {
            Ok(()) => {
                if let Some(entry) = self.lock().objects.get_mut(&object) {
                    entry.segments.insert(start, (size, age));
                }
            }
            Err(_) => {
                add(&self.counters.cache_failures, 1);
                self.lock().resting_until = Some(Instant::now() + REST);
            }
        }
    }

    fn write(&self, object: u64, name: &Name, bytes: &[u8]) -> io::Result<()> {
        let folder = self.folder_of(object);
        let draft_number = self.num_drafts.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!(".{}-{draft_number}.draft", std::process::id()));
        let segment = Segment {
            object,
            start: name.start,
            size: name.size,
        };
        make_folder(&folder)?;
        let written = segment.write(&draft, &folder.join(name.to_string()), bytes);
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    /// Makes room for a file of `size` bytes that will be written.
    fn make_room(&self, size: u64) {
        let mut state = self.lock();
        state.under_way += size;
        let coming = state.under_way;
        let written = state.written.map(|written| written + size);
        state.written = Some(written.unwrap_or(0));
        if written.is_some_and(|written| written < self.capacity / WRITTEN_DIVISOR) {
            return;
        }
        state.written = Some(0);
        drop(state);
        make_room(&self.folder, self.capacity, coming);
    }

    fn is_resting(&self) -> bool {
        let until = self.lock().resting_until;
        until.is_some_and(|until| Instant::now() < until)
    }

    fn folder_of(&self, object: u64) -> PathBuf {
        self.folder.join(format!("{object:016x}"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a folder that only its owner can read, since data may be private.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Milliseconds.
fn since_1970() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

#[cfg(test)]
mod tests;
