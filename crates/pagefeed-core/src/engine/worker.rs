//! The threads: take a job, do it, say so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::batch::Buffer;
use super::job::{GatherJob, Job, LoadJob};
use super::plan::Segment;
use super::schedule::State;
use super::{EngineConfig, PageSource, TokenType};
use crate::decode::TokenPage;
use crate::error::{Error, Kind, Result, catch_panic};
use crate::gather::{BatchToken, Misfit, copy_segment, prefetch_segment};
use crate::page::PageOpener;

/// What the workers and the consumer share.
pub(super) struct Shared {
    pub source: Arc<dyn PageSource>,
    pub config: EngineConfig,
    state: Mutex<State>,
    /// Workers wait here for work.
    pub work: Condvar,
    /// The consumer waits here for the batch at the head.
    pub settled: Condvar,
    /// The process the threads live in: a forked child has none of them, and the lock
    /// may be held by one that is gone.
    process: u32,
}

impl Shared {
    pub fn new(source: Arc<dyn PageSource>, config: EngineConfig) -> Self {
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
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // A worker that panicked inside has left an error for the consumer.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a worker if there may be work for one that sleeps. It wakes the next.
    pub fn wake_worker(&self, state: &mut State) {
        if state.num_idle > 0 && state.may_have_work(&*self.source) {
            state.num_idle -= 1;
            self.work.notify_one();
        }
    }

    /// Takes a batch's memory back from the consumer.
    pub fn take_back(&self, buffer: Buffer) {
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
pub(super) fn run(shared: &Shared) {
    let panicked = catch_unwind(AssertUnwindSafe(|| work(shared))).is_err();
    if panicked {
        shared.lock().fail_all(Error::new(
            Kind::Internal,
            "the engine's scheduler failed; this is a defect of pagefeed: please report it",
        ));
        shared.settled.notify_all();
    }
}

fn work(shared: &Shared) {
    let source = &*shared.source;
    let mut opener = None;
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
                let result = load(shared, &mut opener, &mut job);
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
        }
    }
}

/// Loads a page. The opener is made anew after a panic: what it was left in is
/// anybody's guess.
fn load(shared: &Shared, opener: &mut Option<PageOpener>, job: &mut LoadJob) -> Result<TokenPage> {
    let recycle = job.recycle.take();
    catch_panic(|| {
        let mut ready = opener.take().unwrap_or_default();
        ready.verify_checksums = shared.config.verify_checksums;
        job.advise
            .iter()
            .for_each(|&page| shared.source.will_need(page));
        let result = shared.source.load(&mut ready, job.page, recycle);
        *opener = Some(ready);
        result
    })
    .map_err(|error| shared.source.locate(error, job.page))
}

fn gather(shared: &Shared, job: &mut GatherJob) -> Result<()> {
    match shared.config.token_type {
        TokenType::I64 => gather_as::<i64>(shared, job),
        TokenType::I32 => gather_as::<i32>(shared, job),
        TokenType::U16 => gather_as::<u16>(shared, job),
    }
}

/// Copies the segments whose pages are there.
fn gather_as<T: BatchToken>(shared: &Shared, job: &mut GatherJob) -> Result<()> {
    let config = &shared.config;
    if let Err(count) = job.buffer {
        let mut buffers = Buffer::map(config.batch_bytes(), count)?;
        job.buffer = buffers.pop().ok_or(count);
        job.spare_buffers = buffers;
    }
    let Ok(buffer) = &mut job.buffer else {
        return Err(Error::invalid("a batch without memory"));
    };
    let batch = buffer.tokens::<T>(config.batch_tokens());
    let segments = || job.plan.segments(job.number_in_plan, config.row_length);
    if job.is_new && !job.plan.is_full(job.number_in_plan) {
        // Checked to fit when the engine was made.
        let padding = T::from_i64(config.padding).ok_or_else(|| bad_padding(config))?;
        let mut end = 0;
        for segment in segments().filter(|segment| segment.start < segment.end) {
            batch[end..segment.start].fill(padding);
            end = segment.end;
        }
        batch[end..].fill(padding);
    }
    let mut upcoming = segments().skip(SEGMENTS_AHEAD);
    for segment in segments() {
        if let Some(next) = upcoming.next()
            && let Some(page) = &job.pages[next.page_use]
        {
            prefetch_segment(page, next.row, next.first_token);
        }
        if let Some(page) = &job.pages[segment.page_use] {
            let target = &mut batch[segment.start..segment.end];
            copy_segment(page, segment.row, segment.first_token, target).map_err(|misfit| {
                shared
                    .source
                    .locate(describe::<T>(misfit, &segment), segment.page)
            })?;
        }
    }
    Ok(())
}

/// Segments between the one that is copied and the one that is fetched for it.
const SEGMENTS_AHEAD: usize = 2;

fn describe<T: BatchToken>(misfit: Misfit, segment: &Segment) -> Error {
    let Segment { page, row, .. } = segment;
    match misfit {
        Misfit::Token(value) => Error::new(
            Kind::TokenRange,
            format!(
                "token {value} in page {page} of the index does not fit {}; \
                 ask for a wider dtype",
                T::NAME
            ),
        ),
        Misfit::PageTooShort {
            num_tokens,
            needed: Some(needed),
            ..
        } => Error::corrupt(format!(
            "page {page} of the index holds {num_tokens} tokens, the plan needs {needed}; \
             the file does not hold what the index promises"
        )),
        Misfit::PageTooShort { num_rows, .. } => Error::corrupt(format!(
            "page {page} of the index holds {num_rows} rows, the plan needs row {row} of it; \
             the file does not hold what the index promises"
        )),
    }
}

pub(super) fn bad_padding(config: &EngineConfig) -> Error {
    let (padding, token_type) = (config.padding, config.token_type);
    Error::invalid(format!(
        "padding {padding} does not fit tokens of type {token_type:?}"
    ))
}
