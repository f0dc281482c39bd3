//! What to do next.

use super::State;
use super::pending::DONE;
use crate::engine::job::{Job, LoadJob};
use crate::engine::pages::{BatchNumber, Slot};
use crate::engine::{PageEntry, PageSource};

/// Stored bytes of pages fetched together, at most; more would delay pages elsewhere
/// that are needed first.
const MOST_TOGETHER: usize = 1 << 20;

/// Batches that may always be assembled, however few are planned after them.
const LEAST_AHEAD: usize = 8;

impl State {
    /// Whether an idle worker should look for work; may be true without work.
    pub fn may_have_work(&self, source: &dyn PageSource) -> bool {
        let fetches_apart = source.num_in_flight() > 0;
        self.first_ready().is_some()
            || !self.fetched.is_empty()
            || if fetches_apart {
                self.is_stuck()
            } else {
                self.may_load(source)
            }
    }

    /// Whether an idle fetching thread should look for work; may be true without work.
    pub fn may_load(&self, source: &dyn PageSource) -> bool {
        self.next_load().is_some_and(|(batch, slot)| {
            let is_urgent = batch < self.horizon();
            let has_room = self.budget.fits_ahead(self.estimate(source, slot));
            is_urgent || (has_room && self.has_slack(source))
        })
    }

    /// Whether pages may be loaded before they are due. Those that are fetched from afar
    /// always may.
    pub(super) fn has_slack(&self, source: &dyn PageSource) -> bool {
        self.loads_due > -self.slack || source.num_in_flight() > 0
    }

    /// The next thing that a worker does, begun.
    pub fn next_job(&mut self, source: &dyn PageSource) -> Option<Job> {
        self.begin(source, |state| match source.num_in_flight() {
            0 => state.choose(source),
            _ => state.choose_beside_fetching(),
        })
    }

    /// The next page to be fetched, begun.
    pub fn next_fetch(&mut self, source: &dyn PageSource) -> Option<Job> {
        self.begin(source, |state| state.choose_fetch(source))
    }

    fn begin(
        &mut self,
        source: &dyn PageSource,
        choose: impl FnOnce(&mut Self) -> Option<Job>,
    ) -> Option<Job> {
        if self.is_stopping {
            return None;
        }
        self.count_kept(source);
        let job = choose(self);
        self.num_running += match &job {
            // A page that was fetched has been running since.
            Some(Job::Load(load)) => usize::from(load.fetched.is_none()),
            Some(Job::Fetch(loads)) => loads.len(),
            Some(Job::Gather(_)) => 1,
            None => 0,
        };
        self.budget.note_peak();
        job
    }

    /// Updates the bytes that the source keeps; pages make room for them.
    pub fn count_kept(&mut self, source: &dyn PageSource) {
        let before = std::mem::replace(&mut self.budget.source, source.held_bytes());
        if self.budget.source > before {
            self.keep_to_budget();
        }
    }

    /// Chooses work where the same threads load and gather.
    fn choose(&mut self, source: &dyn PageSource) -> Option<Job> {
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
        let is_due = is_urgent || self.has_slack(source);
        if is_due && self.budget.fits(estimate) || (is_urgent && self.make_room(batch, estimate)) {
            return Some(Job::Load(self.begin_load(slot, estimate)));
        }
        if let Some(ready) = ready {
            return Some(self.begin_gather(ready));
        }
        if !self.is_stuck() {
            return None; // What is running will make room.
        }
        if self.head_holds_pages() {
            return Some(self.begin_gather(self.head));
        }
        // It does not fit, and must be loaded all the same: beside as little as can be.
        self.evict(batch, estimate);
        Some(Job::Load(self.begin_load(slot, estimate)))
    }

    /// Chooses to gather, or to decode fetched pages; what is needed first comes first.
    fn choose_beside_fetching(&mut self) -> Option<Job> {
        let ready = self.first_ready();
        let fetched = self.fetched.first_key_value().map(|(key, _)| *key);
        if let Some(key) = fetched
            && ready.is_none_or(|ready| key.0 < ready)
            && let Some(job) = self.fetched.remove(&key)
        {
            return Some(Job::Load(job));
        }
        if let Some(ready) = ready {
            return Some(self.begin_gather(ready));
        }
        (self.is_stuck() && self.head_holds_pages()).then(|| self.begin_gather(self.head))
    }

    /// Chooses pages to fetch, as far ahead as there is room to decode them.
    fn choose_fetch(&mut self, source: &dyn PageSource) -> Option<Job> {
        let (batch, slot) = self.next_load()?;
        let estimate = self.estimate(source, slot);
        let is_urgent = batch < self.horizon();
        let has_room =
            self.budget.fits_ahead(estimate) || (is_urgent && self.make_room(batch, estimate));
        if !has_room {
            if !self.is_stuck() || self.head_holds_pages() {
                return None;
            }
            self.evict(batch, estimate);
        }
        let first = self.begin_load(slot, estimate);
        Some(Job::Fetch(self.with_neighbours(source, first)))
    }

    /// Adds planned pages that follow a page, while there is room: one request reads
    /// neighbours together.
    fn with_neighbours(&mut self, source: &dyn PageSource, first: LoadJob) -> Vec<LoadJob> {
        let PageEntry {
            kind,
            file,
            stored_size: mut stored,
            ..
        } = *self.pages.entry(first.slot);
        let mut jobs = vec![first];
        while let Some(slot) = jobs
            .last()
            .and_then(|job| self.pages.absent_after(job.page))
        {
            let entry = self.pages.entry(slot);
            stored = stored.saturating_add(entry.stored_size);
            let is_near = (entry.kind, entry.file) == (kind, file) && stored <= MOST_TOGETHER;
            let is_due = self.pages.next_use(slot) < self.fence();
            let estimate = self.estimate(source, slot);
            if !is_near || !is_due || !self.budget.fits(estimate) {
                break;
            }
            jobs.push(self.begin_load(slot, estimate));
        }
        jobs
    }

    /// Whether the batch at the head needs a page, and nothing is under way that could
    /// make room for it.
    fn is_stuck(&self) -> bool {
        self.num_running == 0
            && self
                .next_load()
                .is_some_and(|(batch, _)| batch <= self.head)
    }

    /// First batch that must not be worked on.
    pub(super) fn fence(&self) -> BatchNumber {
        self.failure
            .as_ref()
            .map_or(BatchNumber::MAX, |(batch, _)| *batch)
    }

    /// One past the last batch that may be assembled. As many batches again must be
    /// planned, since a page is dropped after its last known use.
    pub(super) fn horizon(&self) -> BatchNumber {
        let known = LEAST_AHEAD.max(self.batches.len() / 2);
        self.head + self.ahead.min(known) as u64
    }

    pub(super) fn first_ready(&self) -> Option<BatchNumber> {
        let end = self.horizon().min(self.fence());
        self.ready.first().copied().filter(|&batch| batch < end)
    }

    pub(super) fn next_load(&self) -> Option<(BatchNumber, Slot)> {
        self.pages
            .next_load()
            .filter(|(batch, _)| *batch < self.fence())
    }

    fn head_holds_pages(&self) -> bool {
        self.batches.front().is_some_and(|head| {
            let num_left = head.uses.iter().filter(|&&slot| slot != DONE).count();
            num_left > head.num_missing
        })
    }
}
