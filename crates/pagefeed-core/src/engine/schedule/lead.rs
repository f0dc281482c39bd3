//! Lead of batches and pages before their turn: further after
//! a late batch, and less far again once all are in time.

use crate::engine::pages::BatchNumber;

/// Batches written before they are asked for, until one is late; one per worker if that
/// is more.
const FIRST_BATCHES: usize = 2;

/// The lead grows at a late batch only if this many batches in a row, times the lead, were
/// in time before it. If workers are always slower than the consumer, a lead does not help.
const IN_TIME: usize = 4;

/// Batches in a row in time after which the lead falls by one step.
const CALM: usize = 512;

/// Pages that may be loaded before they are due: at first, the factor by which the number
/// grows after a batch that was late for lack of pages, and the most.
const FIRST_SLACK: f32 = 32.0;
const SLACK_STEP: f32 = 8.0;
const MOST_SLACK: f32 = 512.0 * FIRST_SLACK;

pub(super) struct Lead {
    num_threads: usize,
    /// Whether the storage answers late: it is asked as far ahead as there is room.
    is_late: bool,
    /// Batches that may be written before they are asked for. With fewer buffers in
    /// turn, more of them stay in the processor's cache.
    pub batches: usize,
    /// Whether all `batches` were finished ahead at some time since the limit last grew:
    /// then a higher limit could help.
    was_full: bool,
    /// The last batch that was asked for before it was finished.
    late: BatchNumber,
    /// Batches taken in a row that were finished when they were asked for.
    num_in_time: usize,
    /// Pages to load so that loads are spread evenly over the batches that are planned:
    /// where an epoch begins many pages are opened, where it ends almost none. Negative:
    /// pages that were loaded before they were due.
    pub loads_due: f32,
    /// Pages that may be loaded before they are due. With fewer, more of them are in the
    /// processor's cache when they are used; more outlast a storage that is slow at times.
    slack: f32,
}

impl Lead {
    pub fn new(num_threads: usize, is_late: bool, most: usize) -> Self {
        let mut lead = Self {
            num_threads,
            is_late,
            batches: 0,
            was_full: false,
            late: 0,
            num_in_time: 0,
            loads_due: 0.0,
            slack: FIRST_SLACK,
        };
        lead.reset(most);
        lead
    }

    /// Starts again without pending batches; there is room for `most` batches.
    pub fn reset(&mut self, most: usize) {
        (self.batches, self.was_full) = (self.first_batches(most), false);
        (self.loads_due, self.slack) = (0.0, FIRST_SLACK);
        self.num_in_time = 0;
    }

    /// Continues with batches of a different size.
    pub fn resize(&mut self, most: usize) {
        self.batches = self.batches.clamp(self.first_batches(most), most);
    }

    fn first_batches(&self, most: usize) -> usize {
        match self.is_late {
            true => most,
            false => FIRST_BATCHES.max(self.num_threads + 1).min(most),
        }
    }

    /// Whether pages may be loaded that are not due.
    pub fn has_slack(&self) -> bool {
        self.loads_due > -self.slack || self.is_late
    }

    /// Counts a load. Loads beyond the slack are not counted: they are for batches that
    /// are about to be written.
    pub fn count_load(&mut self) {
        let counted = (self.loads_due - 1.0).max(-self.slack);
        self.loads_due = self.loads_due.min(counted);
    }

    /// Notes that a batch was asked for before it was finished. If a longer lead could have
    /// helped, one more batch is written ahead from then on, and more pages are loaded
    /// ahead if pages were missing. Returns whether either limit grew.
    pub fn note_late(&mut self, batch: BatchNumber, misses_pages: bool, most: usize) -> bool {
        self.late = batch;
        let is_rare = std::mem::take(&mut self.num_in_time) >= IN_TIME * self.batches;
        let gets_slack = is_rare && misses_pages && self.slack < MOST_SLACK;
        if gets_slack {
            self.slack *= SLACK_STEP;
        }
        let gets_batch = is_rare && self.was_full && self.batches < most;
        if gets_batch {
            self.batches += 1;
            self.was_full = false;
        }
        gets_slack || gets_batch
    }

    /// Notes that the batch at the head is taken, and whether all batches of the lead are
    /// finished. Returns whether the batch was in time.
    pub fn note_taken(&mut self, batch: BatchNumber, is_full: bool) -> bool {
        self.was_full |= is_full;
        let is_in_time = self.late != batch;
        if is_in_time {
            self.num_in_time += 1;
            if self.num_in_time.is_multiple_of(CALM) {
                self.fall();
            }
        }
        is_in_time
    }

    /// Shortens the lead by one step. At the same time the head moves by one batch, so that
    /// no begun batch lies beyond the lead.
    fn fall(&mut self) {
        self.slack = (self.slack / SLACK_STEP).max(FIRST_SLACK);
        if self.batches > self.first_batches(self.batches) {
            self.batches -= 1;
        }
    }

    #[cfg(test)]
    pub fn wait_after_many(&mut self, batch: BatchNumber, is_missing: bool, most: usize) -> f32 {
        self.num_in_time = IN_TIME * self.batches;
        self.note_late(batch, is_missing, most);
        self.slack
    }
}
