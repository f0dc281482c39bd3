//! Segments that are read without their pages: many at a time, so that neighbours are
//! read together.

use super::gathering::Gathering;
use crate::engine::budget::Budget;
use crate::engine::plan::Segment;
use crate::engine::{PageSlice, SliceReads};
use crate::error::Error;

/// Bytes that are read at a time, about: they stay in the processor's cache.
const AT_ONCE: usize = 1 << 20;
/// Bytes that a token takes, at most, mostly.
const TOKEN_BYTES: usize = 4;

/// Segments of a batch that were read, and memory to read more.
#[derive(Default)]
pub(in crate::engine) struct LooseSlices {
    slices: Vec<PageSlice>,
    /// Segments of `slices`, in order; those before `next` were taken.
    segments: Vec<usize>,
    next: usize,
    buffer: Vec<u8>,
    reads: SliceReads,
}

impl LooseSlices {
    /// Begins another batch.
    pub fn begin(&mut self) {
        self.segments.clear();
        self.next = 0;
    }

    /// Memory it takes, about.
    pub fn num_bytes(&self) -> usize {
        let slices = self.slices.iter();
        let slices = slices.map(|slice| slice.loaded.num_bytes() + size_of::<PageSlice>());
        self.buffer.capacity()
            + self.segments.capacity() * size_of::<usize>()
            + slices.sum::<usize>()
    }

    /// Returns what was read since the last call.
    pub fn take_reads(&mut self) -> SliceReads {
        std::mem::take(&mut self.reads)
    }

    /// Returns segment `number` of `all`, read together with some later ones. Call it
    /// in order.
    pub fn get(
        &mut self,
        batch: &Gathering<'_>,
        all: &[Segment],
        number: usize,
    ) -> Result<&mut PageSlice, (u64, Error)> {
        if self.segments.get(self.next) != Some(&number) {
            self.read(batch, all, number)?;
        }
        self.next += 1;
        Ok(&mut self.slices[self.next - 1])
    }

    fn read(
        &mut self,
        batch: &Gathering<'_>,
        all: &[Segment],
        first: usize,
    ) -> Result<(), (u64, Error)> {
        self.begin();
        let most = AT_ONCE.min(Budget::scratch_share(batch.config) / 3) / TOKEN_BYTES;
        let mut num_tokens = 0;
        for (number, segment) in all.iter().enumerate().skip(first) {
            if !batch.is_loose(segment) {
                continue;
            }
            let count = segment.end - segment.start;
            num_tokens += count;
            if !self.segments.is_empty() && num_tokens > most {
                break;
            }
            self.segments.push(number);
        }
        let per_row = batch.config.separators().per_row();
        let count = self.segments.len();
        if self.slices.len() < count {
            self.slices.resize_with(count, PageSlice::default);
        }
        for (slice, &number) in self.slices.iter_mut().zip(&self.segments) {
            let segment = &all[number];
            slice.page = segment.page;
            (slice.row, slice.first_token) = (segment.row, segment.first_token);
            slice.num_tokens = (segment.end - segment.start) as u32;
            slice.per_row = per_row;
        }
        let mut slices: Vec<&mut PageSlice> = self.slices[..count].iter_mut().collect();
        let reads = batch.source.read_slices(&mut slices, &mut self.buffer)?;
        self.reads.reads += reads.reads;
        self.reads.bytes += reads.bytes;
        Ok(())
    }
}
