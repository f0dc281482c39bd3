//! Whether batches and errors are those that a consumer must get.

use pagefeed_core::engine::{Batch, TokenType};
use pagefeed_core::error::{Error, Kind};
use pagefeed_core::fields::Field;
use pagefeed_core::sync::simulated::{fail, note};

use crate::consumer::Consumer;
use crate::pages::Fault;
use crate::plans::values;

impl Consumer {
    /// Whether a batch is the next one, and holds what it should.
    pub fn judge(&self, batch: Batch, seeks: u64) {
        note("gets a batch");
        let next = match self.case.num_takers {
            1 => self.submitted.borrow_mut().next(),
            _ => self.find(&batch),
        };
        let Some(next) = next else {
            if seeks == self.num_seeks.get() && self.case.num_takers == 1 {
                fail("a batch comes that no plan has");
            }
            self.drop_batch(batch);
            return;
        };
        self.check(&batch, next, "a batch is wrong");
        self.kept.borrow_mut().push((next, batch));
        self.give_back_some();
    }

    /// The number of a batch that one of several threads took: they may come back in any
    /// order.
    fn find(&self, batch: &Batch) -> Option<usize> {
        let found = self.values(batch);
        let mut submitted = self.submitted.borrow_mut();
        let mut early = self.early.borrow_mut();
        let mut near = submitted.clone().filter(|number| !early.contains(number));
        let Some(number) = near.find(|&number| self.case.course.expected[number] == found) else {
            fail(&format!("a batch comes that no plan has: {found:?}"));
        };
        early.push(number);
        while let Some(at) = early.iter().position(|&one| one == submitted.start) {
            early.swap_remove(at);
            submitted.start += 1;
        }
        Some(number)
    }

    fn values(&self, batch: &Batch) -> Vec<i64> {
        let bytes = &batch.bytes()[batch.range(Field::InputIds)];
        let mut found = values(bytes, self.case.config.token_type);
        if self.case.config.token_type == TokenType::U16 {
            found.iter_mut().for_each(|value| *value &= 0xffff);
        }
        found
    }

    pub fn check(&self, batch: &Batch, number: usize, what: &str) {
        let (found, expected) = (self.values(batch), &self.case.course.expected[number]);
        if found != *expected {
            fail(&format!(
                "{what}: batch {number} is {found:?}, not {expected:?}"
            ));
        }
    }

    /// Whether an error is that of the next batch, and names its page.
    pub fn judge_error(&self, error: &Error) {
        note("gets an error");
        if self.is_over(error) {
            return;
        }
        let text = error.to_string();
        let next = self.submitted.borrow().start;
        let total = self.case.course.expected.len();
        // Others may not have judged what they took before.
        let num_early = self.early.borrow().len();
        let near = next..(next + num_early + self.case.num_takers);
        let named = error.location().page;
        let is_named = |page: u64, fault| match fault {
            // The first of joined pages is named where the reader itself fails.
            Fault::Panics => named.map_or(self.case.source.has_slices, |named| {
                (named..named + 3).contains(&page)
            }),
            // The first of the pages that are fetched together.
            Fault::Breaks | Fault::Lost => {
                named.map_or(self.case.source.has_slices, |named| named <= page)
            }
            _ => named == Some(page),
        };
        let faults = self.case.source.faults.borrow();
        let is_own = faults.iter().any(|(&page, planned)| {
            let is_kind = match planned.fault {
                Fault::Refused => matches!(error.kind(), Kind::Io(_)),
                Fault::Damaged => error.kind() == Kind::Checksum,
                Fault::Short => error.kind() == Kind::Corrupt,
                Fault::Changed => error.kind() == Kind::Stale,
                Fault::Panics | Fault::Breaks | Fault::Lost => error.kind() == Kind::Internal,
                Fault::Never => error.kind() == Kind::Cancelled,
            };
            let mut near = near.clone().filter(|&batch| batch < total);
            let is_needed = |batch| match self.case.source.comes_along(planned.fault) {
                // What is fetched together fails together.
                Some(pages) => {
                    let file = page / pages * pages;
                    (file..=page).any(|page| self.case.course.needs(batch, page))
                }
                None => self.case.course.needs(batch, page),
            };
            is_kind && is_named(page, planned.fault) && near.any(is_needed)
        });
        if !is_own {
            fail(&format!(
                "batch {next} fails for another reason than its own: {text}"
            ));
        }
    }

    pub fn is_over(&self, error: &Error) -> bool {
        self.is_closing.get() && error.kind() == Kind::Cancelled
    }

    /// Whether the storage never answers for a page of what was submitted.
    pub fn may_never_come(&self) -> bool {
        let faults = self.case.source.faults.borrow();
        faults.values().any(|planned| planned.fault == Fault::Never)
    }
}
