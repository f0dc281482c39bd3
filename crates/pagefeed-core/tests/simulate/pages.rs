//! Pages made of their numbers, and what befalls those who read them.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use pagefeed_core::engine::{Engine, Loading, Page, PageEntry, PageSlice, PageSource, SliceReads};
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::storage::{Fetched, Waiting};
use pagefeed_core::sync::simulated::{self, Random, sleep};
use pagefeed_core::sync::thread::{Builder, JoinHandle};
use pagefeed_core::sync::{Condvar, Mutex, PoisonError};
use pagefeed_core::tokens::{TokenPage, Tokens};

/// Fault of a page whenever it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The storage refuses it.
    Refused,
    /// It fails its checksum.
    Damaged,
    /// It holds fewer tokens than it should.
    Short,
    /// Its file is another by now.
    Changed,
    /// A thread that reads it panics.
    Panics,
    /// The storage never answers.
    Never,
    /// A fetch panics.
    Breaks,
    /// A fetch is dropped before it has an answer.
    Lost,
}

impl Fault {
    fn is_of_storage(self) -> bool {
        !matches!(self, Self::Damaged | Self::Short | Self::Panics)
    }
}

/// A fault, and how often it is met.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub fault: Fault,
    pub times: usize,
}

/// Numbers of the tokens of a page; a page has three rows, of which one is empty.
pub fn num_tokens(page: u64) -> u64 {
    9 + page.wrapping_mul(37) % 23
}

pub fn token(page: u64, position: u64) -> u16 {
    (page.wrapping_mul(131) + position * 7) as u16
}

/// Tokens at which rows of a page begin.
pub fn row_offsets(page: u64) -> [u32; 4] {
    let first = 3 + (page.wrapping_mul(13) % 5) as u32;
    [0, first, first, num_tokens(page) as u32]
}

/// A source of made pages.
pub struct Made {
    pub in_flight: usize,
    /// Consecutive pages of a file.
    pub file_pages: u64,
    /// Whether all pages of a fetch lie in one file: a bundle may cross files.
    pub has_files: bool,
    /// Whether every third page can be read in slices.
    pub has_slices: bool,
    /// Bytes that the source says to keep, at most.
    pub most_kept: usize,
    /// Longest time that an answer takes, in nanoseconds.
    pub latency: u64,
    pub faults: RefCell<HashMap<u64, Planned>>,
    /// The lock that Python's threads hold while they compute, if pages are made with it.
    pub gil: Option<Arc<Mutex<()>>>,
    /// Set when no thread wants an answer any more.
    stopped: Mutex<bool>,
    stop: Condvar,
    /// Fetches that have not begun; none once no engine is left.
    waiting: Mutex<Option<VecDeque<Waiting<'static, ()>>>>,
    comes: Condvar,
    /// The engine itself, for a thread that collects it as garbage.
    pub garbage: RefCell<Option<Arc<Engine>>>,
    pub kept: AtomicUsize,
    /// Fetches under way.
    pub fetching: AtomicUsize,
}

// SAFETY: all threads of a machine are coroutines of one thread of the system, which
// borrow no cell while others run.
unsafe impl Send for Made {}
// SAFETY: likewise.
unsafe impl Sync for Made {}

impl Made {
    pub fn new(random: &mut Random) -> Self {
        Self {
            in_flight: random.of(&[0, 0, 0, 1, 2, 4]) as usize,
            file_pages: random.of(&[1, 4, 1000]),
            has_files: false,
            has_slices: random.one_in(4),
            most_kept: if random.one_in(4) { 400 } else { 0 },
            latency: random.of(&[0, 2_000, 100_000, 10_000_000]),
            faults: RefCell::default(),
            gil: random.one_in(6).then(Arc::default),
            stopped: Mutex::default(),
            stop: Condvar::new(),
            waiting: Mutex::new(Some(VecDeque::new())),
            comes: Condvar::new(),
            garbage: RefCell::default(),
            kept: AtomicUsize::new(0),
            fetching: AtomicUsize::new(0),
        }
    }

    /// Ends all waiting for the storage.
    pub fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.notify_all();
    }

    /// Starts the threads of the storage.
    pub fn start(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let start = |number| {
            let this = Arc::clone(self);
            let thread = Builder::new().name(format!("storage-{number}"));
            thread.spawn(move || this.answer()).ok()
        };
        (0..self.in_flight).map_while(start).collect()
    }

    /// Ends the threads of the storage.
    pub fn end(&self) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.comes.notify_all();
    }

    /// The work of a thread of the storage.
    fn answer(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(queue) = &mut *waiting {
            let Some(mut fetch) = queue.pop_front() else {
                let woken = self.comes.wait(waiting);
                waiting = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(waiting);
            // One that waits for ever is dropped.
            let polled = fetch.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            drop((polled, fetch));
            waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Pages of a file, if the fault strikes a fetch, which may be of several of them.
    pub fn comes_along(&self, fault: Fault) -> Option<u64> {
        (self.in_flight > 0 && fault.is_of_storage()).then_some(self.file_pages)
    }

    fn wait_for_stop(&self) {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            let woken = self.stop.wait(stopped);
            stopped = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take_time(&self) {
        if self.latency > 0 {
            let time = simulated::random(|random| random.below(self.latency));
            sleep(Duration::from_nanos(time));
        }
    }

    /// The fault that reading the page meets now.
    fn meet(&self, page: u64, is_fetch: bool) -> Option<Fault> {
        let mut faults = self.faults.borrow_mut();
        let planned = faults.get_mut(&page)?;
        if planned.times == 0 || (self.in_flight > 0 && planned.fault.is_of_storage() != is_fetch) {
            return None;
        }
        planned.times -= 1;
        Some(planned.fault)
    }

    fn fetch_now(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        simulated::note("fetches");
        let _under_way = UnderWay::begin(self);
        let file = |page: &u64| page / self.file_pages;
        if self.has_files && pages.iter().any(|page| file(page) != file(&pages[0])) {
            simulated::fail("pages of several files are fetched together");
        }
        self.take_time();
        for &page in pages {
            self.suffer(page, true)?;
        }
        Ok(pages.iter().map(|_| Fetched::default()).collect())
    }

    fn suffer(&self, page: u64, is_fetch: bool) -> Result<bool> {
        let error = |kind, text: &str| {
            let error = Error::new(kind, text);
            // Only the source knows which of the pages fetched together failed.
            Err(if is_fetch { error.at_page(page) } else { error })
        };
        match self.meet(page, is_fetch) {
            None => Ok(false),
            Some(Fault::Short) => Ok(true),
            Some(Fault::Refused) => error(Kind::Io(std::io::ErrorKind::TimedOut), "refused"),
            Some(Fault::Damaged) => error(Kind::Checksum, "damaged"),
            Some(Fault::Changed) => error(Kind::Stale, "changed"),
            Some(Fault::Panics | Fault::Breaks) => panic!("a panic"),
            Some(Fault::Never) => {
                self.wait_for_stop();
                error(Kind::Cancelled, "stopped")
            }
            Some(Fault::Lost) => error(Kind::Internal, "lost"),
        }
    }

    /// Work of a thread that calls Python: takes its lock, and collects garbage.
    fn call_python(&self) {
        let Some(gil) = &self.gil else { return };
        let held = gil.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_time();
        drop(held);
        let garbage = self.garbage.borrow_mut().take();
        drop(garbage);
    }
}

/// Counts a fetch as under way until this is dropped.
struct UnderWay<'a>(&'a Made);

impl<'a> UnderWay<'a> {
    fn begin(made: &'a Made) -> Self {
        if made.fetching.fetch_add(1, Ordering::Relaxed) >= made.in_flight {
            simulated::fail("more fetches are under way than there should be");
        }
        Self(made)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetching.fetch_sub(1, Ordering::Relaxed);
    }
}

fn tokens_of(page: u64, count: u64, mut made: TokenPage) -> TokenPage {
    let values = (0..count).map(|position| token(page, position));
    made.tokens = match page % 4 {
        0 => Tokens::U16(values.collect()),
        1 => Tokens::I32(values.map(i32::from).collect()),
        2 => Tokens::U32(values.map(u32::from).collect()),
        _ => Tokens::I64(values.map(i64::from).collect()),
    };
    made.row_offsets.clear();
    let offsets = row_offsets(page).map(|offset| offset.min(count as u32));
    made.row_offsets.extend(offsets);
    made
}

impl PageSource for Made {
    fn num_in_flight(&self) -> usize {
        self.in_flight
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        Box::pin(async {
            let fetched = self.fetch_now(pages);
            let is_lost = |error: &Error| error.message() == "lost";
            if fetched.as_ref().is_err_and(is_lost) {
                std::future::pending::<()>().await;
            }
            fetched
        })
    }

    fn spawn(&self, fetch: Waiting<'static, ()>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &mut *waiting {
            queue.push_back(fetch);
        }
        drop(waiting);
        self.comes.notify_one();
    }

    fn decode(&self, page: u64, _: Loading<'_>) -> Result<Page> {
        simulated::note("decodes");
        if self.in_flight == 0 {
            self.take_time();
        }
        self.call_python();
        let is_short = self.suffer(page, false)?;
        let count = if is_short { 2 } else { num_tokens(page) };
        if self.most_kept > 0 {
            let kept = simulated::random(|random| random.below(self.most_kept as u64));
            self.kept.store(kept as usize, Ordering::Relaxed);
        }
        Ok(Page::Tokens(tokens_of(page, count, TokenPage::default())))
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        Ok(PageEntry {
            file: (page / self.file_pages) as usize,
            ..PageEntry::new(10, num_tokens(page) as usize * 8 + 16)
        })
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        error.at_page(page)
    }

    fn held_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    fn slice_tokens(&self, page: u64) -> Option<u64> {
        let is_plain = self.has_slices && page.is_multiple_of(3);
        is_plain.then(|| num_tokens(page))
    }

    fn read_slices(
        &self,
        slices: &mut [&mut PageSlice],
        _: &mut Vec<u8>,
    ) -> Result<SliceReads, (u64, Error)> {
        self.take_time();
        for slice in &mut *slices {
            let page = slice.page;
            let faults = [false, true].into_iter().filter(|_| self.in_flight > 0);
            let faults = faults.chain([false].into_iter().filter(|_| self.in_flight == 0));
            let mut count = num_tokens(page);
            for is_fetch in faults {
                if self.suffer(page, is_fetch).map_err(|error| (page, error))? {
                    count = 2;
                }
            }
            slice.loaded = tokens_of(page, count, std::mem::take(&mut slice.loaded));
            slice.first = row_offsets(page)[slice.row as usize] + slice.first_token;
        }
        Ok(SliceReads {
            reads: slices.len() as u64,
            bytes: 0,
        })
    }
}
