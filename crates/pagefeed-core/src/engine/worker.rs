//! The threads: take a job, do it, say so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::batch::{Buffer, Document, Written};
use super::bundle::Bundle;
use super::job::{GatherJob, Job, LoadJob};
use super::plan::Segment;
use super::schedule::State;
use super::{EngineConfig, PageSource, TokenType};
use crate::decode::TokenPage;
use crate::error::{Error, Kind, Result, catch_panic};
use crate::gather::{
    BatchToken, LinePart, Misfit, Separators, copy_line, copy_segment, line_parts,
};
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
    let (mut opener, mut scratch) = (None, TokenPage::default());
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
                let result = load(shared, &mut opener, &mut scratch, &mut job);
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
fn load(
    shared: &Shared,
    opener: &mut Option<PageOpener>,
    scratch: &mut TokenPage,
    job: &mut LoadJob,
) -> Result<TokenPage> {
    let recycle = job.recycle.take();
    catch_panic(|| {
        let mut ready = opener.take().unwrap_or_default();
        ready.verify_checksums = shared.config.verify_checksums;
        job.advise
            .iter()
            .for_each(|&page| shared.source.will_need(page));
        let source = &*shared.source;
        let result = match &job.bundle {
            None => source.load(&mut ready, job.page, recycle),
            Some(bundle) => bundle.load(source, &shared.config, &mut ready, scratch, recycle),
        };
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
    let buffer = match &mut job.buffer {
        Some(buffer) => buffer,
        missing => missing.insert(Buffer::new(config.batch_bytes())?),
    };
    let batch = buffer.tokens::<T>(config.batch_tokens());
    let segments = || job.plan.segments(job.number_in_plan, config.row_length);
    let num_covered = job.plan.num_covered(job.number_in_plan);
    let mut writer = Writer::<T>::new(config, &mut job.written)?;
    if job.is_new && num_covered < batch.len() {
        writer.written.num_padding += (batch.len() - num_covered) as u64;
        let mut end = 0;
        for segment in segments().filter(|segment| segment.start < segment.end) {
            batch[end..segment.start].fill(writer.padding);
            end = segment.end;
        }
        batch[end..].fill(writer.padding);
    }
    for segment in segments() {
        let Some(page) = &job.pages[segment.page_use] else {
            continue;
        };
        let target = &mut batch[segment.start..segment.end];
        let bundle = job.bundles.get(segment.page_use).and_then(Option::as_ref);
        let result = match bundle {
            Some(bundle) if bundle.packing().is_some() => {
                writer.write_unit(page, bundle, &segment, target)
            }
            _ => writer.write(page, bundle, &segment, target),
        };
        result.map_err(|misfit| {
            let place = bundle.and_then(|bundle| bundle.place(0));
            let page = place.map_or(segment.page, |(page, _)| page);
            let error = describe::<T>(misfit, page, segment.row);
            shared.source.locate(error, page)
        })?;
    }
    writer.written.documents.sort_unstable();
    Ok(())
}

/// Writes segments of one batch.
struct Writer<'a, T> {
    config: &'a EngineConfig,
    separators: Separators<T>,
    padding: T,
    written: &'a mut Written,
}

impl<'a, T: BatchToken> Writer<'a, T> {
    fn new(config: &'a EngineConfig, written: &'a mut Written) -> Result<Self> {
        // Checked to fit when the engine was made.
        let cast =
            |name, token: i64| T::from_i64(token).ok_or_else(|| bad_token(config, name, token));
        let layout = &config.layout;
        let separators = Separators {
            bos: layout.bos.map(|token| cast("bos", token)).transpose()?,
            eos: layout.eos.map(|token| cast("eos", token)).transpose()?,
        };
        Ok(Self {
            config,
            separators,
            padding: cast("padding", config.padding)?,
            written,
        })
    }

    /// Writes consecutive tokens of a page.
    fn write(
        &mut self,
        page: &TokenPage,
        bundle: Option<&Arc<Bundle>>,
        segment: &Segment,
        target: &mut [T],
    ) -> Result<(), Misfit> {
        let per_row = self.separators.per_row();
        let (row, first_token) = (segment.row, segment.first_token);
        if per_row == 0 {
            copy_segment(page, row, first_token, target)?;
            if !self.config.layout.documents {
                return Ok(());
            }
        }
        let mut offset = 0;
        for part in line_parts(page, per_row, row, first_token, target.len())? {
            let end = offset + part.num_tokens;
            if per_row > 0 {
                copy_line(page, part, &self.separators, &mut target[offset..end])?;
            }
            self.note(page, bundle, segment, part, offset);
            offset = end;
        }
        Ok(())
    }

    /// Writes a packed sequence.
    fn write_unit(
        &mut self,
        page: &TokenPage,
        bundle: &Arc<Bundle>,
        segment: &Segment,
        target: &mut [T],
    ) -> Result<(), Misfit> {
        let per_row = self.separators.per_row();
        let too_short = || Misfit::PageTooShort {
            num_rows: page.row_offsets.len().saturating_sub(1),
            num_tokens: page.tokens.len(),
            needed: None,
        };
        let pieces = bundle
            .packing()
            .and_then(|packing| packing.unit(segment.row as usize))
            .ok_or_else(too_short)?;
        let mut offset = 0;
        for piece in pieces {
            let count = piece.num_tokens as usize;
            let parts = line_parts(page, per_row, piece.row, piece.first_token, count)?;
            for part in parts {
                let end = offset + part.num_tokens;
                let Some(place) = target.get_mut(offset..end) else {
                    return Err(too_short());
                };
                copy_line(page, part, &self.separators, place)?;
                let row_tokens = self.note(page, Some(bundle), segment, part, offset);
                let is_split =
                    part.first_token > 0 && row_tokens as usize <= self.config.row_length;
                self.written.num_splits += u64::from(is_split);
                offset = end;
            }
        }
        self.written.num_padding += (target.len() - offset) as u64;
        target[offset..].fill(self.padding);
        Ok(())
    }

    /// Notes a part of a document if that is asked for; returns the tokens of the whole.
    fn note(
        &mut self,
        page: &TokenPage,
        bundle: Option<&Arc<Bundle>>,
        segment: &Segment,
        part: LinePart,
        offset: usize,
    ) -> u32 {
        let row_tokens = (page.row_offsets[part.row + 1] - page.row_offsets[part.row])
            .saturating_add(self.separators.per_row());
        if self.config.layout.documents {
            let start = segment.start + offset;
            let here = (segment.page, part.row as u32);
            let (page, row) = bundle
                .and_then(|bundle| bundle.place(part.row))
                .unwrap_or(here);
            self.written.documents.push(Document {
                batch_row: (start / self.config.row_length) as u32,
                start: (start % self.config.row_length) as u32,
                num_tokens: part.num_tokens as u32,
                row,
                page,
                first_token: part.first_token as u32,
                row_tokens,
            });
        }
        row_tokens
    }
}

fn describe<T: BatchToken>(misfit: Misfit, page: u64, row: u32) -> Error {
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

pub(super) fn bad_token(config: &EngineConfig, name: &str, token: i64) -> Error {
    let token_type = config.token_type;
    Error::invalid(format!(
        "{name} {token} does not fit tokens of type {token_type:?}"
    ))
}
