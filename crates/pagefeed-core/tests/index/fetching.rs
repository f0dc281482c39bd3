//! A fetch brings all that decoding takes.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use bytes::Bytes;
use pagefeed_core::Result;
use pagefeed_core::engine::PageSource;
use pagefeed_core::error::{Error, Kind};
use pagefeed_core::index::{Indexed, Lacking};
use pagefeed_core::page::PageOpener;
use pagefeed_core::pages::dictionaries::DictionaryCache;
use pagefeed_core::pages::token_column::TokenColumn;
use pagefeed_core::storage::{Fetched, FileId, Stamp, Storage};
use pagefeed_core::store::Store;
use parquet::file::properties::WriterVersion;

use crate::common::{Folder, build_with, write};

/// A storage that answers late; of the first dictionary that is asked for, last.
struct Late {
    local: Store,
    dictionary: Range<u64>,
    num_reads: AtomicUsize,
    num_dictionaries: AtomicUsize,
    /// Whether the first read of the dictionary fails.
    fails: AtomicBool,
}

impl Storage for Late {
    fn stamp(&self, path: &str) -> Result<Stamp> {
        self.local.stamp(path)
    }

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.num_reads.fetch_add(1, Ordering::Relaxed);
        let is_dictionary = |range: &Range<u64>| range.start <= self.dictionary.start;
        if ranges.iter().any(is_dictionary) {
            self.num_dictionaries.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(200));
            if self.fails.swap(false, Ordering::Relaxed) {
                return Err(Error::new(Kind::Cancelled, "not this time"));
            }
        }
        self.local.read_ranges(file, ranges)
    }

    fn num_in_flight(&self) -> usize {
        4
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        self.local.for_child()
    }
}

/// Rows of 0 to 40 tokens, of which few differ.
fn tokens(count: usize) -> RecordBatch {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..count {
        let values = (0..row * 7 % 41).map(|position| Some((row * 31 % 97 + position) as i32));
        lists.append_value(values);
    }
    RecordBatch::try_from_iter([("tokens", Arc::new(lists.finish()) as ArrayRef)]).unwrap()
}

/// Pages of one chunk, and the storage that they lie in.
fn column(folder: &Folder, fails: bool) -> (TokenColumn, Arc<Late>) {
    let path = folder.0.join("tokens.parquet");
    write(
        &path,
        &tokens(1000),
        WriterVersion::PARQUET_1_0,
        true,
        false,
    );
    let path = path.to_str().unwrap().to_string();
    let index = Arc::new(build_with(&[path], "tokens", true).unwrap());
    let storage = Arc::new(Late {
        local: Store::new(8),
        dictionary: index.page(0).unwrap().dictionary.unwrap(),
        num_reads: AtomicUsize::new(0),
        num_dictionaries: AtomicUsize::new(0),
        fails: AtomicBool::new(fails),
    });
    let indexed = Indexed {
        lacking: Lacking::default(),
        index,
        storage: Arc::clone(&storage) as Arc<dyn Storage>,
        verify_checksums: true,
    };
    let dictionaries = Arc::new(DictionaryCache::new(1 << 20));
    let column = TokenColumn::new(indexed, &dictionaries, None).unwrap();
    (column, storage)
}

/// Fetches pages, on a thread that waits for them.
fn fetch(column: &TokenColumn, pages: &[u64]) -> Result<Vec<Fetched>> {
    struct Waits(Thread);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Waits(std::thread::current())));
    let mut fetch = column.fetch(pages);
    loop {
        match fetch.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(fetched) => return fetched,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn decoding_reads_nothing_that_another_fetch_brings() {
    let folder = Folder::new("fetching");
    let (column, storage) = column(&folder, false);
    let together = Barrier::new(4);
    let fetch = |pages: &[u64]| {
        together.wait();
        fetch(&column, pages).unwrap()
    };
    let fetched: Vec<_> = std::thread::scope(|scope| {
        let spawn = |pages: &'static [u64]| scope.spawn(|| fetch(pages));
        let each = [&[0][..], &[1, 2], &[3], &[4]].map(spawn);
        each.into_iter()
            .flat_map(|one| one.join().unwrap())
            .collect()
    });
    let reads = storage.num_reads.load(Ordering::Relaxed);
    let mut opener = PageOpener::default();
    // Backwards: no page depends on which was decoded before.
    for (page, fetched) in fetched.iter().enumerate().rev() {
        let page = page as u64;
        column.read(&mut opener, page, fetched).unwrap();
    }
    assert_eq!(storage.num_reads.load(Ordering::Relaxed), reads);
    assert_eq!(storage.num_dictionaries.load(Ordering::Relaxed), 1);
}

#[test]
fn a_fetch_that_fails_leaves_others_to_themselves() {
    let folder = Folder::new("fetching-fails");
    let (column, storage) = column(&folder, true);
    let mut opener = PageOpener::default();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| fetch(&column, &[0]).map(drop));
        std::thread::sleep(Duration::from_millis(50));
        let others = fetch(&column, &[1]).unwrap();
        assert!(first.join().unwrap().is_err());
        column.read(&mut opener, 1, &others[0]).unwrap();
    });
    let again = fetch(&column, &[0]).unwrap();
    column.read(&mut opener, 0, &again[0]).unwrap();
    assert_eq!(storage.num_dictionaries.load(Ordering::Relaxed), 2);
}
