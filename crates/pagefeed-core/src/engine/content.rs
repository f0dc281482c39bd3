//! What an engine may carry: what a loaded page holds, and how batches are made of it.

use std::sync::Arc;

use super::EngineConfig;
use super::plan::{PreparedPlan, Segment};
use crate::error::{Error, Result};

/// A page as it is held in memory.
pub trait Content: Sized + Send + Sync + 'static {
    /// What batches are put together in.
    type Buffer: Send + 'static;

    /// Memory the page occupies, as allocated.
    fn num_bytes(&self) -> usize;

    /// Memory for a batch.
    fn new_buffer(config: &EngineConfig) -> Result<Self::Buffer>;

    /// Writes the pages that are there into a batch; an error is about one page.
    fn gather(batch: &Gathering<'_, Self>, buffer: &mut Self::Buffer) -> Result<(), (u64, Error)>;
}

/// A batch to be written, in part or in full.
pub struct Gathering<'a, P> {
    pub(super) config: &'a EngineConfig,
    pub(super) plan: &'a PreparedPlan,
    pub(super) number_in_plan: usize,
    /// Per use of the batch its page, if it is held and not written yet.
    pub(super) pages: &'a [Option<Arc<P>>],
    /// Whether nothing was written to the buffer yet.
    pub(super) is_new: bool,
}

impl<P> Gathering<'_, P> {
    /// Segments by destination; they do not overlap.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment> {
        let row_length = self.config.row_length;
        self.plan.segments(self.number_in_plan, row_length)
    }

    /// Whether segments cover all of the batch.
    pub(super) fn is_full(&self) -> bool {
        self.plan.is_full(self.number_in_plan)
    }
}
