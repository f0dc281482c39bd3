//! Jobs that the scheduler and the workers hand each other.

use std::sync::Arc;

use super::assembly::buffer::Buffer;
use super::bundle::Bundle;
use super::page_key::PageKey;
use super::pages::{BatchNumber, Slot};
use super::plan::PreparedPlan;
use super::{EngineConfig, Loading, Page, PageSource, SliceReads};
use crate::error::Result;
use crate::page::PageOpener;
use crate::storage::Fetched;

/// Work of a thread outside the lock.
#[expect(clippy::large_enum_variant, reason = "a thread holds only one job")]
pub(super) enum Job {
    /// Decode a page; read it first if it was not fetched.
    Load(LoadJob),
    Gather(GatherJob),
}

/// Load one page.
pub(super) struct LoadJob {
    pub generation: u64,
    pub slot: Slot,
    pub estimate: usize,
    pub page: PageKey,
    /// The bundle, if `page` is the key of one.
    pub bundle: Option<Arc<Bundle>>,
    /// Bytes fetched of each of its pages, if fetching is a separate job.
    pub fetched: Option<Vec<Fetched>>,
    /// Pages to announce to the source first.
    pub advise: Vec<u64>,
    /// Bytes of the worker's buffers before the load.
    pub scratch_before: usize,
    /// Bytes kept afterwards.
    pub scratch_after: usize,
}

impl LoadJob {
    /// The pages that are read.
    pub fn pages(&self) -> Vec<u64> {
        match &self.bundle {
            None => vec![self.page.page],
            Some(bundle) => bundle.pages(),
        }
    }

    /// Page that an error without a page is attributed to.
    pub fn first_page(&self) -> u64 {
        let first = self.bundle.as_ref().and_then(|bundle| bundle.first_page());
        first.unwrap_or(self.page.page)
    }

    /// Decodes the page from what was fetched, and reads the rest.
    pub fn decode(
        &mut self,
        source: &dyn PageSource,
        config: &EngineConfig,
        opener: &mut PageOpener,
    ) -> Result<Page> {
        let fetched = self.fetched.take().unwrap_or_default();
        let PageKey { page, epoch } = self.page;
        match &self.bundle {
            None => {
                let loading = Loading {
                    opener,
                    fetched: fetched.first().unwrap_or(Fetched::NOTHING),
                    epoch,
                };
                source.decode(page, loading)
            }
            Some(bundle) => bundle
                .decode(source, config, epoch, &fetched, opener)
                .map(Page::Tokens),
        }
    }
}

/// The memory a batch is written to.
#[expect(clippy::large_enum_variant, reason = "a job holds one value")]
pub(super) enum BatchMemory {
    /// The batch so far, or memory for it.
    Ready(Buffer),
    /// No memory: buffers for this many batches must be allocated.
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

/// Write pages in memory into a batch.
pub(super) struct GatherJob {
    pub generation: u64,
    pub batch: BatchNumber,
    pub plan: Arc<PreparedPlan>,
    pub number_in_plan: usize,
    /// Page of each use of the batch, if it is in memory and not written yet.
    pub pages: Vec<Option<Arc<Page>>>,
    /// Whether each use of the batch has a page.
    pub was_read: Vec<bool>,
    /// Bundle of each use of the batch; empty if all uses are pages.
    pub bundles: Vec<Option<Arc<Bundle>>>,
    pub memory: BatchMemory,
    /// Further buffers that were allocated with it.
    pub spare_buffers: Vec<Buffer>,
    /// Whether the buffer still lacks its padding.
    pub is_new: bool,
    /// Whether this job writes all that the batch still lacks.
    pub is_last: bool,
    /// Reads for the batch besides pages.
    pub reads: SliceReads,
    /// Bytes that a batch has by the settings, for a rehearsal that writes none.
    pub thought_bytes: usize,
    /// Bytes of scratch memory that the worker kept before the job, and after it.
    pub scratch_before: usize,
    pub scratch_after: usize,
}

impl GatherJob {
    /// Gives the batch its memory, if it has none.
    pub fn allocate(&mut self) -> Result<()> {
        if let BatchMemory::Wanted(count) = self.memory {
            let mut buffers = Buffer::map(&self.plan.config.sections(), count)?;
            if let Some(buffer) = buffers.pop() {
                self.memory = BatchMemory::Ready(buffer);
            }
            self.spare_buffers = buffers;
        }
        Ok(())
    }
}

/// Memory that is no longer needed, to be dropped outside the lock.
#[derive(Default)]
pub(super) struct Garbage {
    pub pages: Vec<Page>,
    pub buffers: Vec<Buffer>,
    /// Whether so much was freed that the allocator should return it to the system.
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
