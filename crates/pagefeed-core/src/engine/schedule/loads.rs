//! Loads of pages, and the memory they take: what is evicted for them, what is used again.

use std::sync::Arc;

use super::State;
use crate::engine::job::LoadJob;
use crate::engine::pages::{BatchNumber, KeptPage, Slot};
use crate::engine::{Page, PageSource};
use crate::error::Result;
use crate::storage::Fetched;

/// Distance in pages at which the source learns of a page before its load.
const ADVICE_DISTANCE: usize = 256;
/// Pages that the source learns of at once.
const ADVICE_AT_ONCE: usize = 16;

/// Largest size of a page that is believed, so that sums cannot overflow.
const MAX_ESTIMATE: usize = usize::MAX >> 8;

impl State {
    /// Bytes that a page takes while it is loaded.
    pub(super) fn estimate(&self, source: &dyn PageSource, slot: Slot) -> usize {
        let entry = self.pages.entry(slot);
        let decoded = source.decoded_size(entry);
        decoded.saturating_add(entry.loading_size).min(MAX_ESTIMATE)
    }

    /// The kind of a page, and the bytes that it decodes to, as far as known.
    pub fn thought_of(&self, source: &dyn PageSource, slot: Slot) -> (usize, usize) {
        let entry = self.pages.entry(slot);
        (entry.kind, source.decoded_size(entry).min(MAX_ESTIMATE))
    }

    /// Whether there is room, if pages needed later than `batch` are evicted.
    pub(super) fn can_make_room(&mut self, batch: BatchNumber, bytes: usize) -> bool {
        let (pages, budget) = (&mut self.pages, &self.budget);
        pages.can_free(batch, |freed| budget.fits_without(freed, bytes))
    }

    /// Evicts pages needed later than `batch`, farthest first, until there is room or
    /// none is left.
    pub(super) fn evict(&mut self, batch: BatchNumber, bytes: usize) {
        while !self.budget.fits(bytes) {
            let Some(slot) = self.pages.farthest_after(batch) else {
                return;
            };
            let waiting: Vec<BatchNumber> = self.pages.uses(slot).collect();
            for needing in waiting {
                if let Some(pending) = self.pending(needing) {
                    pending.num_missing += 1;
                    self.ready.remove(&needing);
                }
            }
            if let Some((page, bytes)) = self.pages.evict(slot) {
                self.drop_page(page, bytes);
            }
        }
    }

    /// Drops pages that are not needed first, if others took their room.
    pub(super) fn keep_to_budget(&mut self) {
        self.evict(self.head, 0);
        self.drop_surplus();
    }

    pub(super) fn begin_load(&mut self, slot: Slot, estimate: usize) -> LoadJob {
        if self.pages.begin_load(slot) {
            self.stats.pages_reloaded += 1;
        }
        let page = self.pages.page(slot);
        let bundle = self.pages.bundle(slot).cloned();
        self.stats.pages_loaded += 1;
        self.lead.count_load();
        self.stats.bytes_read += self.pages.entry(slot).stored_size as u64;
        self.budget.loading += estimate;
        self.drop_surplus();
        let distance = (self.config.budget / 4 / estimate.max(1)).min(ADVICE_DISTANCE);
        let advise = std::iter::from_fn(|| self.pages.advise(distance));
        LoadJob {
            generation: self.generation,
            slot,
            estimate,
            page,
            bundle,
            fetched: None,
            advise: advise.take(ADVICE_AT_ONCE).collect(),
            scratch_before: 0,
            scratch_after: 0,
        }
    }

    /// Records pages that were fetched together, or failed.
    pub fn end_fetch(&mut self, jobs: Vec<LoadJob>, result: Result<Vec<Vec<Fetched>>>) {
        self.num_fetching -= 1;
        match result {
            Ok(fetched) => {
                for (mut job, fetched) in jobs.into_iter().zip(fetched) {
                    if job.generation == self.generation {
                        job.fetched = Some(fetched);
                        let batch = self.pages.next_use(job.slot);
                        self.fetched.insert((batch, job.slot), job);
                    } else {
                        self.drop_load(&job);
                    }
                }
            }
            Err(error) => {
                let failed = |job: &LoadJob| self.end_load(job, Err(error.clone()));
                jobs.iter().for_each(failed);
            }
        }
    }

    /// Drops a load that no batch waits for any more.
    pub(super) fn drop_load(&mut self, job: &LoadJob) {
        self.num_running -= 1;
        self.budget.loading -= job.estimate;
    }

    /// Records a page that was loaded, or failed.
    pub fn end_load(&mut self, job: &LoadJob, result: Result<Page>) {
        self.num_running -= 1;
        self.budget.loading -= job.estimate;
        self.budget.scratch += job.scratch_after;
        self.budget.scratch -= job.scratch_before;
        let packing = job.bundle.as_ref().map_or(0, |b| b.packing_bytes());
        let bytes = result.as_ref().map_or(0, Page::num_bytes) + packing;
        let slot = if job.generation == self.generation {
            Some(job.slot)
        } else if self.keeps_pages && result.is_ok() && self.budget.fits(bytes) {
            self.pages.adopt(job.page, job.bundle.as_ref())
        } else {
            None
        };
        match (result, slot) {
            (Ok(page), Some(slot)) => {
                self.budget.held += bytes;
                for &batch in self.pages.loaded(slot, page, bytes) {
                    let pending = &mut self.batches[(batch - self.head) as usize];
                    pending.num_missing -= 1;
                    if pending.is_ready() {
                        self.ready.insert(batch);
                    }
                }
            }
            (Err(error), Some(slot)) => {
                let batch = self.pages.failed(slot);
                self.fail(batch, error);
            }
            (Ok(page), None) if self.keeps_pages && !self.pages.has(job.page) => {
                let kept = KeptPage {
                    page: Arc::new(page),
                    bundle: job.bundle.clone(),
                    bytes,
                };
                self.keep(job.page, kept);
            }
            (Ok(page), None) => self.garbage.pages.push(page),
            (Err(_), None) => {}
        }
        self.drop_surplus();
        self.budget.note_peak();
    }

    /// Drops a page from memory. The arena uses the memory of a page of tokens again.
    pub(super) fn drop_page(&mut self, page: Arc<Page>, bytes: usize) {
        self.budget.held -= bytes;
        let page = Arc::into_inner(page);
        self.num_freed += match &page {
            Some(Page::Rows(_)) => bytes,
            _ => 0,
        };
        self.garbage.pages.extend(page);
    }

    /// Drops pages that no plan needs while the rest needs their room.
    pub(super) fn drop_surplus(&mut self) {
        while self.budget.is_over() && self.drop_kept() {}
    }
}
