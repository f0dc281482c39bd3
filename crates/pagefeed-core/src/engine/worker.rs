//! The threads: take a job, do it, say so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

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

/// Task of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Loads pages, or decodes those that were fetched, and writes batches.
    Worker,
    /// Fetches pages, and waits most of the time.
    Fetcher,
}

/// State shared between the threads and the consumer.
pub struct Shared {
    pub source: Arc<dyn PageSource>,
    pub config: Arc<EngineConfig>,
    state: Mutex<State>,
    /// Bytes of plans that were not taken yet, and of the table of their pages.
    pub plan_bytes: Arc<AtomicUsize>,
    /// Workers wait here for work.
    work: Condvar,
    /// Wakes fetching threads.
    fetches: Condvar,
    /// The consumer waits here for the batch at the head.
    pub settled: Condvar,
    /// Process that started the threads. A forked child has none of them, and the lock
    /// may be held by a thread that does not exist there.
    process: u32,
}

impl Shared {
    pub fn new(source: Arc<dyn PageSource>, config: EngineConfig) -> Self {
        let config = Arc::new(config);
        let state = State::new(Arc::clone(&config), source.num_in_flight() > 0);
        Self {
            source,
            plan_bytes: Arc::clone(&state.plan_bytes),
            state: Mutex::new(state),
            config,
            work: Condvar::new(),
            fetches: Condvar::new(),
            settled: Condvar::new(),
            process: process_id(),
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

    /// Releases the lock, and then wakes a sleeping thread of each kind if there may be
    /// work for it: woken before, it would sleep again at the lock. That one wakes the
    /// next: no other worker is woken before it has looked for work.
    pub fn wake(&self, mut state: MutexGuard<'_, State>) {
        let wakes_worker = self.takes_sleeper(&mut state, Role::Worker);
        let wakes_fetcher = self.takes_sleeper(&mut state, Role::Fetcher);
        drop(state);
        if wakes_worker {
            self.work.notify_one();
        }
        if wakes_fetcher {
            self.fetches.notify_one();
        }
    }

    /// Whether a sleeping thread is to be woken. If so, it counts as awake.
    fn takes_sleeper(&self, state: &mut State, role: Role) -> bool {
        let source = &*self.source;
        match role {
            Role::Worker => {
                let takes = state.num_idle > 0 && !state.is_woken && state.has_work(role, source);
                state.num_idle -= usize::from(takes);
                state.is_woken |= takes;
                takes
            }
            Role::Fetcher => {
                let takes = state.num_idle_fetchers > 0 && state.has_work(role, source);
                state.num_idle_fetchers -= usize::from(takes);
                takes
            }
        }
    }

    /// Wakes everybody, to see that the engine stops.
    pub fn wake_all(&self) {
        self.work.notify_all();
        self.fetches.notify_all();
        self.settled.notify_all();
    }

    /// Sleeps until there may be work.
    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>, role: Role) -> MutexGuard<'a, State> {
        let woken = match role {
            Role::Worker => {
                state.num_idle += 1;
                if self.takes_sleeper(&mut state, Role::Fetcher) {
                    self.fetches.notify_one();
                }
                self.work.wait(state)
            }
            Role::Fetcher => {
                state.num_idle_fetchers += 1;
                if self.takes_sleeper(&mut state, Role::Worker) {
                    self.work.notify_one();
                }
                self.fetches.wait(state)
            }
        };
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the memory of a batch back from the consumer.
    pub fn take_back(&self, buffer: Buffer) {
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
pub(super) fn run(shared: &Shared, role: Role) {
    let panicked = catch_unwind(AssertUnwindSafe(|| work(shared, role))).is_err();
    if panicked {
        shared.lock().fail_all(Error::internal(
            "the engine's scheduler failed; this is a defect of pagefeed: please report it",
        ));
        shared.settled.notify_all();
    }
}

fn work(shared: &Shared, role: Role) {
    let source = &*shared.source;
    limit_pages(Budget::largest_page(&shared.config));
    let mut opener = PageOpener::default();
    let mut loose = LooseSlices::default();
    let mut state = shared.lock();
    loop {
        if role == Role::Worker {
            state.is_woken = false;
        }
        let Some(job) = state.next_job(role, source) else {
            if state.is_stopping {
                return;
            }
            state = shared.sleep(state, role);
            continue;
        };
        let garbage = state.take_garbage();
        shared.wake(state);
        garbage.discard();
        state = match job {
            Job::Fetch(jobs) => {
                let result = fetch(shared, &jobs);
                let mut state = shared.lock();
                state.end_fetch(jobs, result);
                state
            }
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
        if state.is_awaited && state.head_is_settled() {
            state.is_awaited = false;
            drop(state); // The consumer needs it as soon as it is awake.
            shared.settled.notify_all();
            // If all processors are busy with work, the consumer would otherwise
            // get one only milliseconds later.
            thread::yield_now();
            state = shared.lock();
        }
    }
}

/// Fetches the pages of some loads; returns what was read for each load.
fn fetch(shared: &Shared, jobs: &[LoadJob]) -> Result<Vec<Vec<Fetched>>> {
    let pages: Vec<Vec<u64>> = jobs.iter().map(LoadJob::pages).collect();
    let first = jobs.first().map_or(0, LoadJob::first_page);
    catch_panic(|| {
        let mut fetched = shared.source.fetch(&pages.concat())?.into_iter();
        let of_each = |pages: &Vec<u64>| fetched.by_ref().take(pages.len()).collect();
        Ok(pages.iter().map(of_each).collect())
    })
    .map_err(|error| shared.source.locate(error, first))
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
