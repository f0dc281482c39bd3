//! What the scheduler and the workers hand each other.

use std::sync::Arc;

use super::batch::Buffer;
use super::pages::{BatchNumber, Slot};
use super::plan::PreparedPlan;
use crate::decode::TokenPage;

/// What a worker does outside the lock.
#[derive(Debug)]
pub(super) enum Job {
    Load(LoadJob),
    Gather(GatherJob),
}

/// Load one page.
#[derive(Debug)]
pub(super) struct LoadJob {
    pub generation: u64,
    pub slot: Slot,
    pub estimate: usize,
    pub page: u64,
    pub recycled_bytes: usize,
    /// Memory to reuse.
    pub recycle: Option<TokenPage>,
    /// Pages to tell the source about first.
    pub advise: Vec<u64>,
}

/// Write the pages that are held into a batch.
#[derive(Debug)]
pub(super) struct GatherJob {
    pub generation: u64,
    pub batch: BatchNumber,
    pub plan: Arc<PreparedPlan>,
    pub number_in_plan: usize,
    /// Per use of the batch its page, if it is held and not written yet.
    pub pages: Vec<Option<Arc<TokenPage>>>,
    /// The batch so far; if there is none, so many must be allocated.
    pub buffer: Result<Buffer, usize>,
    /// Memory that was allocated beside it.
    pub spare_buffers: Vec<Buffer>,
    /// Whether the buffer was not filled with padding yet.
    pub is_new: bool,
}

/// Memory that is no longer needed, to be dropped outside the lock.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    pub pages: Vec<TokenPage>,
    pub buffers: Vec<Buffer>,
    /// Whether so much was freed that the allocator should be asked to return it.
    pub is_trim_due: bool,
}

impl Garbage {
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
