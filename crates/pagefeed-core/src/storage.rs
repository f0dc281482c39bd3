//! Storage of files, and their bytes that were fetched ahead of their use.

use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;

use crate::error::{Error, Kind, Result};

/// Identifies the state of a file, at little cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Inode number.
    pub inode: u64,
    /// Time of the last change of content, permissions, owner or links, in nanoseconds.
    pub changed_ns: i64,
    /// Digest of some blocks, see [`Storage::sampled`]; 0 without one.
    pub sample: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.size(),
            modified_ns: metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec()),
            inode: metadata.ino(),
            changed_ns: metadata
                .ctime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.ctime_nsec()),
            sample: 0,
        }
    }

    /// A text that differs where [`FileId::check`] finds that the file changed. Takes a
    /// stamp with a sample, and leaves out the time that new permissions change.
    pub fn version(&self) -> String {
        let (size, modified_ns, inode) = (self.size, self.modified_ns, self.inode);
        format!("{size} {modified_ns} {inode} {:016x}", self.sample)
    }

    /// Whether a sample must say if the content changed: something did, and left size,
    /// time of modification and inode as they were.
    pub(crate) fn needs_sample(&self, now: &Self) -> bool {
        let known = |stamp: &Self| (stamp.size, stamp.modified_ns, stamp.inode);
        known(self) == known(now) && self.changed_ns != now.changed_ns
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
    /// Refuses a file whose state is now `found`.
    pub fn check(&self, now: Stamp) -> Result<()> {
        let stamp = self.stamp;
        let mut differences = Vec::new();
        if now.size != stamp.size {
            differences.push(format!("{} bytes then, {} now", stamp.size, now.size));
        }
        if now.modified_ns != stamp.modified_ns {
            differences.push(format!(
                "modified at {} ns then, at {} ns now",
                stamp.modified_ns, now.modified_ns
            ));
        }
        if now.inode != stamp.inode {
            differences.push(match self.path.contains("://") {
                true => "it has another version (ETag)".to_string(),
                false => format!("inode {} then, {} now", stamp.inode, now.inode),
            });
        }
        if stamp.needs_sample(&now) && now.sample != stamp.sample {
            differences.push("it was rewritten in place, with its old time".to_string());
        }
        if differences.is_empty() {
            return Ok(());
        }
        Err(self.stale(&format!(
            "the file changed since it was indexed ({})",
            differences.join("; ")
        )))
    }

    /// The error that it is not in that state.
    pub(crate) fn stale(&self, what: &str) -> Error {
        let message = format!("{what}; put the indexed file back or build the index again");
        Error::new(Kind::Stale, message).in_file(&self.path)
    }
}

/// Work that waits for a storage, and takes no thread meanwhile.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Files, as ranges of bytes.
///
/// Every method may block, and is called without any lock.
pub trait Storage: Send + Sync {
    /// The state of a file now.
    fn stamp(&self, path: &str) -> Result<Stamp>;

    /// Like `stamp`, with a sample of the bytes where files have no versions.
    fn sampled(&self, path: &str) -> Result<Stamp> {
        self.stamp(path)
    }

    /// Bytes of `ranges` of `file`, in their order; refuses a file that is not in the state
    /// it was indexed in ([`Kind::Stale`]). May coalesce neighbours, and send
    /// several requests at a time.
    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Bytes of one range.
    fn read(&self, file: &FileId, range: Range<u64>) -> Result<Bytes> {
        let mut all = self.read_ranges(file, std::slice::from_ref(&range))?;
        all.pop()
            .ok_or_else(|| Error::internal("a storage read nothing"))
    }

    /// Reads as many bytes as `into` holds from `offset` on. After an error `into` is
    /// without meaning.
    fn read_into(&self, file: &FileId, offset: u64, into: &mut [u8]) -> Result<()> {
        let bytes = self.read(file, offset..offset.saturating_add(into.len() as u64))?;
        into.copy_from_slice(&bytes);
        Ok(())
    }

    /// Reads ranges of several files, in parallel where reads wait.
    fn read_files<'a>(&'a self, wanted: &'a [FileRanges]) -> Waiting<'a, Result<Vec<Vec<Bytes>>>> {
        let read = |wanted: &FileRanges| self.read_ranges(&wanted.file, &wanted.ranges);
        Box::pin(async move { wanted.iter().map(read).collect() })
    }

    /// Reads several ranges of one file, given by their offsets.
    fn read_many_into(&self, file: &FileId, into: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut each = into.iter_mut();
        each.try_for_each(|(offset, into)| self.read_into(file, *offset, into))
    }

    /// Advice: the range will be read soon.
    fn will_need(&self, file: &FileId, range: Range<u64>) {
        let _ = (file, range);
    }

    /// Fetches that are best under way at a time. With 0, the thread that decodes a page
    /// reads it.
    fn num_in_flight(&self) -> usize {
        0
    }

    /// Fetches to have begun at present, `num_in_flight` at most. The storage would keep
    /// more waiting, and not in the order in which they are needed.
    fn num_wanted(&self) -> usize {
        self.num_in_flight()
    }

    /// Runs a fetch to its end on threads of the storage, if it has fetches in flight;
    /// returns at once. A fetch that cannot be run is dropped.
    fn spawn(&self, fetch: Waiting<'static, ()>) {
        drop(fetch);
    }

    /// Returns the same storage, whose calls end soon after `stop` becomes true, as
    /// [`Kind::Cancelled`]; `None` if calls never wait long.
    fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Option<Arc<dyn Storage>> {
        let _ = stop;
        None
    }

    /// Refuses the first file that is not in the state it was indexed in.
    fn check(&self, files: &[FileId]) -> Result<()> {
        files.iter().try_for_each(|file| self.check_one(file))
    }

    /// Refuses a file that is not in the state it was indexed in.
    fn check_one(&self, file: &FileId) -> Result<()> {
        let now = self.stamp(&file.path)?;
        let needs_sample = file.stamp.needs_sample(&now);
        file.check(if needs_sample {
            self.sampled(&file.path)?
        } else {
            now
        })
    }

    /// Returns the same storage for a forked child, without touching locks: threads
    /// that the child lacks may hold them.
    fn for_child(&self) -> Arc<dyn Storage>;
}

/// The ranges to read of one file, rising and with gaps between them.
#[derive(Clone, Debug)]
pub struct FileRanges {
    /// The file.
    pub file: FileId,
    /// The ranges.
    pub ranges: Vec<Range<u64>>,
}

impl FileRanges {
    /// Takes ranges in any order, and coalesces those that touch, so that each read is
    /// inside one range.
    pub fn new(file: FileId, mut ranges: Vec<Range<u64>>) -> Self {
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let coalesced = coalesce(ranges.into_iter(), 0, u64::MAX).map(|(range, _)| range);
        Self {
            file,
            ranges: coalesced.collect(),
        }
    }
}

/// Bytes of one file that were fetched ahead.
#[derive(Debug, Default)]
pub struct Fetched {
    /// Rising ranges, with their bytes.
    ranges: Vec<(Range<u64>, Bytes)>,
}

impl Fetched {
    /// Nothing fetched: everything is read when needed.
    pub const NOTHING: &'static Self = &Self { ranges: Vec::new() };

    /// Returns a storage that has these bytes, and reads others.
    pub fn over<'a>(&'a self, storage: &'a dyn Storage) -> Overlay<'a> {
        Overlay {
            fetched: self,
            storage,
        }
    }

    /// Adds bytes of the same file.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.ranges.extend(other.ranges);
        self.ranges.sort_by_key(|(range, _)| range.start);
        self
    }

    /// Adds bytes of the same file.
    pub(crate) fn add(&mut self, range: Range<u64>, bytes: Bytes) {
        let at = self
            .ranges
            .partition_point(|(earlier, _)| earlier.start <= range.start);
        self.ranges.insert(at, (range, bytes));
    }

    /// Returns the bytes of a range, if they were fetched.
    pub(crate) fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let next = self
            .ranges
            .partition_point(|(fetched, _)| fetched.start <= range.start);
        let (fetched, bytes) = self.ranges.get(next.checked_sub(1)?)?;
        let begin = usize::try_from(range.start - fetched.start).ok()?;
        let end = usize::try_from(range.end.checked_sub(fetched.start)?).ok()?;
        (begin <= end && end <= bytes.len()).then(|| bytes.slice(begin..end))
    }
}

/// Fetches the wanted ranges; the storage gets all ranges of one file together.
pub async fn fetch(storage: &dyn Storage, wanted: &[FileRanges]) -> Result<Vec<Fetched>> {
    let together = |of_file: &[FileRanges]| FileRanges {
        file: of_file[0].file.clone(),
        ranges: of_file
            .iter()
            .flat_map(|file_ranges| file_ranges.ranges.clone())
            .collect(),
    };
    let files = wanted.chunk_by(|this, next| this.file.path == next.file.path);
    let files: Vec<FileRanges> = files.map(together).collect();
    let mut bytes = storage.read_files(&files).await?.into_iter().flatten();
    let fetched = |of_file: &FileRanges| Fetched {
        ranges: of_file.ranges.iter().cloned().zip(bytes.by_ref()).collect(),
    };
    Ok(wanted.iter().map(fetched).collect())
}

/// Bytes between two ranges that are read with them: a call of the system costs as much.
pub const GAP: u64 = 4096;

/// Coalesces rising ranges with at most `gap` bytes between them, up to `most` bytes;
/// returns the coalesced ranges, and which ranges are in each.
pub fn coalesce(
    ranges: impl Iterator<Item = Range<u64>>,
    gap: u64,
    most: u64,
) -> impl Iterator<Item = (Range<u64>, Range<usize>)> {
    let mut ranges = ranges.enumerate().peekable();
    std::iter::from_fn(move || {
        let (first, mut coalesced) = ranges.next()?;
        let mut numbers = first..first + 1;
        while let Some((_, range)) = ranges.next_if(|(_, range)| {
            range.start <= coalesced.end.saturating_add(gap)
                && range.end.max(coalesced.end) - coalesced.start <= most
        }) {
            coalesced.end = coalesced.end.max(range.end);
            numbers.end += 1;
        }
        Some((coalesced, numbers))
    })
}

/// A storage with bytes that were fetched ahead.
pub struct Overlay<'a> {
    fetched: &'a Fetched,
    storage: &'a dyn Storage,
}

impl Storage for Overlay<'_> {
    fn stamp(&self, path: &str) -> Result<Stamp> {
        self.storage.stamp(path)
    }

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = |range: &Range<u64>| self.read(file, range.clone());
        ranges.iter().map(read).collect()
    }

    fn read(&self, file: &FileId, range: Range<u64>) -> Result<Bytes> {
        match self.fetched.find(&range) {
            Some(bytes) => Ok(bytes),
            None => self.storage.read(file, range),
        }
    }

    fn read_into(&self, file: &FileId, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(into.len() as u64);
        match self.fetched.find(&range) {
            Some(bytes) => into.copy_from_slice(&bytes),
            None => self.storage.read_into(file, offset, into)?,
        }
        Ok(())
    }

    fn will_need(&self, file: &FileId, range: Range<u64>) {
        self.storage.will_need(file, range);
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        self.storage.for_child()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A file of the numbers of its bytes, and what was read of it.
    #[derive(Default)]
    struct Counting(Mutex<Vec<Vec<Range<u64>>>>);

    impl Storage for Counting {
        fn stamp(&self, _: &str) -> Result<Stamp> {
            Ok(file("a").stamp)
        }

        fn read_ranges(&self, _: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
            self.0.lock().unwrap().push(ranges.to_vec());
            let bytes = |range: &Range<u64>| range.clone().map(|byte| byte as u8).collect();
            Ok(ranges.iter().map(bytes).collect())
        }

        fn for_child(&self) -> Arc<dyn Storage> {
            Arc::new(Self::default())
        }
    }

    fn file(path: &str) -> FileId {
        FileId {
            path: path.into(),
            stamp: Stamp {
                size: 256,
                modified_ns: 0,
                inode: 0,
                changed_ns: 0,
                sample: 0,
            },
        }
    }

    #[test]
    fn ranges_that_touch_are_coalesced() {
        let ranges = FileRanges::new(file("a"), vec![30..40, 0..10, 10..20, 35..50, 5..8]);
        assert_eq!(ranges.ranges, [0..20, 30..50]);
    }

    #[test]
    fn what_was_fetched_is_not_read_again() {
        let storage = Counting::default();
        let wanted = [
            FileRanges::new(file("a"), vec![10..20, 40..60]),
            FileRanges::new(file("a"), vec![60..65, 65..70]),
            FileRanges::new(file("b"), vec![0..2, 2..5]),
        ];
        let mut fetch = pin!(fetch(&storage, &wanted));
        let polled = fetch.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(fetched) = polled.map(Result::unwrap) else {
            panic!("a storage that does not wait");
        };
        assert_eq!(storage.0.lock().unwrap().len(), 2, "one a file");
        let ahead = fetched[0].over(&storage);
        let read = |range| ahead.read(&file("a"), range).unwrap().to_vec();
        assert_eq!(read(10..20), (10..20).collect::<Vec<u8>>());
        assert_eq!(read(45..50), (45..50).collect::<Vec<u8>>());
        assert_eq!(read(60..60), Vec::<u8>::new());
        assert_eq!(storage.0.lock().unwrap().len(), 2);
        for beside in [19..21, 0..3, 59..61] {
            let before = storage.0.lock().unwrap().len();
            let bytes: Vec<u8> = beside.clone().map(|byte| byte as u8).collect();
            assert_eq!(read(beside), bytes);
            assert_eq!(storage.0.lock().unwrap().len(), before + 1);
        }
        let all = Fetched::NOTHING.over(&storage);
        assert_eq!(all.read(&file("a"), 1..3).unwrap().to_vec(), [1, 2]);
    }
}
