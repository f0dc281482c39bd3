//! Invariants whenever the lock is free: for simulations.

use std::sync::atomic::Ordering;

use super::State;
use super::pending::{DONE, Phase};
use crate::engine::PageSource;
use crate::engine::budget::Budget;

impl State {
    /// Checks the account; returns what is inconsistent. `outside` is the number of
    /// batches that the consumer has, if known; `source_bytes` is what the source keeps.
    pub fn audit(&self, outside: Option<usize>, source_bytes: usize) -> Result<(), String> {
        self.pages.audit()?;
        let sums = [
            ("held", self.budget.held, self.pages.held_bytes()),
            (
                "kept",
                self.budget.kept,
                self.kept.values().map(|kept| kept.bytes).sum(),
            ),
            (
                "pending_bytes",
                self.pending_bytes,
                self.batches.iter().map(|pending| pending.num_bytes()).sum(),
            ),
        ];
        for (name, counted, found) in sums {
            if counted != found {
                return Err(format!("{name} is {counted} bytes, there are {found}"));
            }
        }
        self.audit_batches()?;
        self.audit_room()?;
        let num_lost = self.pages.num_lost();
        if num_lost > 0 && self.failure.is_none() {
            return Err(format!(
                "{num_lost} pages will not be loaded, and nothing failed"
            ));
        }
        if self.num_fetching > self.num_running {
            let running = self.num_running;
            return Err(format!("{} fetches of {running} loads", self.num_fetching));
        }
        if self.num_running == 0 {
            self.audit_at_rest(outside)?;
            if self.budget.source != source_bytes {
                let counted = self.budget.source;
                return Err(format!(
                    "the source keeps {source_bytes} bytes, {counted} are counted"
                ));
            }
        }
        Ok(())
    }

    /// Checks, while all threads wait, that none sleeps for which there is work.
    pub fn audit_sleepers(&self, source: &dyn PageSource) -> Result<(), String> {
        if self.is_stopping {
            return Ok(());
        }
        let fetches_apart = source.num_in_flight() > 0;
        let is_due = |(batch, slot)| {
            let estimate = self.estimate(source, slot);
            match fetches_apart {
                true => self.budget.fits_ahead(estimate),
                false => {
                    let is_due = batch < self.horizon() || self.lead.has_slack();
                    is_due && self.budget.fits(estimate)
                }
            }
        };
        let may_load = self.next_load().is_some_and(is_due);
        if may_load && self.num_fetching < source.num_in_flight() {
            return Err(format!("a page is not fetched: {}", self.describe()));
        }
        let may_work = self.first_ready().is_some() || !self.fetched.is_empty();
        if self.num_idle > 0 && (may_work || (may_load && !fetches_apart)) {
            return Err(format!("a worker sleeps: {}", self.describe()));
        }
        Ok(())
    }

    /// Checks that the budget covers what is loaded and kept.
    fn audit_room(&self) -> Result<(), String> {
        // One page may always be loaded; memory that is used again may be larger than asked.
        let bytes = self.budget.held + self.budget.loading / 2;
        if self.pages.num_loading() > 1 && bytes > self.config.budget {
            return Err(format!("{bytes} bytes of pages are loaded at one time"));
        }
        self.audit_promises()?;
        // A worker keeps two kinds of it, each within its share.
        let share = Budget::scratch_share(&self.config);
        if self.budget.scratch > 2 * share * self.config.num_threads {
            return Err(format!("workers keep {} bytes", self.budget.scratch));
        }
        let plans = self.plan_bytes.load(Ordering::Relaxed);
        if plans != self.budget.plans || plans < self.pending_bytes {
            return Err(format!("plans take {plans} bytes"));
        }
        Ok(())
    }

    /// Checks that promised memory is neither used by others nor less than recorded.
    fn audit_promises(&self) -> Result<(), String> {
        let (limit, room) = (self.config.budget, self.budget.for_pages());
        let batch = self.config.batch_bytes();
        // What a consumer keeps beyond half of the budget is its own memory.
        let batches = (self.budget.num_buffers * batch).min(limit / 2);
        let kept = self.budget.source + self.budget.scratch;
        let taken = batches + kept + self.budget.plans;
        if room > 0 && room + taken > limit {
            return Err(format!(
                "pages may take {room} bytes of {limit}, others have {taken}"
            ));
        }
        let most = (limit / 2).max(batch) + kept + self.budget.most_plans;
        if room < limit.saturating_sub(most) {
            return Err(format!(
                "pages may take {room} bytes of {limit}, others {most} at most"
            ));
        }
        Ok(())
    }

    /// Checks the missing and ready batches, one by one.
    fn audit_batches(&self) -> Result<(), String> {
        let mut num_uses = 0;
        for (batch, pending) in (self.head..).zip(&self.batches) {
            let is_far = batch > self.head && batch >= self.head + self.lead.batches as u64;
            if is_far && !matches!(pending.phase, Phase::Waiting) {
                return Err(format!(
                    "batch {batch} is begun, {} may be",
                    self.lead.batches
                ));
            }
            let left = pending.uses.iter().filter(|&&slot| slot != DONE);
            num_uses += left.clone().count();
            if left.clone().any(|&slot| !self.pages.is_used(slot, batch)) {
                return Err(format!("batch {batch} uses a page that does not know it"));
            }
            let missing = left.filter(|&&slot| !self.pages.is_held(slot)).count();
            if missing != pending.num_missing {
                return Err(format!(
                    "batch {batch} counts {} pages as missing, {missing} are",
                    pending.num_missing
                ));
            }
            if pending.is_ready() != self.ready.contains(&batch) {
                return Err(format!("batch {batch} is ready or not"));
            }
            if matches!(pending.phase, Phase::Done) && missing > 0 {
                return Err(format!("batch {batch} is done without {missing} pages"));
            }
        }
        if num_uses != self.pages.num_uses() {
            return Err(format!(
                "pages have {} uses, batches {num_uses}",
                self.pages.num_uses()
            ));
        }
        let is_known = |batch: &u64| (self.head..self.end()).contains(batch);
        if !self.ready.iter().all(is_known) {
            return Err("a batch is ready that is not there".to_string());
        }
        Ok(())
    }

    /// Checks the account while no thread has a job.
    fn audit_at_rest(&self, outside: Option<usize>) -> Result<(), String> {
        if self.budget.loading > 0 {
            let bytes = self.budget.loading;
            return Err(format!("nothing is loaded, at {bytes} bytes"));
        }
        if self.pages.num_readers() > 0 || !self.fetched.is_empty() {
            return Err(format!(
                "nothing runs, {} pages are read, {} fetched",
                self.pages.num_readers(),
                self.fetched.len()
            ));
        }
        let in_batches = self.batches.iter().filter(|batch| batch.buffer.is_some());
        let found = self.spare_buffers.len() + in_batches.count();
        if let Some(outside) = outside
            && self.budget.num_buffers != found + outside
        {
            return Err(format!(
                "{} batches' memory is counted, {found} are here and {outside} outside",
                self.budget.num_buffers
            ));
        }
        let in_batches = self
            .batches
            .iter()
            .filter_map(|batch| batch.buffer.as_ref());
        let here = self.spare_buffers.iter().chain(in_batches);
        let bytes: usize = here.map(|buffer| buffer.counted_bytes).sum();
        if outside == Some(0) && self.budget.batches != bytes {
            return Err(format!(
                "batches are counted with {} bytes, and have {bytes}",
                self.budget.batches
            ));
        }
        Ok(())
    }

    /// Describes the state, for messages.
    pub fn describe(&self) -> String {
        format!(
            "batch {} is next of {}; ready {:?}, next load {:?}, fetched {}, running {}, idle {}, \
             {} fetches, failure {:?}, {:?}, {:?}",
            self.head,
            self.batches.len(),
            self.ready,
            self.pages.next_load(),
            self.fetched.len(),
            self.num_running,
            self.num_idle,
            self.num_fetching,
            self.failure,
            self.budget,
            self.batches
                .front()
                .map(|head| (&head.phase, head.num_missing, &head.uses)),
        )
    }

    /// Whether all memory was given up.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
            && self.budget.held + self.budget.kept + self.pending_bytes == 0
            && self.spare_buffers.is_empty()
    }
}
