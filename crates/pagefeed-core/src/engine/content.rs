//! What an engine may carry: what a loaded page holds, and how batches are made of it.

use std::sync::Arc;

use super::bundle::Bundle;
use super::plan::{PreparedPlan, Segment};
use super::{EngineConfig, EngineStats, PageSource};
use crate::error::{Error, Result};
use crate::page::PageOpener;

/// A page as it is held in memory.
pub trait Content: Sized + Send + Sync + 'static {
    /// What batches are put together in.
    type Buffer: Send + 'static;

    /// What a worker keeps from one load to the next.
    type Scratch: Default;

    /// Memory the page occupies, as allocated.
    fn num_bytes(&self) -> usize;

    /// Memory that the scratch occupies.
    fn scratch_bytes(_scratch: &Self::Scratch) -> usize {
        0
    }

    /// How many batches' memory is best allocated at once.
    fn buffers_at_once(_config: &EngineConfig) -> usize {
        1
    }

    /// Memory for `count` batches.
    fn new_buffers(config: &EngineConfig, count: usize) -> Result<Vec<Self::Buffer>>;

    /// Whether dropping the memory of a batch gives it back to the system.
    fn is_alone(_buffer: &Self::Buffer) -> bool {
        true
    }

    /// Loads the pages of a bundle as one; `recycle` as for [`PageSource::load`].
    fn load_bundle(
        _bundle: &Bundle,
        _source: &dyn PageSource<Self>,
        _config: &EngineConfig,
        _opener: &mut PageOpener,
        _scratch: &mut Self::Scratch,
        _recycle: Option<Self>,
    ) -> Result<Self> {
        Err(Error::invalid(
            "these are read page by page, not in bundles",
        ))
    }

    /// Adds what a finished batch came to.
    fn count(_buffer: &Self::Buffer, _stats: &mut EngineStats) {}

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
    /// Per use of the batch the bundle it is, unless it is a page.
    pub(super) bundles: &'a [Option<Arc<Bundle>>],
    /// Whether nothing was written to the buffer yet.
    pub(super) is_new: bool,
    /// Whether all is written that is not written yet.
    pub(super) is_last: bool,
}

impl<P> Gathering<'_, P> {
    /// Segments by destination; they do not overlap.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment> {
        let row_length = self.config.row_length;
        self.plan.segments(self.number_in_plan, row_length)
    }

    /// Tokens of the batch that segments cover.
    pub(super) fn num_covered(&self) -> usize {
        self.plan.num_covered(self.number_in_plan)
    }
}
