//! Executes plans: reads pages, decodes them, and scatters their tokens into batches,
//! on its own threads, in plan order, inside a byte budget.
//!
//! The plans submitted are the future: a page is loaded once, as far ahead as the
//! budget allows, held until the last batch that needs it is built, and its memory
//! used again. `schedule` decides under one lock, `worker` acts outside of it.

mod aligned;
mod assembly;
mod awaited;
mod batch;
mod budget;
mod bundle;
mod config;
mod destinations;
mod documents;
mod job;
mod page;
mod page_key;
mod pages;
mod plan;
mod rehearsal;
mod schedule;
mod source;
mod stats;
#[cfg(test)]
mod tests;
mod worker;

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub use aligned::Aligned;
pub use assembly::buffer::Buffer;
pub use assembly::list_rows::ListRows;
pub use awaited::Awaited;
pub use batch::Batch;
pub use bundle::Bundles;
pub use config::{EngineConfig, Layout, TokenType};
pub use destinations::Destinations;
pub use documents::{AlignedLists, DocumentColumns, Documents, Pad};
pub use page::Page;
pub use plan::Plan;
pub use rehearsal::Rehearsed;
pub use source::{ExtraReads, Loading, PageEntry, PageSlice, PageSource, SliceReads};
pub use stats::EngineStats;

use crate::error::{Error, Kind, Result};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Instant, Mutex, MutexGuard, PoisonError};
use plan::{PageNumbers, PreparedPlan};
use schedule::State;
use worker::{Shared, unlock};

/// Runs plans; dropping it stops and joins its threads.
///
/// In a forked child its threads do not exist: every method fails with
/// [`Kind::Cancelled`], and dropping it does nothing.
pub struct Engine {
    shared: Arc<Shared>,
    threads: Mutex<Vec<ManuallyDrop<JoinHandle<()>>>>,
    page_numbers: Mutex<PageNumbers>,
    /// Account of a rehearsal; none where pages are read.
    rehearsed: Option<Mutex<Rehearsed>>,
}

impl Engine {
    /// An engine that reads nothing, and counts what another engine would read and hold.
    pub fn rehearsing(source: Arc<dyn PageSource>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        Ok(Self {
            shared: Arc::new(Shared::new(source, config, true)),
            threads: Mutex::default(),
            page_numbers: Mutex::default(),
            rehearsed: Some(Mutex::default()),
        })
    }

    /// The account of a rehearsal since the last call.
    pub fn take_rehearsed(&self) -> Rehearsed {
        let rehearsed = self.rehearsed.as_ref().map(Mutex::lock);
        let rehearsed = rehearsed.map(|each| each.unwrap_or_else(PoisonError::into_inner));
        rehearsed.map(|mut each| each.take()).unwrap_or_default()
    }

    /// Starts the threads; where the system gives no more, those there are do the work.
    pub fn new(source: Arc<dyn PageSource>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        let num_threads = config.num_threads;
        let engine = Self {
            shared: Arc::new(Shared::new(source, config, false)),
            threads: Mutex::default(),
            page_numbers: Mutex::default(),
            rehearsed: None,
        };
        for number in 0..num_threads {
            let shared = Arc::clone(&engine.shared);
            let started = thread::Builder::new()
                .name(format!("pagefeed-{number}"))
                .spawn(move || worker::run(&shared));
            match started {
                Ok(thread) => engine.lock_threads().push(ManuallyDrop::new(thread)),
                Err(error) if number == 0 => return Err(Error::no_thread(&error)),
                Err(_) => {}
            }
        }
        Ok(engine)
    }

    /// Appends batches to the work; returns at once.
    pub fn submit(&self, plan: Plan) -> Result<()> {
        self.check_process()?;
        let (config, source) = (&self.shared.config, &*self.shared.source);
        let plan = {
            let numbers = self.page_numbers.lock();
            let mut numbers = numbers.unwrap_or_else(PoisonError::into_inner);
            Arc::new(PreparedPlan::new(plan, config, source, &mut numbers)?)
        };
        let mut state = self.shared.lock();
        if state.is_stopping {
            return Err(closed());
        }
        state.append(&plan, &*self.shared.source);
        self.shared.wake(state);
        Ok(())
    }

    /// The next batch in plan order; `None` if it is not ready within `timeout`.
    /// An error that belongs to a batch is returned in its place, again on every call.
    pub fn next_batch(&self, timeout: Duration) -> Result<Option<Batch>> {
        self.check_process()?;
        let mut state = self.shared.lock();
        if let Some(rehearsed) = &self.rehearsed {
            let mut rehearsed = rehearsed.lock().unwrap_or_else(PoisonError::into_inner);
            rehearsal::rehearse(&self.shared, &mut state, &mut rehearsed)?;
        } else if !state.head_is_settled() {
            state = self.wait(state, timeout);
        }
        if state.is_stopping {
            return Err(closed());
        }
        let buffer = state.take_head()?;
        self.shared.wake(state);
        let engine = Arc::downgrade(&self.shared);
        Ok(buffer.map(|buffer| Batch::new(buffer, engine)))
    }

    /// Waits until the batch at the head is finished or failed, or the time is up.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        timeout: Duration,
    ) -> MutexGuard<'a, State> {
        let begin = Instant::now();
        if state.wait_for_head() {
            self.shared.wake(state);
            state = self.shared.lock();
        }
        let is_waiting = |state: &mut State| {
            let waits = !state.is_stopping && !state.head_is_settled();
            state.is_awaited |= waits;
            waits
        };
        let (mut state, _) = self
            .shared
            .settled
            .wait_timeout_while(state, timeout, is_waiting)
            .unwrap_or_else(PoisonError::into_inner);
        state.stats.wait += begin.elapsed();
        state
    }

    /// Drops all batches submitted and not yet taken, and their errors.
    pub fn clear(&self) -> Result<()> {
        self.drop_batches(false)
    }

    /// Like `clear`, but pages stay as long as there is room: plans to come may need them.
    pub fn clear_keeping_pages(&self) -> Result<()> {
        self.drop_batches(true)
    }

    /// From now on pages of rows stay after their last use, while there is room: plans
    /// to come name rows that are not known yet.
    pub fn keep_pages(&self) -> Result<()> {
        self.check_process()?;
        self.shared.lock().keeps_used = true;
        Ok(())
    }

    fn drop_batches(&self, keeps_pages: bool) -> Result<()> {
        self.check_process()?;
        let mut state = self.shared.lock();
        state.clear(keeps_pages);
        unlock(state);
        Ok(())
    }

    /// Number of batches submitted and not yet taken; none in a forked child.
    pub fn num_pending(&self) -> usize {
        if self.shared.is_forked() {
            return 0;
        }
        self.shared.lock().num_pending()
    }

    /// Bytes that plans take which were submitted and not taken yet, inside the budget;
    /// none in a forked child. Never waits for the workers.
    pub fn plan_bytes(&self) -> usize {
        if self.shared.is_forked() {
            return 0;
        }
        self.shared.plan_bytes.load(Ordering::Relaxed)
    }

    /// Counters of the engine's work so far.
    pub fn stats(&self) -> Result<EngineStats> {
        self.check_process()?;
        let mut stats = self.shared.lock().stats();
        let extra = self.shared.source.extra_reads();
        stats.bytes_read += extra.bytes;
        (stats.index_reads, stats.payload_reads) = (extra.index_reads, extra.payload_reads);
        Ok(stats)
    }

    /// Stops and joins the threads; pages being loaded are finished first. A thread that
    /// waits for a batch gets [`Kind::Cancelled`], and so does every later call.
    pub fn close(&self) {
        if self.shared.is_forked() {
            return;
        }
        self.shared.lock().is_stopping = true;
        self.shared.wake_all();
        let this_thread = thread::current().id();
        for thread in std::mem::take(&mut *self.lock_threads()) {
            let thread = ManuallyDrop::into_inner(thread);
            // A worker that calls Python may collect the engine as garbage: it ends by
            // itself.
            if thread.thread().id() != this_thread {
                // A panic of a worker was turned into an error for the consumer.
                let _ = thread.join();
            }
        }
        let mut state = self.shared.wait_for_fetches();
        state.release();
        unlock(state);
    }

    /// The fault of the engine's account, if there is one; nothing while its lock is
    /// held. `outside` is how many batches the consumer has, if that is known; `all_wait`
    /// is whether all threads wait, so that none is about to wake another.
    #[cfg(feature = "simulate")]
    pub fn audit(&self, outside: Option<usize>, all_wait: bool) -> std::result::Result<(), String> {
        let Some(state) = self.shared.peek() else {
            return Ok(());
        };
        state.audit(outside, self.shared.source.held_bytes())?;
        match all_wait {
            true => state.audit_sleepers(&*self.shared.source),
            false => Ok(()),
        }
    }

    /// State of the engine, in words: for simulations.
    #[cfg(feature = "simulate")]
    pub fn describe(&self) -> String {
        self.shared.peek().map_or_else(String::new, State::describe)
    }

    /// Batches that are finished and wait to be taken: for simulations.
    #[cfg(feature = "simulate")]
    pub fn num_finished(&self) -> usize {
        self.shared.peek().map_or(0, State::num_finished)
    }

    /// Whether the engine has given up all it had: for simulations.
    #[cfg(feature = "simulate")]
    pub fn is_empty(&self) -> bool {
        self.shared.peek().is_some_and(State::is_empty)
    }

    fn lock_threads(&self) -> MutexGuard<'_, Vec<ManuallyDrop<JoinHandle<()>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_process(&self) -> Result<()> {
        if self.shared.is_forked() {
            return Err(Error::new(
                Kind::Cancelled,
                "this engine belongs to the process that forked this one, and its threads \
                 were not inherited; make a new engine here",
            ));
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

fn closed() -> Error {
    Error::new(
        Kind::Cancelled,
        "the loader was closed: make another to continue",
    )
}
