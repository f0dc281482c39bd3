//! Batches that are written.

use std::sync::Arc;

use super::State;
use super::pending::{DONE, Phase};
use crate::engine::assembly::buffer::Buffer;
use crate::engine::job::{BatchMemory, GatherJob, Job};
use crate::engine::pages::KeptPage;
use crate::engine::pages::{BatchNumber, FETCHED_AT_ONCE, Slot};
use crate::engine::{Page, SliceReads};
use crate::error::Result;

/// Pages that may be loaded ahead while a batch could be written; the remaining due
/// pages are loaded between the next batches.
const MAX_LOADS_DUE: f32 = 4.0;

impl State {
    pub(super) fn begin_gather(&mut self, batch: BatchNumber) -> Job {
        let loads = self.pages.fresh_per_batch(self.head);
        self.lead.loads_due = (self.lead.loads_due + loads).min(MAX_LOADS_DUE);
        self.ready.remove(&batch);
        let position = (batch - self.head) as usize;
        let pending = &mut self.batches[position];
        let is_usual = pending.plan.config.batch_rows == self.config.batch_rows;
        pending.phase = Phase::Gathering;
        let mut pages = Vec::with_capacity(pending.uses.len());
        for slots in pending.uses.chunks(FETCHED_AT_ONCE) {
            self.pages.fetch(slots);
            self.pages.fetch_held(slots);
            pages.extend(slots.iter().map(|&slot| match slot {
                DONE => None,
                slot => self.pages.pin(slot),
            }));
        }
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
            None if is_usual => Buffer::take_near(&mut self.spare_buffers),
            begun => begun,
        };
        let memory = match buffer {
            Some(buffer) => BatchMemory::Ready(buffer),
            None => {
                let best = Buffer::num_at_once(self.config.sections().num_bytes());
                let most = if is_usual { best } else { 1 };
                let count = self.budget.buffers_at_once(most);
                self.budget.num_buffers += count;
                BatchMemory::Wanted(count)
            }
        };
        Job::Gather(GatherJob {
            generation: self.generation,
            batch,
            plan: Arc::clone(&pending.plan),
            number_in_plan: pending.number_in_plan,
            was_read: pages.iter().map(Option::is_some).collect(),
            pages,
            bundles,
            memory,
            spare_buffers: Vec::new(),
            is_new,
            is_last,
            reads: SliceReads::default(),
            thought_bytes: 0,
            scratch_before: 0,
            scratch_after: 0,
        })
    }

    /// Records a batch that was written, wholly or in part.
    pub fn end_gather(&mut self, mut job: GatherJob, result: Result<()>) {
        self.num_running -= 1;
        job.pages.clear();
        if let BatchMemory::Wanted(count) = job.memory {
            self.budget.num_buffers -= count; // They could not be allocated.
        }
        for buffer in std::mem::take(&mut job.spare_buffers) {
            self.take_back(buffer);
        }
        if let BatchMemory::Ready(buffer) = &mut job.memory {
            let bytes = buffer.held_bytes().max(job.thought_bytes);
            // Columns and the cells of which they were made took memory at one time.
            self.budget
                .count_batch(buffer, bytes + buffer.column_bytes());
            self.budget.note_peak();
            self.budget.count_batch(buffer, bytes);
        }
        self.budget.scratch += job.scratch_after;
        self.budget.scratch -= job.scratch_before;
        self.stats.slices_read += job.reads.reads;
        self.stats.bytes_read += job.reads.bytes;
        if job.generation != self.generation {
            if let BatchMemory::Ready(buffer) = job.memory {
                self.take_back(buffer);
            }
            return;
        }
        let position = (job.batch - self.head) as usize;
        let mut uses = std::mem::take(&mut self.batches[position].uses);
        let chunks = job.was_read.chunks(FETCHED_AT_ONCE);
        for (slots, were_read) in uses.chunks_mut(FETCHED_AT_ONCE).zip(chunks) {
            self.pages.fetch(slots);
            let read = slots.iter_mut().zip(were_read).filter(|(_, read)| **read);
            for (slot, _) in read {
                let slot = std::mem::replace(slot, DONE);
                let key = self.pages.page(slot);
                match self.pages.unpin(slot, job.batch) {
                    // Rows alone: packed bundles and pages of tokens are read in order.
                    Some((page, bytes)) if self.keeps_used && matches!(*page, Page::Rows(_)) => {
                        self.budget.held -= bytes;
                        let bundle = None;
                        self.keep(
                            key,
                            KeptPage {
                                page,
                                bundle,
                                bytes,
                            },
                        );
                    }
                    Some((page, bytes)) => self.drop_page(page, bytes),
                    None => {}
                }
            }
        }
        let is_done = uses.iter().all(|&slot| slot == DONE);
        let pending = &mut self.batches[position];
        pending.uses = uses;
        pending.buffer = job.memory.ready();
        pending.phase = if is_done { Phase::Done } else { Phase::Waiting };
        if pending.is_ready() {
            self.ready.insert(job.batch);
        }
        if let Err(error) = result {
            self.fail(job.batch, error);
        }
        self.drop_surplus();
        self.budget.note_peak();
    }
}
