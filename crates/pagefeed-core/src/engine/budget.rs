//! One byte budget over pages and batches.

use super::EngineConfig;
use super::assembly::buffer::Buffer;

/// Bytes of batches that may wait for the consumer. They keep workers busy while the
/// next stretch of the order is planned. The youngest are reused first, so that a fast
/// consumer stays with few of them, in the processor's cache.
const READY_BYTES: usize = 24 << 20;

/// Scratch memory of workers between loads may take one part in this many of the
/// budget.
const SCRATCH_DIVISOR: usize = 16;

/// A page of up to this many bytes may always be loaded, however small the budget.
const ALWAYS_LOADED: usize = 64 << 20;

/// One part in this many of the room for pages stays free before pages are fetched
/// ahead.
const TOGETHER_DIVISOR: usize = 16;

/// Counts what the engine holds.
///
/// The memory of some batches is set aside, from when a batch is assembled until the
/// consumer drops it; pages share the rest. If the consumer keeps more batches, they take
/// room from the pages, but at most half of the budget: batches beyond that count as the
/// consumer's own memory.
#[derive(Debug, Default)]
pub(super) struct Budget {
    limit: usize,
    batch_bytes: usize,
    set_aside: usize,
    /// Bytes of decoded pages.
    pub held: usize,
    /// Estimates of pages being loaded.
    pub loading: usize,
    /// Bytes of pages that no plan needs. They use only memory that is free.
    pub kept: usize,
    /// Buffers of batches that exist, in the engine and at the consumer.
    pub num_buffers: usize,
    /// Bytes of these buffers, with the columns in them.
    pub batches: usize,
    /// Bytes the source keeps.
    pub source: usize,
    /// Bytes of plans, and of the table of the pages in them.
    pub plans: usize,
    /// Most bytes of plans since all batches were dropped; pages leave this much free.
    pub most_plans: usize,
    /// Bytes the workers keep between loads.
    pub scratch: usize,
    /// Most bytes counted at one time.
    pub peak: usize,
}

impl Budget {
    pub fn new(config: &EngineConfig) -> Self {
        let mut budget = Self {
            limit: config.budget,
            ..Self::default()
        };
        budget.resize(config);
        budget
    }

    /// Continues with batches of a different size; existing ones count as if they had
    /// it.
    pub fn resize(&mut self, config: &EngineConfig) {
        self.batch_bytes = config.batch_bytes();
        let fewest = self.batch_bytes.saturating_mul(config.num_threads + 4);
        let wanted = fewest.max(READY_BYTES.min(config.budget / 8));
        self.set_aside = wanted.min(config.budget / 2).max(self.batch_bytes);
    }

    /// Bytes of its scratch that a worker may keep from one load to the next.
    pub fn scratch_share(config: &EngineConfig) -> usize {
        config.budget / SCRATCH_DIVISOR / config.num_threads.max(1)
    }

    /// Most bytes to which a page may decode. A needed page is loaded even without free
    /// room, but not if it alone exceeds the budget.
    pub fn largest_page(config: &EngineConfig) -> usize {
        config.budget.max(ALWAYS_LOADED)
    }

    /// Batches that may be assembled or wait. Two of the reserve are for the consumer,
    /// who usually holds one while asking for the next.
    pub fn batches_ahead(&self) -> usize {
        (self.max_buffers().saturating_sub(2)).max(1)
    }

    /// Number of buffers to allocate, if none can be reused and `best` are best
    /// allocated at once.
    pub fn buffers_at_once(&self, best: usize) -> usize {
        let room = self.max_buffers().saturating_sub(self.num_buffers);
        best.clamp(1, room.max(1))
    }

    /// Batches' memory that is kept for reuse.
    pub fn max_buffers(&self) -> usize {
        (self.set_aside / self.batch_bytes.max(1)).max(1)
    }

    /// Bytes that pages may take.
    pub fn for_pages(&self) -> usize {
        let hoarded = (self.num_buffers * self.batch_bytes).min(self.limit / 2);
        self.limit
            .saturating_sub(self.set_aside.max(hoarded))
            .saturating_sub(self.source + self.scratch + self.most_plans)
    }

    /// Bytes that are neither pages nor batches.
    fn beside(&self) -> usize {
        self.source + self.plans + self.scratch
    }

    /// Whether a page of `bytes` may be loaded, once kept pages are dropped if need be.
    pub fn fits(&self, bytes: usize) -> bool {
        self.held + self.loading + bytes <= self.for_pages()
    }

    /// Whether a page that is fetched ahead fits. Other pages must fit with it, so
    /// that neighbours can be fetched together even if memory is nearly full.
    pub fn fits_ahead(&self, bytes: usize) -> bool {
        self.fits(bytes.max(self.for_pages() / TOGETHER_DIVISOR))
    }

    /// Whether `bytes` fit if pages of `evicted` bytes are dropped.
    pub fn fits_without(&self, evicted: usize, bytes: usize) -> bool {
        (self.held + self.loading + bytes).saturating_sub(evicted) <= self.for_pages()
    }

    /// Whether kept pages must be dropped.
    pub fn is_over(&self) -> bool {
        self.kept > 0 && self.held + self.loading + self.kept > self.for_pages()
    }

    /// Counts what a batch's memory takes now.
    pub fn count_batch(&mut self, buffer: &mut Buffer, bytes: usize) {
        self.batches = self.batches + bytes - buffer.counted_bytes;
        buffer.counted_bytes = bytes;
    }

    /// Counts memory of batches no more that is about to be dropped.
    pub fn drop_batches(&mut self, buffers: &[Buffer]) {
        self.num_buffers -= buffers.len();
        self.batches -= buffers.iter().map(|each| each.counted_bytes).sum::<usize>();
    }

    /// Call after every change.
    pub fn note_peak(&mut self) {
        let total = self.held + self.loading + self.kept + self.beside() + self.batches;
        self.peak = self.peak.max(total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Layout, TokenType};

    const MIB: usize = 1 << 20;

    /// A budget of 64 MiB for batches of 1 MiB.
    fn budget() -> Budget {
        Budget::new(&EngineConfig {
            num_threads: 2,
            budget: 64 * MIB,
            token_type: TokenType::I64,
            batch_rows: 64,
            row_length: 2048,
            columns: Vec::new(),
            row_payload: 0,
            padding: 0,
            layout: Layout::default(),
        })
    }

    #[test]
    fn pages_have_what_nothing_else_takes() {
        let mut budget = budget();
        let room = budget.for_pages();
        assert_eq!(room, 64 * MIB - budget.set_aside);
        budget.scratch = 3 * MIB;
        assert_eq!(budget.for_pages(), room - 3 * MIB);
        budget.source = 5 * MIB;
        assert_eq!(budget.for_pages(), room - 8 * MIB);
        budget.most_plans = MIB;
        assert_eq!(budget.for_pages(), room - 9 * MIB);
        assert!(budget.fits(room - 9 * MIB) && !budget.fits(room - 9 * MIB + 1));
    }

    #[test]
    fn batches_that_a_consumer_keeps_take_half_of_the_budget_at_most() {
        let mut budget = budget();
        let room = budget.for_pages();
        budget.num_buffers = budget.max_buffers();
        assert_eq!(budget.for_pages(), room);
        budget.num_buffers = 20;
        assert_eq!(budget.for_pages(), 44 * MIB);
        for num_buffers in [32, 33, 1000] {
            budget.num_buffers = num_buffers;
            assert_eq!(budget.for_pages(), 32 * MIB, "{num_buffers} batches");
        }
    }
}
