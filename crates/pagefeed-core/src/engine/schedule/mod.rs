//! Decides what to do next (`jobs`), and keeps account of `loads` and `gathers`. All
//! decisions are made here, under one lock, and take about a microsecond; the work
//! itself is done by the workers outside.
//!
//! Everything is done in plan order as far as the budget allows. The batch at the
//! head may always be built: room for its pages is made by evicting the held page
//! whose next use is farthest away, and if the head's own pages are too many, by
//! writing those that are there into the batch and letting them go.

#[cfg(feature = "simulate")]
#[path = "../../../tests/simulate/audits/schedule.rs"]
mod audit;
mod awaited;
mod gathers;
mod jobs;
mod lead;
mod loads;
mod pending;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::assembly::buffer::Buffer;
use super::budget::Budget;
use super::job::{Garbage, LoadJob};
use super::page_key::{PageHasher, PageKey};
use super::pages::{BatchNumber, FETCHED_AT_ONCE, KeptPage, PageTable, Slot};
use super::plan::PreparedPlan;
use super::{EngineConfig, EngineStats, PageSource};
use crate::error::{Error, Result};
use lead::Lead;
use pending::{DONE, Pending, Phase};

/// Bytes of pages freed after which the allocator is trimmed.
const TRIM_AFTER: usize = 16 << 20;

/// Everything the lock protects.
pub(super) struct State {
    /// With the rows of the batches submitted last.
    config: Arc<EngineConfig>,
    /// Submitted and not taken; the first is number `head`.
    batches: VecDeque<Pending>,
    head: BatchNumber,
    /// Batches that wait for no page and are not begun.
    ready: BTreeSet<BatchNumber>,
    lead: Lead,
    pages: PageTable,
    budget: Budget,
    /// Fetched and not decoded, by their next use.
    fetched: BTreeMap<(BatchNumber, Slot), LoadJob>,
    /// Pages, by number, that were in memory when all batches were dropped, and that no
    /// plan needs.
    kept: HashMap<PageKey, KeptPage, PageHasher>,
    /// Whether pages are kept that were loaded for dropped batches.
    keeps_pages: bool,
    /// Whether pages stay after the last batch that needs them, while there is room.
    pub keeps_used: bool,
    spare_buffers: Vec<Buffer>,
    /// The first batch that failed, and why. Nothing at or after it is worked on.
    failure: Option<(BatchNumber, Error)>,
    /// Changes when pending work is dropped. Results of earlier generations are
    /// ignored.
    generation: u64,
    num_running: usize,
    /// Bytes of the plans of `batches`.
    pending_bytes: usize,
    /// Bytes of plans with the table of their pages, for readers that do not wait for
    /// the lock.
    pub plan_bytes: Arc<AtomicUsize>,
    garbage: Garbage,
    /// Bytes of pages freed outside of the arena since the allocator was last trimmed.
    num_freed: usize,
    /// Workers that sleep and were not woken.
    pub num_idle: usize,
    /// Whether a worker was woken, and none has looked for work since.
    pub is_woken: bool,
    /// Fetches under way.
    pub num_fetching: usize,
    /// Whether a consumer sleeps that was not woken.
    pub is_awaited: bool,
    pub is_stopping: bool,
    pub stats: EngineStats,
}

impl State {
    /// Begins without batches. A storage that answers late is asked as far ahead as
    /// there is room.
    pub fn new(config: Arc<EngineConfig>, is_late: bool) -> Self {
        let budget = Budget::new(&config);
        Self {
            batches: VecDeque::new(),
            head: 1,
            ready: BTreeSet::new(),
            lead: Lead::new(config.num_threads, is_late, budget.batches_ahead()),
            pages: PageTable::default(),
            budget,
            fetched: BTreeMap::new(),
            kept: HashMap::default(),
            keeps_pages: false,
            keeps_used: false,
            spare_buffers: Vec::new(),
            failure: None,
            generation: 0,
            num_running: 0,
            pending_bytes: 0,
            plan_bytes: Arc::default(),
            garbage: Garbage::default(),
            num_freed: 0,
            num_idle: 0,
            is_woken: false,
            num_fetching: 0,
            is_awaited: false,
            is_stopping: false,
            stats: EngineStats::default(),
            config,
        }
    }

    pub fn num_pending(&self) -> usize {
        self.batches.len()
    }

    /// Appends the batches of `plan`.
    pub fn append(&mut self, plan: &Arc<PreparedPlan>, source: &dyn PageSource) {
        if plan.config.batch_rows != self.config.batch_rows {
            self.resize(&plan.config);
        }
        let enter = |(number, &page): (u32, &PageKey)| match plan.is_loose(number) {
            true => DONE,
            false => {
                let slot = self.pages.enter(page, plan.bundles.get(&page.page), source);
                if let Some(kept) = self.kept.remove(&page) {
                    self.budget.kept -= kept.bytes;
                    self.budget.held += kept.bytes;
                    self.pages.restore(slot, kept);
                }
                slot
            }
        };
        let slots: Vec<Slot> = (0..).zip(&plan.pages).map(enter).collect();
        for number_in_plan in 0..plan.num_batches() {
            let batch = self.end();
            let needed = plan.uses(number_in_plan);
            let uses: Vec<Slot> = needed.iter().map(|&page| slots[page as usize]).collect();
            let mut missing = 0;
            for slots in uses.chunks(FETCHED_AT_ONCE) {
                self.pages.fetch(slots);
                let there = slots.iter().filter(|&&slot| slot != DONE);
                missing += there
                    .filter(|&&slot| !self.pages.add_use(slot, batch))
                    .count();
            }
            let pending = Pending {
                plan: Arc::clone(plan),
                number_in_plan,
                num_missing: missing,
                uses,
                phase: Phase::Waiting,
                buffer: None,
            };
            self.pending_bytes += pending.num_bytes();
            if pending.is_ready() {
                self.ready.insert(batch);
            }
            self.batches.push_back(pending);
        }
        self.count_plans();
        // Plans take room that pages had.
        self.keep_to_budget();
    }

    /// Continues with batches of a different number of rows; memory of others is freed.
    fn resize(&mut self, config: &Arc<EngineConfig>) {
        self.config = Arc::clone(config);
        self.budget.resize(config);
        self.lead.resize(self.budget.batches_ahead());
        self.budget.drop_batches(&self.spare_buffers);
        self.garbage.buffers.append(&mut self.spare_buffers);
    }

    fn count_plans(&mut self) {
        self.budget.plans = self.pending_bytes + self.pages.num_bytes();
        self.budget.most_plans = self.budget.most_plans.max(self.budget.plans);
        self.plan_bytes.store(self.budget.plans, Ordering::Relaxed);
    }

    /// Drops all pending batches. Work in progress is ignored, or its pages are kept,
    /// with those in memory, while there is room.
    pub fn clear(&mut self, keeps_pages: bool) {
        self.keeps_pages = keeps_pages;
        self.head = self.end();
        self.ready.clear();
        for pending in std::mem::take(&mut self.batches) {
            pending
                .buffer
                .into_iter()
                .for_each(|buffer| self.take_back(buffer));
        }
        for (_, job) in std::mem::take(&mut self.fetched) {
            self.drop_load(&job);
        }
        self.pending_bytes = 0;
        self.budget.most_plans = 0;
        let dropped = std::mem::take(&mut self.pages);
        self.count_plans();
        for (page, kept) in dropped.into_held() {
            if keeps_pages {
                self.keep(page, kept);
            } else {
                self.garbage.pages.extend(Arc::into_inner(kept.page));
            }
        }
        if !keeps_pages {
            self.num_freed += self.budget.held;
            while self.drop_kept() {}
        }
        self.budget.held = 0;
        self.drop_surplus();
        self.failure.take_if(|(batch, _)| *batch > 0);
        self.lead.reset(self.budget.batches_ahead());
        self.generation += 1;
    }

    /// Keeps a page that no plan needs.
    pub(super) fn keep(&mut self, page: PageKey, kept: KeptPage) {
        self.budget.kept += kept.bytes;
        if let Some(before) = self.kept.insert(page, kept) {
            self.budget.kept -= before.bytes;
        }
    }

    /// Drops a page that no plan needs; returns whether there was one.
    fn drop_kept(&mut self) -> bool {
        let Some(page) = self.kept.keys().next().copied() else {
            return false;
        };
        if let Some(kept) = self.kept.remove(&page) {
            self.budget.kept -= kept.bytes;
            self.num_freed += kept.bytes;
            self.garbage.pages.extend(Arc::into_inner(kept.page));
        }
        true
    }

    /// Returns the batch at the head if it is finished, or its error.
    pub fn take_head(&mut self) -> Result<Option<Buffer>> {
        if let Some((batch, error)) = &self.failure
            && *batch <= self.head
        {
            return Err(error.clone());
        }
        let Some(Phase::Done) = self.batches.front().map(|head| &head.phase) else {
            return Ok(None);
        };
        let last = self.batches.get(self.lead.batches - 1);
        let is_full = last.is_some_and(|last| matches!(last.phase, Phase::Done));
        let was_in_time = self.lead.note_taken(self.head, is_full);
        self.stats.batches_ready += u64::from(was_in_time);
        self.head += 1;
        self.stats.batches += 1;
        let taken = self.batches.pop_front();
        let tokens = taken.as_ref().map(|taken| taken.plan.config.batch_tokens());
        self.stats.tokens += tokens.unwrap_or(0) as u64;
        self.pending_bytes -= taken.as_ref().map_or(0, Pending::num_bytes);
        self.count_plans();
        let buffer = taken.and_then(|pending| pending.buffer);
        if let Some(buffer) = &buffer {
            self.stats.padding_tokens += buffer.written.num_padding;
            self.stats.splits += buffer.written.num_splits;
        }
        Ok(buffer)
    }

    /// Notes that the batch at the head was not ready when it was asked for; returns
    /// whether more may be done from now on.
    pub fn wait_for_head(&mut self) -> bool {
        let head = self.batches.front();
        let misses_pages = head.is_some_and(|head| head.num_missing > 0);
        let most = self.budget.batches_ahead();
        self.lead.note_late(self.head, misses_pages, most)
    }

    /// Does what a wait for the head does after many batches in time, as if its page was
    /// missing or there; returns how many pages may be loaded before they are due.
    #[cfg(test)]
    pub fn wait_after_many(&mut self, is_missing: bool) -> f32 {
        let most = self.budget.batches_ahead();
        self.lead.wait_after_many(self.head, is_missing, most)
    }

    /// Whether [`State::take_head`] has something to say.
    pub fn head_is_settled(&self) -> bool {
        let head = self.batches.front().map(|head| &head.phase);
        self.fence() <= self.head || matches!(head, Some(Phase::Done))
    }

    /// Whether a consumer is to be woken, as it has something to see. If so, none is
    /// awaited any more.
    pub fn take_awaited(&mut self) -> bool {
        let wakes = self.is_awaited && self.head_is_settled();
        self.is_awaited &= !wakes;
        wakes
    }

    /// Batches that are finished and wait to be taken.
    #[cfg(any(test, feature = "simulate"))]
    pub fn num_finished(&self) -> usize {
        let phases = self.batches.iter().map(|batch| &batch.phase);
        phases.filter(|phase| matches!(phase, Phase::Done)).count()
    }

    /// Stores the memory of a batch for reuse.
    pub fn take_back(&mut self, mut buffer: Buffer) {
        let is_kept = self.budget.num_buffers <= self.budget.max_buffers() || !buffer.is_alone();
        let num_bytes = self.config.sections().num_bytes();
        let is_kept = is_kept && buffer.first_bytes() == num_bytes && !buffer.is_outsized();
        if is_kept && !self.is_stopping {
            let bytes = buffer.held_bytes();
            self.budget.count_batch(&mut buffer, bytes);
            self.spare_buffers.push(buffer);
        } else {
            self.budget.drop_batches(std::slice::from_ref(&buffer));
            self.garbage.buffers.push(buffer);
        }
    }

    /// Fails every batch from now on: the engine itself is broken.
    pub fn fail_all(&mut self, error: Error) {
        self.failure = Some((0, error));
    }

    fn fail(&mut self, batch: BatchNumber, error: Error) {
        if self.failure.is_none() || batch < self.fence() {
            self.failure = Some((batch, error));
        }
    }

    /// One past the last batch submitted.
    fn end(&self) -> BatchNumber {
        self.head + self.batches.len() as u64
    }

    fn pending(&mut self, batch: BatchNumber) -> Option<&mut Pending> {
        self.batches.get_mut(batch.checked_sub(self.head)? as usize)
    }

    /// Gives up all memory that is kept for reuse.
    pub fn release(&mut self) {
        self.clear(false);
        self.budget.drop_batches(&self.spare_buffers);
        self.garbage.buffers.append(&mut self.spare_buffers);
        self.garbage.is_trim_due = true;
    }

    /// Memory to discard outside the lock.
    pub fn take_garbage(&mut self) -> Garbage {
        if self.num_freed >= TRIM_AFTER {
            self.num_freed = 0;
            self.garbage.is_trim_due = true;
        }
        std::mem::take(&mut self.garbage)
    }

    pub fn stats(&self) -> EngineStats {
        EngineStats {
            held_bytes: (self.budget.held + self.budget.loading) as u64,
            peak_bytes: self.budget.peak as u64,
            ..self.stats.clone()
        }
    }
}
