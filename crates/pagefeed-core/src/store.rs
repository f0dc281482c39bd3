//! Bytes of local files: `pread` on files kept open, access advice.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use twox_hash::XxHash3_128;

use crate::buffers::RecycledBuffer;
use crate::descriptors::Descriptors;
use crate::error::{Error, Kind, Result};
use crate::file_reads;
use crate::limits::MAX_READ_BYTES;
use crate::storage::{FileId, Stamp, Storage};
use crate::sync::{Instant, Mutex, PoisonError};

/// Reads byte ranges of local files, and keeps some files open.
pub struct Store {
    descriptors: Arc<Descriptors>,
    /// Number of this store in the process.
    id: u64,
    /// Whether several recent reads were so slow that they came from a disk.
    is_slow: AtomicBool,
    /// Files of which something changed that is not content, and when.
    touched: Mutex<HashMap<Arc<str>, i64>>,
}

/// Blocks of a file that tell one content from another, and their bytes: whole files of up
/// to 64 KiB.
const SAMPLED: (u64, u64) = (16, 4096);

/// The error of a missing file.
const GONE: &str = "it does not exist any more: put it back, or name the files there are";

/// The kind of a failed read if a network file system forgot an open file.
const STALE_HANDLE: Kind = Kind::Io(io::ErrorKind::StaleNetworkFileHandle);

/// A read that takes longer than this did not come from memory.
const SLOW: Duration = Duration::from_micros(30);

impl Default for Store {
    /// Returns a store that shares open descriptors with others of the process.
    fn default() -> Self {
        Self::over(Descriptors::of_process())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.descriptors.forget_all(self.id);
    }
}

impl Store {
    /// Returns a store that keeps at most `max_open_files` descriptors open (at least
    /// 16).
    pub fn new(max_open_files: usize) -> Self {
        Self::over(Arc::new(Descriptors::new(max_open_files)))
    }

    fn over(descriptors: Arc<Descriptors>) -> Self {
        static NUM_STORES: AtomicU64 = AtomicU64::new(0);
        let id = NUM_STORES.fetch_add(1, Ordering::Relaxed);
        Self {
            descriptors,
            id,
            is_slow: AtomicBool::new(false),
            touched: Mutex::default(),
        }
    }

    fn open(&self, path: &Arc<str>) -> Result<Arc<File>> {
        let file = File::open(&**path).map_err(|error| Error::from(error).in_file(path))?;
        advise(&file, 0, 0, Advice::Random);
        let file = Arc::new(file);
        self.descriptors.keep(path, &file, self.id);
        Ok(file)
    }

    /// Reads, then checks that the file is still the one that was indexed.
    fn read_checked(
        &self,
        open: &File,
        file: &FileId,
        ranges: &mut [(u64, &mut [u8])],
    ) -> Result<()> {
        let are_many = ranges.len() > 1;
        if are_many && self.is_slow.load(Ordering::Relaxed) {
            // All of them at a time: the system reads what it has not got.
            for (offset, into) in ranges.iter() {
                advise(open, *offset, into.len(), Advice::WillNeed);
            }
        }
        let begin = Instant::now();
        let count = ranges.len() as u32;
        let result = ranges.iter_mut().try_for_each(|(offset, into)| {
            let located = |error| Error::from(error).in_file(&file.path).at_offset(*offset);
            open.read_exact_at(into, *offset).map_err(located)
        });
        if are_many {
            let is_slow = begin.elapsed() > SLOW * count;
            self.is_slow.store(is_slow, Ordering::Relaxed);
        }
        let metadata = open
            .metadata()
            .map_err(|error| Error::from(error).in_file(&file.path))?;
        let mut now = Stamp::of(&metadata);
        if file.stamp.needs_sample(&now) {
            self.compare(open, file, &mut now)?;
        }
        file.check(now)?;
        if metadata.nlink() == 0 {
            return Err(file.stale("the file was deleted or replaced since it was indexed"));
        }
        result
    }
}

impl Store {
    /// Samples a file once after each change of its state.
    fn compare(&self, open: &File, file: &FileId, now: &mut Stamp) -> Result<()> {
        let touched = || self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        if touched().get(&file.path) == Some(&now.changed_ns) {
            now.sample = file.stamp.sample;
            return Ok(());
        }
        now.sample = sample(open, now.size).map_err(|error| error.in_file(&file.path))?;
        if now.sample == file.stamp.sample {
            touched().insert(Arc::clone(&file.path), now.changed_ns);
        }
        Ok(())
    }
}

/// Digest of blocks that lie evenly in a file.
fn sample(open: &File, size: u64) -> Result<u64> {
    let (blocks, length) = SAMPLED;
    let mut hasher = XxHash3_128::new();
    for begin in (0..size).step_by((size / blocks).max(length) as usize) {
        let mut block = [0; SAMPLED.1 as usize];
        let block = &mut block[..length.min(size - begin) as usize];
        open.read_exact_at(block, begin)?;
        hasher.write(block);
    }
    Ok(hasher.finish_128() as u64)
}

impl Storage for Store {
    fn sampled(&self, path: &str) -> Result<Stamp> {
        let stamp = self.stamp(path)?;
        let sampled = File::open(path).map_err(Error::from);
        let sampled = sampled.and_then(|open| sample(&open, stamp.size));
        let sample = sampled.map_err(|error| error.in_file(path))?;
        Ok(Stamp { sample, ..stamp })
    }

    fn stamp(&self, path: &str) -> Result<Stamp> {
        let metadata = std::fs::metadata(path).map_err(|error| {
            let error = match Kind::Io(error.kind()) {
                gone @ Kind::Io(io::ErrorKind::NotFound) => Error::new(gone, GONE),
                _ => Error::from(error),
            };
            error.in_file(path)
        })?;
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

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = |range: &Range<u64>| self.read(file, range.clone());
        ranges.iter().map(read).collect()
    }

    /// Also refuses a file that was changed or replaced while open.
    fn read(&self, file: &FileId, range: Range<u64>) -> Result<Bytes> {
        let located = |error: Error| error.in_file(&file.path).at_offset(range.start);
        let size = readable(file, &range).map_err(|error| error.in_file(&file.path))?;
        let mut bytes = RecycledBuffer::new(size).map_err(located)?;
        self.read_into(file, range.start, &mut bytes)?;
        Ok(Bytes::from_owner(bytes))
    }

    fn read_into(&self, file: &FileId, offset: u64, into: &mut [u8]) -> Result<()> {
        self.read_many_into(file, &mut [(offset, into)])
    }

    /// Reads each range with one system call, then checks once that the file is the one
    /// indexed.
    fn read_many_into(&self, file: &FileId, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        for (offset, into) in ranges.iter() {
            let range = *offset..offset.saturating_add(into.len() as u64);
            readable(file, &range).map_err(|error| error.in_file(&file.path))?;
        }
        let begin = file_reads::are_counted().then(Instant::now);
        let kept = self.descriptors.get(&file.path);
        let was_open = kept.is_some();
        let open = kept.map_or_else(|| self.open(&file.path), Ok)?;
        let result = match self.read_checked(&open, file, ranges) {
            // The path may lead to another file by now: the one that was indexed. A file
            // server that was restarted does not know what was open.
            Err(stale)
                if stale.kind() == STALE_HANDLE || (was_open && stale.kind() == Kind::Stale) =>
            {
                self.descriptors.forget(&file.path);
                match self.open(&file.path) {
                    Ok(open) => self.read_checked(&open, file, ranges),
                    Err(_) => Err(stale),
                }
            }
            result => result,
        };
        if let Some(begin) = begin {
            let bytes = ranges.iter().map(|(_, into)| into.len() as u64).sum();
            file_reads::count(&file.path, ranges.len(), bytes, begin.elapsed());
        }
        result
    }

    fn will_need(&self, file: &FileId, range: Range<u64>) {
        let open = self
            .descriptors
            .get(&file.path)
            .map_or_else(|| self.open(&file.path), Ok);
        if let (Ok(open), Ok(size)) = (open, readable(file, &range)) {
            advise(&open, range.start, size, Advice::WillNeed);
        }
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        Arc::new(Self::default())
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

#[derive(Clone, Copy)]
enum Advice {
    Random,
    WillNeed,
}

/// Advice only: a failure changes nothing.
#[cfg(target_os = "linux")]
fn advise(file: &File, offset: u64, size: usize, advice: Advice) {
    use std::os::fd::AsRawFd;

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
