//! The threads: take a job, do it, say so.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;

use super::assembly;
use super::assembly::buffer::Buffer;
use super::assembly::gathering::Gathering;
use super::assembly::loose::LooseSlices;
use super::budget::Budget;
use super::job::{BatchMemory, GatherJob, Job, LoadJob};
use super::schedule::State;
use super::{EngineConfig, Page, PageSource};
use crate::error::{Error, Result, catch_panic};
use crate::limits::limit_pages;
use crate::page::PageOpener;
use crate::storage::Fetched;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError, process_id, thread};

/// State shared between the threads, the fetches and the consumer.
pub struct Shared {
    pub source: Arc<dyn PageSource>,
    pub config: Arc<EngineConfig>,
    state: Mutex<State>,
    /// Bytes of plans that were not taken yet, and of the table of their pages.
    pub plan_bytes: Arc<AtomicUsize>,
    /// Workers wait here for work.
    work: Condvar,
    /// The consumer waits here for the batch at the head; who closes, for the last fetch.
    pub settled: Condvar,
    /// Process that started the threads. A forked child has none of them, and the lock
    /// may be held by a thread that does not exist there.
    process: u32,
    /// Whether no thread works and nothing is fetched.
    is_rehearsing: bool,
}

impl Shared {
    pub fn new(source: Arc<dyn PageSource>, config: EngineConfig, is_rehearsing: bool) -> Self {
        let config = Arc::new(config);
        let state = State::new(Arc::clone(&config), source.num_in_flight() > 0);
        Self {
            source,
            plan_bytes: Arc::clone(&state.plan_bytes),
            state: Mutex::new(state),
            config,
            work: Condvar::new(),
            settled: Condvar::new(),
            process: process_id(),
            is_rehearsing,
        }
    }

    pub fn is_forked(&self) -> bool {
        process_id() != self.process
    }

    /// The lock. Must not be taken in a forked child.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A worker that panicked inside has left an error for the consumer.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the locked state if the lock is free, for simulations.
    #[cfg(feature = "simulate")]
    pub fn peek(&self) -> Option<&State> {
        self.state.peek()
    }

    /// Begins the fetches that may begin, and releases the lock. Then wakes a sleeping
    /// worker if there may be work for it: woken before, it would sleep again at the lock.
    /// That one wakes the next: no other is woken before it has looked for work.
    pub fn wake(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if self.is_rehearsing {
            return;
        }
        let fetches = state.begin_fetches(&*self.source);
        let is_idle = state.num_idle > 0 && !state.is_woken;
        let wakes_worker = is_idle && state.has_work(&*self.source);
        if wakes_worker {
            state.num_idle -= 1;
            state.is_woken = true;
        }
        drop(state);
        if wakes_worker {
            self.work.notify_one();
        }
        self.start(fetches);
    }

    fn start(self: &Arc<Self>, fetches: Vec<Vec<LoadJob>>) {
        for jobs in fetches {
            let shared = Arc::clone(self);
            let fetch = Fetch { shared, jobs };
            self.source.spawn(Box::pin(fetch.run()));
        }
    }

    /// Wakes everybody, to see that the engine stops.
    pub fn wake_all(&self) {
        self.work.notify_all();
        self.settled.notify_all();
    }

    /// Waits until no fetch is under way.
    pub fn wait_for_fetches(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        while state.num_fetching > 0 {
            let woken = self.settled.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Begins the fetches that may begin; without any, sleeps until there may be work.
    fn sleep<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let fetches = state.begin_fetches(&*self.source);
        if fetches.is_empty() {
            state.num_idle += 1;
            let woken = self.work.wait(state);
            return woken.unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.start(fetches);
        self.lock()
    }

    /// Takes the memory of a batch back from the consumer.
    pub fn take_back(self: &Arc<Self>, buffer: Buffer) {
        if self.is_forked() {
            return;
        }
        let mut state = self.lock();
        state.take_back(buffer);
        let garbage = state.take_garbage();
        self.wake(state);
        garbage.discard();
    }
}

/// Releases the lock, and then frees memory that is not needed any more.
pub(super) fn unlock(mut state: MutexGuard<'_, State>) {
    let garbage = state.take_garbage();
    drop(state);
    garbage.discard();
}

/// The life of a thread.
pub(super) fn run(shared: &Arc<Shared>) {
    let panicked = catch_unwind(AssertUnwindSafe(|| work(shared))).is_err();
    if panicked {
        shared.lock().fail_all(Error::internal(
            "the engine's scheduler failed; this is a defect of pagefeed: please report it",
        ));
        shared.settled.notify_all();
    }
}

fn work(shared: &Arc<Shared>) {
    let source = &*shared.source;
    limit_pages(Budget::largest_page(&shared.config));
    let mut opener = PageOpener::default();
    let mut loose = LooseSlices::default();
    let mut state = shared.lock();
    loop {
        state.is_woken = false;
        let Some(job) = state.next_job(source) else {
            if state.is_stopping {
                return;
            }
            state = shared.sleep(state);
            continue;
        };
        let garbage = state.take_garbage();
        shared.wake(state);
        garbage.discard();
        state = match job {
            Job::Load(mut job) => {
                job.scratch_before = opener.kept_bytes();
                let result = load(shared, &mut opener, &mut job);
                opener.keep_at_most(Budget::scratch_share(&shared.config));
                job.scratch_after = opener.kept_bytes();
                let mut state = shared.lock();
                state.count_kept(source);
                state.end_load(&job, result);
                state
            }
            Job::Gather(mut job) => {
                // Counted here: a panic leaves memory, too.
                job.scratch_before = loose.num_bytes();
                let result = catch_panic(|| gather(shared, &mut loose, &mut job));
                if loose.num_bytes() > Budget::scratch_share(&shared.config) {
                    loose = LooseSlices::default();
                }
                job.scratch_after = loose.num_bytes();
                // Outside the lock: dropping a page writes to its memory, which lies anywhere.
                job.pages.clear();
                let mut state = shared.lock();
                state.end_gather(job, result);
                state
            }
        };
        if state.take_awaited() {
            drop(state); // The consumer needs it as soon as it is awake.
            shared.settled.notify_all();
            // If all processors are busy with work, the consumer would otherwise
            // get one only milliseconds later.
            thread::yield_now();
            state = shared.lock();
        }
    }
}

/// A fetch of pages that are neighbours, to decode them later.
struct Fetch {
    shared: Arc<Shared>,
    /// Loads of the pages; none once the fetch has ended.
    jobs: Vec<LoadJob>,
}

impl Fetch {
    async fn run(mut self) {
        let result = self.fetched().await;
        self.end(result);
    }

    /// Waits for the pages; returns the bytes that were read for each load.
    async fn fetched(&self) -> Result<Vec<Vec<Fetched>>> {
        let source = &*self.shared.source;
        let pages: Vec<Vec<u64>> = self.jobs.iter().map(LoadJob::pages).collect();
        let all = pages.concat();
        let mut fetch = pin!(source.fetch(&all));
        let polled = poll_fn(|context| {
            let polled = catch_panic(|| Ok(fetch.as_mut().poll(context)));
            polled.unwrap_or_else(|error| Poll::Ready(Err(error)))
        });
        let mut fetched = polled.await?.into_iter();
        let of_each = |pages: &Vec<u64>| fetched.by_ref().take(pages.len()).collect();
        Ok(pages.iter().map(of_each).collect())
    }

    fn end(&mut self, result: Result<Vec<Vec<Fetched>>>) {
        let jobs = std::mem::take(&mut self.jobs);
        let first = jobs.first().map_or(0, LoadJob::first_page);
        let result = result.map_err(|error| self.shared.source.locate(error, first));
        let mut state = self.shared.lock();
        state.end_fetch(jobs, result);
        let is_awaited = state.take_awaited();
        let is_closing = state.is_stopping;
        let garbage = state.take_garbage();
        self.shared.wake(state);
        if is_awaited || is_closing {
            self.shared.settled.notify_all();
        }
        garbage.discard();
    }
}

impl Drop for Fetch {
    /// A fetch that is dropped has no answer.
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            self.end(Err(Error::internal("a fetch of pages was dropped")));
        }
    }
}

/// Loads a page. The opener is made again after a panic, since its state is unknown.
fn load(shared: &Shared, opener: &mut PageOpener, job: &mut LoadJob) -> Result<Page> {
    let (source, config) = (&*shared.source, &shared.config);
    let mut is_whole = false;
    let result = catch_panic(|| {
        job.advise.iter().for_each(|&page| source.will_need(page));
        let result = job.decode(source, config, opener);
        opener.release_large();
        is_whole = true;
        result
    });
    if !is_whole {
        *opener = PageOpener::default();
    }
    result.map_err(|error| source.locate(error, job.first_page()))
}

fn gather(shared: &Shared, loose: &mut LooseSlices, job: &mut GatherJob) -> Result<()> {
    job.allocate()?;
    let BatchMemory::Ready(buffer) = &mut job.memory else {
        return Err(Error::invalid("a batch without memory"));
    };
    let config = &job.plan.config;
    buffer.num_rows = config.batch_rows * config.layout.row_parts.max(1);
    buffer.row_lengths.clear();
    if config.layout.row_parts > 1 {
        buffer.row_lengths.push(config.part_length());
    }
    buffer.writer = Some(thread::current().id());
    let batch = Gathering {
        config: &job.plan.config,
        plan: &job.plan,
        number_in_plan: job.number_in_plan,
        pages: &job.pages,
        bundles: &job.bundles,
        is_new: job.is_new,
        is_last: job.is_last,
        source: &*shared.source,
    };
    let result = assembly::write(&batch, buffer, loose);
    job.reads = loose.take_reads();
    result.map_err(|(page, error)| shared.source.locate(error, page))
}
