//! What to do next.

use super::State;
use super::pending::DONE;
use crate::engine::job::Job;
use crate::engine::pages::{BatchNumber, Slot};
use crate::engine::{Content, PageSource};

impl<P: Content> State<P> {
    /// Whether an idle worker should look for work: true more often than there is.
    pub fn may_have_work(&self, source: &dyn PageSource<P>) -> bool {
        self.first_ready().is_some()
            || self.next_load().is_some_and(|(batch, slot)| {
                batch < self.horizon() || self.budget.fits(self.estimate(source, slot))
            })
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
            return Some(self.begin_load(slot, estimate));
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
        Some(self.begin_load(slot, estimate))
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

    fn head_holds_pages(&self) -> bool {
        self.batches.front().is_some_and(|head| {
            let num_left = head.uses.iter().filter(|&&slot| slot != DONE).count();
            num_left > head.num_missing
        })
    }
}
