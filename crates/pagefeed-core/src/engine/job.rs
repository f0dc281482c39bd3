//! What the scheduler and the workers hand each other.

use std::sync::Arc;

use super::Content;
use super::bundle::Bundle;
use super::pages::{BatchNumber, Slot};
use super::plan::PreparedPlan;

/// What a worker does outside the lock.
pub(super) enum Job<P: Content> {
    Load(LoadJob<P>),
    Gather(GatherJob<P>),
}

/// Load one page.
pub(super) struct LoadJob<P> {
    pub generation: u64,
    pub slot: Slot,
    pub estimate: usize,
    pub page: u64,
    /// What `page` is the key of, unless it is a page.
    pub bundle: Option<Arc<Bundle>>,
    pub recycled_bytes: usize,
    /// Memory to reuse.
    pub recycle: Option<P>,
    /// Pages to tell the source about first.
    pub advise: Vec<u64>,
    /// Bytes of the worker's scratch before the load.
    pub scratch_before: usize,
    /// After it, as far as it was kept.
    pub scratch_after: usize,
    /// And as far as it was not.
    pub scratch_freed: usize,
}

/// What a batch is written into.
pub(super) enum BatchMemory<B> {
    /// The batch so far, or memory for it.
    Ready(B),
    /// There is none: this many batches' must be allocated.
    Wanted(usize),
}

impl<B> BatchMemory<B> {
    pub fn ready(self) -> Option<B> {
        match self {
            Self::Ready(buffer) => Some(buffer),
            Self::Wanted(_) => None,
        }
    }
}

/// Write the pages that are held into a batch.
pub(super) struct GatherJob<P: Content> {
    pub generation: u64,
    pub batch: BatchNumber,
    pub plan: Arc<PreparedPlan>,
    pub number_in_plan: usize,
    /// Per use of the batch its page, if it is held and not written yet.
    pub pages: Vec<Option<Arc<P>>>,
    /// Per use of the batch what it is the key of; empty if all are pages.
    pub bundles: Vec<Option<Arc<Bundle>>>,
    pub memory: BatchMemory<P::Buffer>,
    /// Memory that was allocated beside it.
    pub spare_buffers: Vec<P::Buffer>,
    /// Whether the buffer was not filled with padding yet.
    pub is_new: bool,
    /// Whether no page is missing that was not written yet.
    pub is_last: bool,
}

/// Memory that is no longer needed, to be dropped outside the lock.
pub(super) struct Garbage<P: Content> {
    pub pages: Vec<P>,
    pub buffers: Vec<P::Buffer>,
    /// Whether so much was freed that the allocator should be asked to return it.
    pub is_trim_due: bool,
}

impl<P: Content> Default for Garbage<P> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            buffers: Vec::new(),
            is_trim_due: false,
        }
    }
}

impl<P: Content> Garbage<P> {
    pub fn discard(self) {
        drop((self.pages, self.buffers));
        if self.is_trim_due {
            // Freed pages leave holes that the next, slightly larger ones do not fit.
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            // SAFETY: may be called at any time by any thread.
            unsafe {
                libc::malloc_trim(0);
            }
        }
    }
}
