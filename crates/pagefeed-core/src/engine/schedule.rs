//! Decides what to do next. All decisions are made here, under one lock, and take
//! about a microsecond; the work itself is done by the workers outside.
//!
//! Everything is done in plan order as far as the budget allows. The batch at the
//! head may always be built: room for its pages is made by evicting the held page
//! whose next use is farthest away, and if the head's own pages are too many, by
//! writing those that are there into the batch and letting them go.

use std::collections::VecDeque;
use std::sync::Arc;

use super::budget::Budget;
use super::job::{Garbage, GatherJob, Job, LoadJob};
use super::pages::{BatchNumber, PageTable, Slot};
use super::plan::PreparedPlan;
use super::spares::SparePages;
use super::{Content, EngineConfig, EngineStats, PageSource};
use crate::error::{Error, Result};

/// Pages the source is told about before they are loaded.
const ADVICE_DISTANCE: usize = 256;
/// Pages the source is told about at one time.
const ADVICE_AT_ONCE: usize = 16;

/// Pages that may be loaded at a stretch, ahead of their time, while a batch could be
/// written: the rest of what is due is loaded between the next batches.
const MAX_LOADS_DUE: f32 = 4.0;

/// Largest size of a page that is believed, so that sums cannot overflow.
const MAX_ESTIMATE: usize = usize::MAX >> 8;

/// Bytes of pages freed after which the allocator is trimmed.
const TRIM_AFTER: usize = 16 << 20;

/// A use that was gathered.
const DONE: Slot = Slot::MAX;

#[derive(Debug)]
enum Phase {
    Waiting,
    Gathering,
    Done,
}

/// A batch submitted and not yet taken.
#[derive(Debug)]
struct Pending<B> {
    plan: Arc<PreparedPlan>,
    number_in_plan: usize,
    /// Slots of the pages it needs; `DONE` once gathered.
    uses: Vec<Slot>,
    /// Uses whose pages are not held.
    num_missing: usize,
    phase: Phase,
    buffer: Option<B>,
}

impl<B> Pending<B> {
    /// Memory that goes with it: of a plan, with its last batch.
    fn num_bytes(&self) -> usize {
        let is_last = self.number_in_plan + 1 == self.plan.num_batches();
        let plan = if is_last { self.plan.num_bytes() } else { 0 };
        plan + size_of::<Self>() + self.uses.capacity() * size_of::<Slot>()
    }

    fn is_ready(&self) -> bool {
        self.num_missing == 0 && matches!(self.phase, Phase::Waiting)
    }
}

/// Everything the lock protects.
pub(super) struct State<P: Content> {
    config: EngineConfig,
    /// Submitted and not taken; the first is number `head`.
    batches: VecDeque<Pending<P::Buffer>>,
    head: BatchNumber,
    pages: PageTable<P>,
    budget: Budget,
    spares: SparePages<P>,
    spare_buffers: Vec<P::Buffer>,
    /// The first batch that failed, and why. Nothing at or after it is worked on.
    failure: Option<(BatchNumber, Error)>,
    /// Changes when pending work is dropped: jobs of another generation end unseen.
    generation: u64,
    num_running: usize,
    /// Bytes of the plans of `batches`.
    pending_bytes: usize,
    /// Pages to load so that loads are spread evenly over the batches that are planned:
    /// where an epoch begins many pages are opened, where it ends almost none.
    loads_due: f32,
    garbage: Garbage<P>,
    /// Bytes of pages freed, not recycled, since the allocator was last trimmed.
    num_freed: usize,
    /// Workers asleep and not yet told to wake.
    pub num_idle: usize,
    /// Consumers asleep.
    pub num_waiting: usize,
    pub is_stopping: bool,
    pub stats: EngineStats,
}

impl<P: Content> State<P> {
    pub fn new(config: EngineConfig) -> Self {
        Self {
            batches: VecDeque::new(),
            head: 1,
            pages: PageTable::default(),
            budget: Budget::new(&config),
            spares: SparePages::default(),
            spare_buffers: Vec::new(),
            failure: None,
            generation: 0,
            num_running: 0,
            pending_bytes: 0,
            loads_due: 0.0,
            garbage: Garbage::default(),
            num_freed: 0,
            num_idle: 0,
            num_waiting: 0,
            is_stopping: false,
            stats: EngineStats::default(),
            config,
        }
    }

    pub fn num_pending(&self) -> usize {
        self.batches.len()
    }

    /// Appends the batches of `plan`.
    pub fn append(&mut self, plan: &Arc<PreparedPlan>) {
        let slots: Vec<Slot> = plan
            .pages
            .iter()
            .map(|&page| self.pages.enter(page, plan.bundles.get(&page)))
            .collect();
        for number_in_plan in 0..plan.num_batches() {
            let batch = self.end();
            let needed = plan.uses(number_in_plan);
            let uses: Vec<Slot> = needed.iter().map(|&page| slots[page as usize]).collect();
            let held = uses
                .iter()
                .filter(|&&slot| self.pages.add_use(slot, batch))
                .count();
            let pending = Pending {
                plan: Arc::clone(plan),
                number_in_plan,
                num_missing: uses.len() - held,
                uses,
                phase: Phase::Waiting,
                buffer: None,
            };
            self.pending_bytes += pending.num_bytes();
            self.batches.push_back(pending);
        }
        self.count_plans();
        // Plans take room that pages had.
        self.give_up_spares();
        self.evict(self.head, 0);
    }

    fn count_plans(&mut self) {
        self.budget.plans = self.pending_bytes + self.pages.num_bytes();
        self.budget.most_plans = self.budget.most_plans.max(self.budget.plans);
    }

    /// Bytes of plans that were not taken yet, and of the table of their pages.
    pub fn plan_bytes(&self) -> usize {
        self.budget.plans
    }

    /// Drops all pending batches. Work in progress ends unseen.
    pub fn clear(&mut self) {
        self.head = self.end();
        for pending in std::mem::take(&mut self.batches) {
            pending
                .buffer
                .into_iter()
                .for_each(|buffer| self.take_back(buffer));
        }
        self.pending_bytes = 0;
        self.budget.most_plans = 0;
        let dropped = std::mem::take(&mut self.pages);
        self.count_plans();
        self.garbage.pages.extend(dropped.into_held());
        self.num_freed += self.budget.held;
        self.budget.held = 0;
        self.failure.take_if(|(batch, _)| *batch > 0);
        self.generation += 1;
    }

    /// The batch at the head if it is finished, or the error in its place.
    pub fn take_head(&mut self) -> Result<Option<P::Buffer>> {
        if let Some((batch, error)) = &self.failure
            && *batch <= self.head
        {
            return Err(error.clone());
        }
        let Some(Phase::Done) = self.batches.front().map(|head| &head.phase) else {
            return Ok(None);
        };
        self.head += 1;
        self.stats.batches += 1;
        self.stats.tokens += self.config.batch_tokens() as u64;
        let taken = self.batches.pop_front();
        self.pending_bytes -= taken.as_ref().map_or(0, Pending::num_bytes);
        self.count_plans();
        let buffer = taken.and_then(|pending| pending.buffer);
        if let Some(buffer) = &buffer {
            P::count(buffer, &mut self.stats);
        }
        Ok(buffer)
    }

    /// Whether [`State::take_head`] has something to say.
    pub fn head_is_settled(&self) -> bool {
        self.failure
            .as_ref()
            .is_some_and(|(batch, _)| *batch <= self.head)
            || self
                .batches
                .front()
                .is_some_and(|head| matches!(head.phase, Phase::Done))
    }

    /// Stores the memory of a batch for reuse.
    pub fn take_back(&mut self, buffer: P::Buffer) {
        let is_kept = self.budget.num_buffers <= self.budget.max_buffers() || !P::is_alone(&buffer);
        if is_kept && !self.is_stopping {
            self.spare_buffers.push(buffer);
        } else {
            self.budget.num_buffers -= 1;
            self.garbage.buffers.push(buffer);
        }
    }

    /// Fails every batch from now on: the engine itself is broken.
    pub fn fail_all(&mut self, error: Error) {
        self.failure = Some((0, error));
    }

    fn fail(&mut self, batch: BatchNumber, error: Error) {
        if self
            .failure
            .as_ref()
            .is_none_or(|(first, _)| batch < *first)
        {
            self.failure = Some((batch, error));
        }
    }

    /// One past the last batch submitted.
    fn end(&self) -> BatchNumber {
        self.head + self.batches.len() as u64
    }

    fn pending(&mut self, batch: BatchNumber) -> Option<&mut Pending<P::Buffer>> {
        self.batches.get_mut(batch.checked_sub(self.head)? as usize)
    }

    /// First batch that must not be worked on.
    fn fence(&self) -> BatchNumber {
        self.failure
            .as_ref()
            .map_or(BatchNumber::MAX, |(batch, _)| *batch)
    }

    /// One past the last batch that may be assembled.
    fn horizon(&self) -> BatchNumber {
        self.head + self.budget.batches_ahead() as u64
    }

    fn first_ready(&self) -> Option<BatchNumber> {
        let end = self.horizon().min(self.fence());
        (self.head..end)
            .zip(&self.batches)
            .find(|(_, pending)| pending.is_ready())
            .map(|(batch, _)| batch)
    }

    fn next_load(&self) -> Option<(BatchNumber, Slot)> {
        self.pages
            .next_load()
            .filter(|(batch, _)| *batch < self.fence())
    }

    /// Whether an idle worker should look for work: true more often than there is.
    pub fn may_have_work(&self, source: &dyn PageSource<P>) -> bool {
        self.first_ready().is_some()
            || self.next_load().is_some_and(|(batch, slot)| {
                batch < self.horizon() || self.budget.fits(self.estimate(source, slot))
            })
    }

    fn estimate(&self, source: &dyn PageSource<P>, slot: Slot) -> usize {
        let estimate = match self.pages.bundle(slot) {
            Some(bundle) => bundle.loading_size(source),
            None => {
                let page = self.pages.page(slot);
                let stored = source.stored_size(page);
                source.decoded_size(page).saturating_add(stored)
            }
        };
        estimate.min(MAX_ESTIMATE)
    }

    /// The next thing to do, begun.
    pub fn next_job(&mut self, source: &dyn PageSource<P>) -> Option<Job<P>> {
        if self.is_stopping {
            return None;
        }
        self.budget.source = source.held_bytes();
        let job = self.choose(source);
        self.num_running += usize::from(job.is_some());
        self.budget.note_peak();
        job
    }

    fn choose(&mut self, source: &dyn PageSource<P>) -> Option<Job<P>> {
        let ready = self.first_ready();
        let Some((batch, slot)) = self.next_load() else {
            return Some(self.begin_gather(ready?));
        };
        let estimate = self.estimate(source, slot);
        if let Some(ready) = ready
            && ready <= batch
            && (self.loads_due < 1.0 || !self.budget.fits(estimate))
        {
            return Some(self.begin_gather(ready));
        }
        let is_urgent = batch < self.horizon();
        if self.budget.fits(estimate) || (is_urgent && self.make_room(batch, estimate)) {
            return Some(self.begin_load(source, slot, estimate));
        }
        if let Some(ready) = ready {
            return Some(self.begin_gather(ready));
        }
        if batch > self.head || self.num_running > 0 {
            return None; // What is running will make room.
        }
        if self.head_holds_pages() {
            return Some(self.begin_gather(self.head));
        }
        // It does not fit, and must be loaded all the same: beside as little as can be.
        self.evict(batch, estimate);
        Some(self.begin_load(source, slot, estimate))
    }

    fn head_holds_pages(&self) -> bool {
        self.batches.front().is_some_and(|head| {
            let num_left = head.uses.iter().filter(|&&slot| slot != DONE).count();
            num_left > head.num_missing
        })
    }

    /// Evicts pages needed later than `batch`, farthest first, if that makes room enough.
    fn make_room(&mut self, batch: BatchNumber, bytes: usize) -> bool {
        let most = self.pages.evictable_bytes(batch);
        self.budget.fits_without(most, bytes) && self.evict(batch, bytes)
    }

    /// Evicts pages needed later than `batch` until there is room; whether there is.
    fn evict(&mut self, batch: BatchNumber, bytes: usize) -> bool {
        while !self.budget.fits(bytes) {
            let Some(slot) = self.pages.farthest_after(batch) else {
                return false;
            };
            let waiting: Vec<BatchNumber> = self.pages.uses(slot).collect();
            for needing in waiting {
                if let Some(pending) = self.pending(needing) {
                    pending.num_missing += 1;
                }
            }
            if let Some((page, bytes)) = self.pages.evict(slot) {
                self.recycle(page, bytes);
            }
        }
        true
    }

    fn begin_load(&mut self, source: &dyn PageSource<P>, slot: Slot, estimate: usize) -> Job<P> {
        if self.pages.begin_load(slot) {
            self.stats.pages_reloaded += 1;
        }
        let page = self.pages.page(slot);
        let bundle = self.pages.bundle(slot).cloned();
        let stored = bundle.as_ref().map_or_else(
            || source.stored_size(page),
            |bundle| bundle.stored_size(source),
        );
        self.stats.pages_loaded += 1;
        self.loads_due = (self.loads_due - 1.0).max(0.0);
        self.stats.bytes_read += stored as u64;
        let (recycled_bytes, recycle) = self.spares.take_near(estimate).unzip();
        let recycled_bytes = recycled_bytes.unwrap_or(0);
        self.budget.spare -= recycled_bytes;
        let estimate = estimate.max(recycled_bytes);
        self.budget.loading += estimate;
        self.give_up_spares();
        let distance = (self.config.budget / 4 / estimate.max(1)).min(ADVICE_DISTANCE);
        let advise = std::iter::from_fn(|| self.pages.advise(distance));
        Job::Load(LoadJob {
            generation: self.generation,
            slot,
            estimate,
            page,
            bundle,
            recycled_bytes,
            recycle,
            advise: advise.take(ADVICE_AT_ONCE).collect(),
            scratch_before: 0,
            scratch_after: 0,
            scratch_freed: 0,
        })
    }

    fn begin_gather(&mut self, batch: BatchNumber) -> Job<P> {
        let loads_per_batch = self.pages.num_fresh() as f32 / self.batches.len() as f32;
        self.loads_due = (self.loads_due + loads_per_batch).min(MAX_LOADS_DUE);
        let spare = self.spare_buffers.pop();
        let position = (batch - self.head) as usize;
        let pending = &mut self.batches[position];
        pending.phase = Phase::Gathering;
        let held = pending.uses.iter().copied();
        self.pages.fetch(held.filter(|&slot| slot != DONE));
        let pin = |&slot: &Slot| {
            if slot == DONE {
                None
            } else {
                self.pages.pin(slot)
            }
        };
        let pages = pending.uses.iter().map(pin).collect();
        let mut bundles = Vec::new();
        if !pending.plan.bundles.is_empty() {
            let bundle = |&slot: &Slot| {
                if slot == DONE {
                    None
                } else {
                    self.pages.bundle(slot).cloned()
                }
            };
            bundles.extend(pending.uses.iter().map(bundle));
        }
        let is_new = pending.buffer.is_none();
        let is_last = pending.num_missing == 0;
        let buffer = match pending.buffer.take() {
            Some(buffer) => {
                self.spare_buffers.extend(spare);
                Ok(buffer)
            }
            None => spare.ok_or_else(|| {
                let count = self
                    .budget
                    .buffers_at_once(P::buffers_at_once(&self.config));
                self.budget.num_buffers += count;
                count
            }),
        };
        Job::Gather(GatherJob {
            generation: self.generation,
            batch,
            plan: Arc::clone(&pending.plan),
            number_in_plan: pending.number_in_plan,
            pages,
            bundles,
            buffer,
            spare_buffers: Vec::new(),
            is_new,
            is_last,
        })
    }

    /// Takes note of a page that was loaded, or could not be.
    pub fn end_load(&mut self, job: &LoadJob<P>, result: Result<P>) {
        self.num_running -= 1;
        self.budget.loading -= job.estimate;
        self.budget.scratch += job.scratch_after;
        self.budget.scratch -= job.scratch_before;
        self.num_freed += job.scratch_freed;
        match result {
            Ok(page) if job.generation == self.generation => {
                let packing = job.bundle.as_ref().map_or(0, |b| b.packing_bytes());
                let bytes = page.num_bytes() + packing;
                self.budget.held += bytes;
                if bytes != job.recycled_bytes {
                    self.num_freed += job.recycled_bytes;
                }
                for &batch in self.pages.loaded(job.slot, page, bytes) {
                    let position = batch - self.head;
                    self.batches[position as usize].num_missing -= 1;
                }
            }
            Err(error) if job.generation == self.generation => {
                let batch = self.pages.failed(job.slot);
                self.fail(batch, error);
            }
            Ok(page) => self.garbage.pages.push(page),
            Err(_) => {}
        }
        self.give_up_spares();
        self.budget.note_peak();
    }

    /// Takes note of a batch that was written, in part or in full.
    pub fn end_gather(&mut self, mut job: GatherJob<P>, result: Result<()>) {
        self.num_running -= 1;
        if let Err(count) = job.buffer {
            self.budget.num_buffers -= count; // They could not be allocated.
        }
        self.spare_buffers.append(&mut job.spare_buffers);
        if job.generation != self.generation {
            self.garbage
                .pages
                .extend(job.pages.drain(..).flatten().filter_map(Arc::into_inner));
            job.buffer
                .into_iter()
                .for_each(|buffer| self.take_back(buffer));
            return;
        }
        let position = (job.batch - self.head) as usize;
        let mut uses = std::mem::take(&mut self.batches[position].uses);
        self.pages
            .fetch(uses.iter().copied().filter(|&slot| slot != DONE));
        for (slot, page) in uses.iter_mut().zip(job.pages) {
            if page.is_some() {
                drop(page);
                if let Some((page, bytes)) = self.pages.unpin(*slot, job.batch) {
                    self.recycle(page, bytes);
                }
                *slot = DONE;
            }
        }
        let is_done = uses.iter().all(|&slot| slot == DONE);
        let pending = &mut self.batches[position];
        pending.uses = uses;
        pending.buffer = job.buffer.ok();
        pending.phase = if is_done { Phase::Done } else { Phase::Waiting };
        if let Err(error) = result {
            self.fail(job.batch, error);
        }
        self.give_up_spares();
        self.budget.note_peak();
    }

    /// Turns a held page that is not needed now into spare memory.
    fn recycle(&mut self, page: Arc<P>, bytes: usize) {
        self.budget.held -= bytes;
        if let Some(page) = Arc::into_inner(page) {
            self.budget.spare += page.num_bytes();
            self.spares.put(page);
        }
    }

    fn give_up_spares(&mut self) {
        while self.budget.is_over() {
            let Some((bytes, page)) = self.spares.take_largest() else {
                return;
            };
            self.budget.spare -= bytes;
            self.num_freed += bytes;
            self.garbage.pages.push(page);
        }
    }

    /// Gives up all memory that is kept for reuse.
    pub fn release(&mut self) {
        self.clear();
        while let Some((_, page)) = self.spares.take_largest() {
            self.garbage.pages.push(page);
        }
        self.garbage.buffers.append(&mut self.spare_buffers);
        self.garbage.is_trim_due = true;
    }

    /// Memory to discard outside the lock.
    pub fn take_garbage(&mut self) -> Garbage<P> {
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
