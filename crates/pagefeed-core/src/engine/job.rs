//! What the scheduler and the workers hand each other.

use std::sync::Arc;

use arrow_array::ArrayRef;

use super::assembly::batch::Buffer;
use super::bundle::Bundle;
use super::page::Scratch;
use super::pages::{BatchNumber, Slot};
use super::plan::PreparedPlan;
use super::{EngineConfig, Page, PageSource, PartReads};
use crate::error::Result;
use crate::storage::Fetched;
use crate::tokens::TokenPage;

/// What a worker does outside the lock.
pub(super) enum Job {
    /// Read pages that lie together, to be decoded later.
    Fetch(Vec<LoadJob>),
    /// Make a page, of what was fetched if it was.
    Load(LoadJob),
    Gather(GatherJob),
}

/// Load one page.
pub(super) struct LoadJob {
    pub generation: u64,
    pub slot: Slot,
    pub estimate: usize,
    pub page: u64,
    /// What `page` is the key of, unless it is a page.
    pub bundle: Option<Arc<Bundle>>,
    /// What was fetched of each of its pages, if that is done apart.
    pub fetched: Option<Vec<Fetched>>,
    pub recycled_bytes: usize,
    /// Memory to reuse.
    pub recycle: Option<TokenPage>,
    /// Pages to tell the source about first.
    pub advise: Vec<u64>,
    /// Bytes of the worker's scratch before the load.
    pub scratch_before: usize,
    /// After it, as far as it was kept.
    pub scratch_after: usize,
    /// And as far as it was not.
    pub scratch_freed: usize,
}

impl LoadJob {
    /// The pages that are read.
    pub fn pages(&self) -> Vec<u64> {
        match &self.bundle {
            None => vec![self.page],
            Some(bundle) => bundle.pages(),
        }
    }

    /// The page that an error of unknown place is about.
    pub fn first_page(&self) -> u64 {
        let first = self.bundle.as_ref().and_then(|bundle| bundle.first_page());
        first.unwrap_or(self.page)
    }

    /// Makes the page of what was fetched, and reads what was not.
    pub fn decode(
        &mut self,
        source: &dyn PageSource,
        config: &EngineConfig,
        scratch: &mut Scratch,
    ) -> Result<Page> {
        let fetched = self.fetched.take().unwrap_or_default();
        let recycle = self.recycle.take();
        match &self.bundle {
            None => {
                let fetched = fetched.first().unwrap_or(Fetched::NOTHING);
                source.decode(&mut scratch.opener, self.page, fetched, recycle)
            }
            Some(bundle) => bundle
                .decode(source, config, &fetched, scratch, recycle)
                .map(Page::Tokens),
        }
    }
}

/// What a batch is written into.
pub(super) enum BatchMemory {
    /// The batch so far, or memory for it.
    Ready(Buffer),
    /// There is none: this many batches' must be allocated.
    Wanted(usize),
}

impl BatchMemory {
    pub fn ready(self) -> Option<Buffer> {
        match self {
            Self::Ready(buffer) => Some(buffer),
            Self::Wanted(_) => None,
        }
    }
}

/// Write the pages that are held into a batch.
pub(super) struct GatherJob {
    pub generation: u64,
    pub batch: BatchNumber,
    pub plan: Arc<PreparedPlan>,
    pub number_in_plan: usize,
    /// Per use of the batch its page, if it is held and not written yet.
    pub pages: Vec<Option<Arc<Page>>>,
    /// Per use of the batch whether there is one.
    pub was_read: Vec<bool>,
    /// Per use of the batch what it is the key of; empty if all are pages.
    pub bundles: Vec<Option<Arc<Bundle>>>,
    pub memory: BatchMemory,
    /// Memory that was allocated beside it.
    pub spare_buffers: Vec<Buffer>,
    /// Whether the buffer was not filled with padding yet.
    pub is_new: bool,
    /// Whether no page is missing that was not written yet.
    pub is_last: bool,
    /// What was read for it beside pages.
    pub reads: PartReads,
    /// Bytes that the worker kept for that before, and after.
    pub scratch_before: usize,
    pub scratch_after: usize,
}

/// Memory that is no longer needed, to be dropped outside the lock.
#[derive(Default)]
pub(super) struct Garbage {
    pub pages: Vec<Page>,
    /// What was known of rows.
    pub rows: Vec<ArrayRef>,
    pub buffers: Vec<Buffer>,
    /// Whether so much was freed that the allocator should be asked to return it.
    pub is_trim_due: bool,
}

impl Garbage {
    pub fn discard(self) {
        drop((self.pages, self.rows, self.buffers));
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
