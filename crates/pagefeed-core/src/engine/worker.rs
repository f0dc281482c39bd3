//! The threads: take a job, do it, say so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::content::{Content, Gathering};
use super::job::{BatchMemory, GatherJob, Job, LoadJob};
use super::schedule::State;
use super::{EngineConfig, PageSource};
use crate::decode::limit_pages;
use crate::error::{Error, Kind, Result, catch_panic};
use crate::page::PageOpener;

/// What the workers and the consumer share.
pub struct Shared<P: Content> {
    pub source: Arc<dyn PageSource<P>>,
    pub config: EngineConfig,
    state: Mutex<State<P>>,
    /// Workers wait here for work.
    pub work: Condvar,
    /// The consumer waits here for the batch at the head.
    pub settled: Condvar,
    /// The process the threads live in: a forked child has none of them, and the lock
    /// may be held by one that is gone.
    process: u32,
}

impl<P: Content> Shared<P> {
    pub fn new(source: Arc<dyn PageSource<P>>, config: EngineConfig) -> Self {
        Self {
            source,
            state: Mutex::new(State::new(config.clone())),
            config,
            work: Condvar::new(),
            settled: Condvar::new(),
            process: std::process::id(),
        }
    }

    pub fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    /// The lock. Must not be taken in a forked child.
    pub fn lock(&self) -> MutexGuard<'_, State<P>> {
        // A worker that panicked inside has left an error for the consumer.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a worker if there may be work for one that sleeps. It wakes the next.
    pub fn wake_worker(&self, state: &mut State<P>) {
        if state.num_idle > 0 && state.may_have_work(&*self.source) {
            state.num_idle -= 1;
            self.work.notify_one();
        }
    }

    /// Takes a batch's memory back from the consumer.
    pub fn take_back(&self, buffer: P::Buffer) {
        if self.is_forked() {
            return;
        }
        let mut state = self.lock();
        state.take_back(buffer);
        self.wake_worker(&mut state);
        let garbage = state.take_garbage();
        drop(state);
        garbage.discard();
    }
}

/// The life of a worker.
pub(super) fn run<P: Content>(shared: &Shared<P>) {
    let panicked = catch_unwind(AssertUnwindSafe(|| work(shared))).is_err();
    if panicked {
        shared.lock().fail_all(Error::new(
            Kind::Internal,
            "the engine's scheduler failed; this is a defect of pagefeed: please report it",
        ));
        shared.settled.notify_all();
    }
}

fn work<P: Content>(shared: &Shared<P>) {
    let source = &*shared.source;
    limit_pages(Budget::largest_page(&shared.config));
    let (mut opener, mut scratch) = (None, P::Scratch::default());
    let mut state = shared.lock();
    loop {
        let Some(job) = state.next_job(source) else {
            if state.is_stopping {
                return;
            }
            state.num_idle += 1;
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        shared.wake_worker(&mut state);
        let garbage = state.take_garbage();
        drop(state);
        garbage.discard();
        state = match job {
            Job::Load(mut job) => {
                job.scratch_before = P::scratch_bytes(&scratch);
                let result = load(shared, &mut opener, &mut scratch, &mut job);
                release_large(shared, &mut scratch, &mut job);
                let mut state = shared.lock();
                state.end_load(&job, result);
                state
            }
            Job::Gather(mut job) => {
                let result = catch_panic(|| gather(shared, &mut job));
                let mut state = shared.lock();
                state.end_gather(job, result);
                state
            }
        };
        if state.num_waiting > 0 && state.head_is_settled() {
            shared.settled.notify_all();
            drop(state);
            // Where all processors are busy with work, the consumer would otherwise
            // get one only milliseconds later.
            std::thread::yield_now();
            state = shared.lock();
        }
    }
}

/// Loads a page. The opener is made anew after a panic: what it was left in is
/// anybody's guess.
fn load<P: Content>(
    shared: &Shared<P>,
    opener: &mut Option<PageOpener>,
    scratch: &mut P::Scratch,
    job: &mut LoadJob<P>,
) -> Result<P> {
    let recycle = job.recycle.take();
    catch_panic(|| {
        let mut ready = opener.take().unwrap_or_default();
        job.advise
            .iter()
            .for_each(|&page| shared.source.will_need(page));
        let (source, config) = (&*shared.source, &shared.config);
        let result = match &job.bundle {
            None => source.load(&mut ready, job.page, recycle),
            Some(bundle) => P::load_bundle(bundle, source, config, &mut ready, scratch, recycle),
        };
        ready.release_large();
        *opener = Some(ready);
        result
    })
    .map_err(|error| shared.source.locate(error, job.page))
}

/// Gives the scratch up if its worker would keep more than its share of the budget.
fn release_large<P: Content>(shared: &Shared<P>, scratch: &mut P::Scratch, job: &mut LoadJob<P>) {
    let bytes = P::scratch_bytes(scratch);
    if bytes > Budget::scratch_share(&shared.config) {
        *scratch = P::Scratch::default();
        job.scratch_freed = bytes;
    } else {
        job.scratch_after = bytes;
    }
}

fn gather<P: Content>(shared: &Shared<P>, job: &mut GatherJob<P>) -> Result<()> {
    if let BatchMemory::Wanted(count) = job.memory {
        let mut buffers = P::new_buffers(&shared.config, count)?;
        if let Some(buffer) = buffers.pop() {
            job.memory = BatchMemory::Ready(buffer);
        }
        job.spare_buffers = buffers;
    }
    let BatchMemory::Ready(buffer) = &mut job.memory else {
        return Err(Error::invalid("a batch without memory"));
    };
    let batch = Gathering {
        config: &shared.config,
        plan: &job.plan,
        number_in_plan: job.number_in_plan,
        pages: &job.pages,
        bundles: &job.bundles,
        is_new: job.is_new,
        is_last: job.is_last,
    };
    P::gather(&batch, buffer).map_err(|(page, error)| shared.source.locate(error, page))
}
