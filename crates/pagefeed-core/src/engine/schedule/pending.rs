//! Batches that were submitted and not taken yet.

use std::sync::Arc;

use crate::engine::assembly::buffer::Buffer;
use crate::engine::pages::Slot;
use crate::engine::plan::PreparedPlan;

/// A use that was gathered, or is read when its batch is.
pub(super) const DONE: Slot = Slot::MAX;

#[derive(Debug)]
pub(super) enum Phase {
    Waiting,
    Gathering,
    Done,
}

/// A batch submitted and not yet taken.
#[derive(Debug)]
pub(super) struct Pending {
    pub plan: Arc<PreparedPlan>,
    pub number_in_plan: usize,
    /// Slots of the pages it needs; `DONE` once gathered.
    pub uses: Vec<Slot>,
    /// Number of uses whose pages are not in memory.
    pub num_missing: usize,
    pub phase: Phase,
    pub buffer: Option<Buffer>,
}

impl Pending {
    /// Bytes that are freed with the batch; the last batch of a plan includes the plan.
    pub fn num_bytes(&self) -> usize {
        let is_last = self.number_in_plan + 1 == self.plan.num_batches();
        let plan = if is_last { self.plan.num_bytes() } else { 0 };
        plan + size_of::<Self>() + self.uses.capacity() * size_of::<Slot>()
    }

    pub fn is_ready(&self) -> bool {
        self.num_missing == 0 && matches!(self.phase, Phase::Waiting)
    }
}
