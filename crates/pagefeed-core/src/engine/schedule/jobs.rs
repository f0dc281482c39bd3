//! Choice of the next job.

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

/// The next work.
enum Choice {
    Gather(BatchNumber),
    /// Decode a page that was fetched.
    Decode((BatchNumber, Slot)),
    /// Load or fetch a page for a batch; pages needed later make room.
    Load(BatchNumber, Slot),
}

impl State {
    /// Whether there is work for a worker: whether [`State::next_job`] has some.
    pub fn has_work(&mut self, source: &dyn PageSource) -> bool {
        self.choose(source).is_some()
    }

    /// The next work of a worker, begun.
    pub fn next_job(&mut self, source: &dyn PageSource) -> Option<Job> {
        self.count_kept(source);
        let job = match self.choose(source)? {
            Choice::Gather(batch) => self.begin_gather(batch),
            Choice::Decode(key) => Job::Load(self.fetched.remove(&key)?),
            Choice::Load(batch, slot) => Job::Load(self.make_room_and_load(source, batch, slot)),
        };
        self.num_running += match &job {
            // A fetched page was counted when its fetch began.
            Job::Load(load) => usize::from(load.fetched.is_none()),
            Job::Gather(_) => 1,
        };
        self.budget.note_peak();
        Some(job)
    }

    /// The fetches that may begin now, begun: each of pages that are neighbours.
    pub fn begin_fetches(&mut self, source: &dyn PageSource) -> Vec<Vec<LoadJob>> {
        let most = source.num_wanted();
        if most > 0 {
            self.count_kept(source);
        }
        let mut fetches = Vec::new();
        while self.num_fetching < most
            && let Some((batch, slot)) = self.choose_fetch(source)
        {
            let first = self.make_room_and_load(source, batch, slot);
            let jobs = self.with_neighbours(source, first);
            self.num_running += jobs.len();
            self.num_fetching += 1;
            self.budget.note_peak();
            fetches.push(jobs);
        }
        fetches
    }

    /// Begins to load a page for a batch; pages needed later make room.
    fn make_room_and_load(
        &mut self,
        source: &dyn PageSource,
        batch: BatchNumber,
        slot: Slot,
    ) -> LoadJob {
        let estimate = self.estimate(source, slot);
        self.evict(batch, estimate);
        self.begin_load(slot, estimate)
    }

    /// Updates the bytes that the source keeps; pages make room for them.
    pub fn count_kept(&mut self, source: &dyn PageSource) {
        let before = std::mem::replace(&mut self.budget.source, source.held_bytes());
        if self.budget.source > before {
            self.keep_to_budget();
            self.budget.note_peak();
        }
    }

    /// The next work of a worker: the one answer for those that look for work and for
    /// those that are woken for it.
    fn choose(&mut self, source: &dyn PageSource) -> Option<Choice> {
        match source.num_in_flight() {
            _ if self.is_stopping => None,
            0 => self.choose_load_or_gather(source),
            _ => self.choose_beside_fetching(),
        }
    }

    /// Chooses work where the same threads load and gather.
    fn choose_load_or_gather(&mut self, source: &dyn PageSource) -> Option<Choice> {
        let ready = self.first_ready();
        if let Some((batch, slot)) = self.next_load() {
            let estimate = self.estimate(source, slot);
            let is_later = ready.is_some_and(|ready| ready <= batch)
                && (self.lead.loads_due < 1.0 || !self.budget.fits(estimate));
            let has_room = self.lead.has_slack() && self.budget.fits(estimate);
            if !is_later && (has_room || self.may_make_room(batch, estimate)) {
                return Some(Choice::Load(batch, slot));
            }
        }
        ready.map(Choice::Gather).or_else(|| self.choose_stuck())
    }

    /// Chooses to gather, or to decode fetched pages; what is needed first comes first.
    fn choose_beside_fetching(&mut self) -> Option<Choice> {
        let ready = self.first_ready();
        let fetched = self.fetched.first_key_value().map(|(key, _)| *key);
        if let Some(key) = fetched
            && ready.is_none_or(|ready| key.0 < ready)
        {
            return Some(Choice::Decode(key));
        }
        let stuck = || self.choose_stuck();
        let gather = ready.map(Choice::Gather).or_else(stuck);
        gather.filter(|choice| matches!(choice, Choice::Gather(_)))
    }

    /// Chooses a page to fetch, as far ahead as there is room to decode it.
    fn choose_fetch(&mut self, source: &dyn PageSource) -> Option<(BatchNumber, Slot)> {
        let (batch, slot) = self.next_load().filter(|_| !self.is_stopping)?;
        let estimate = self.estimate(source, slot);
        if self.budget.fits_ahead(estimate) || self.may_make_room(batch, estimate) {
            return Some((batch, slot));
        }
        match self.choose_stuck()? {
            Choice::Load(batch, slot) => Some((batch, slot)),
            _ => None,
        }
    }

    /// Whether a page is for a batch that may be written now, and fits if pages needed
    /// later are evicted.
    fn may_make_room(&mut self, batch: BatchNumber, bytes: usize) -> bool {
        batch < self.horizon() && self.can_make_room(batch, bytes)
    }

    /// Chooses if the batch at the head needs a page, and no running job could make room for
    /// it: pages of the batch in memory are written first. If there are none, the page is
    /// loaded although it does not fit, with as few other pages as possible.
    fn choose_stuck(&self) -> Option<Choice> {
        let (batch, slot) = self.next_load()?;
        let is_stuck = self.num_running == 0 && batch <= self.head;
        is_stuck.then(|| match self.head_holds_pages() {
            true => Choice::Gather(self.head),
            false => Choice::Load(batch, slot),
        })
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
        self.head + self.lead.batches.min(known) as u64
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
