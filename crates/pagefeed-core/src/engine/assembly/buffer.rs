//! The memory of batches: recycled, because fresh memory costs a page fault every
//! 4 KiB, and mapped several batches at once, so that the system can hand it out in
//! huge pages: batches are written all over, row by row.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use memmap2::{MmapMut, MmapOptions};

use super::collect::RowCollector;
use crate::error::{Error, Result};
use crate::fields::{Borders, Made, Sections, Views};
use crate::sync::thread::{self, ThreadId};

/// Bytes that are mapped at once, if batches use as many.
const MAPPED_BYTES: usize = 8 << 20;
/// A buffer is used again unless it exceeds this many times the bytes it was made for, or
/// this many times `USUAL_BYTES` if that is more.
const USUAL_GROWTH: usize = 4;
const USUAL_BYTES: usize = 1 << 20;
/// Size of a huge page, and alignment of mappings that are as large.
const HUGE_PAGE: usize = 2 << 20;
/// Alignment of batches: a line of the cache, and any vector.
const ALIGNMENT: usize = 64;

/// Memory of one batch: a part of a mapping that belongs to this buffer alone.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    num_bytes: usize,
    /// Bytes that it was made for, before it was given another shape.
    first_bytes: usize,
    /// Bytes of its part of the mapping.
    capacity: usize,
    pub(in crate::engine) sections: Arc<Sections>,
    /// Given back to the system with the last of its buffers.
    mapping: Arc<MmapMut>,
    /// Thread that wrote it last: much of it is in the cache of that one's processor.
    pub(in crate::engine) writer: Option<ThreadId>,
    /// Rows of the batch.
    pub(in crate::engine) num_rows: usize,
    pub(in crate::engine) written: Written,
    /// Results of making the fields.
    pub(crate) made: Made,
    /// Cells of the batch, by column, while it is written.
    pub(in crate::engine) cells: Vec<RowCollector>,
    /// Columns of the finished batch.
    pub(in crate::engine) columns: Vec<ArrayRef>,
    /// Tokens of a row, where each batch has rows of another length; or of a row of each
    /// column that is padded.
    pub(in crate::engine) row_lengths: Vec<usize>,
    /// Metadata of the documents; one table once the batch is finished.
    pub(in crate::engine) metadata: Vec<RecordBatch>,
    /// Bytes that the budget counts for it.
    pub(in crate::engine) counted_bytes: usize,
}

// SAFETY: a buffer is the only one to use its part of the mapping.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Maps memory for one batch.
    pub fn new(sections: &Sections) -> Result<Self> {
        let mut one = Self::map(sections, 1)?;
        one.pop()
            .ok_or_else(|| Error::invalid("a batch without memory"))
    }

    /// Number of buffers of `num_bytes` to map at once.
    pub fn num_at_once(num_bytes: usize) -> usize {
        MAPPED_BYTES.checked_div(num_bytes).unwrap_or(1).max(1)
    }

    /// Maps memory for `count` batches, aligned and zeroed.
    pub fn map(sections: &Sections, count: usize) -> Result<Vec<Self>> {
        let num_bytes = sections.num_bytes();
        let (mapping, starts) = map(num_bytes, count)?;
        let sections = Arc::new(sections.clone());
        let buffers = starts.into_iter().map(|start| Self {
            start,
            num_bytes,
            first_bytes: num_bytes,
            capacity: num_bytes,
            sections: Arc::clone(&sections),
            mapping: Arc::clone(&mapping),
            writer: None,
            num_rows: 0,
            written: Written::default(),
            made: Made::default(),
            cells: Vec::new(),
            columns: Vec::new(),
            row_lengths: Vec::new(),
            metadata: Vec::new(),
            counted_bytes: 0,
        });
        Ok(buffers.collect())
    }

    /// Takes the one of `spares` that this thread wrote last, else the one given back last.
    pub(in crate::engine) fn take_near(spares: &mut Vec<Self>) -> Option<Self> {
        let here = Some(thread::current().id());
        let near = spares.iter().rposition(|spare| spare.writer == here);
        let number = near.or(spares.len().checked_sub(1))?;
        Some(spares.remove(number))
    }

    /// Gives the batch another shape, in larger memory if it needs that. What was written
    /// is lost.
    pub(in crate::engine) fn reshape(&mut self, sections: Sections) -> Result<()> {
        self.num_bytes = sections.num_bytes();
        if self.num_bytes > self.capacity {
            // Only what is written takes memory, and later batches may be larger.
            let capacity = self.num_bytes.checked_next_power_of_two();
            let capacity = capacity.unwrap_or(self.num_bytes);
            let (mapping, starts) = map(capacity, 1)?;
            let start = starts.first();
            self.start = *start.ok_or_else(|| Error::invalid("a batch without memory"))?;
            (self.mapping, self.capacity) = (mapping, capacity);
        }
        self.sections = Arc::new(sections);
        Ok(())
    }

    /// Bytes of its memory, and of the columns and the metadata in it.
    pub fn held_bytes(&self) -> usize {
        let cells = self.cells.iter().map(RowCollector::num_bytes);
        let tables = self.metadata.iter().map(RecordBatch::get_array_memory_size);
        self.capacity + self.column_bytes() + cells.chain(tables).sum::<usize>()
    }

    /// Bytes of the columns.
    pub fn column_bytes(&self) -> usize {
        let columns = self.columns.iter();
        columns.map(|each| each.get_array_memory_size()).sum()
    }

    /// Bytes that it was made for.
    pub fn first_bytes(&self) -> usize {
        self.first_bytes
    }

    /// Whether the buffer is far larger than batches usually are, after one very long document.
    pub fn is_outsized(&self) -> bool {
        self.capacity
            > self
                .first_bytes
                .max(USUAL_BYTES)
                .saturating_mul(USUAL_GROWTH)
    }

    /// Whether dropping it gives its memory back to the system.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.mapping) == 1
    }

    pub(in crate::engine) fn bytes(&self) -> &[u8] {
        // SAFETY: its part of the mapping has as many bytes or more, and lives as long as
        // the buffer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.num_bytes) }
    }

    pub(in crate::engine) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: likewise, and no other slice has a part of these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.num_bytes) }
    }

    /// The memory of tokens and fields.
    pub fn views(&mut self) -> Views<'_> {
        let sections = Arc::clone(&self.sections);
        sections.split(self.bytes_mut())
    }
}

/// Maps memory for `count` batches of `num_bytes`; returns where each begins.
fn map(num_bytes: usize, count: usize) -> Result<(Arc<MmapMut>, Vec<NonNull<u8>>)> {
    let stride = num_bytes.max(1).next_multiple_of(ALIGNMENT);
    let size = stride * count;
    let is_huge = size >= HUGE_PAGE;
    let slack = if is_huge { HUGE_PAGE } else { 0 };
    let mut mapping = MmapOptions::new().len(size + slack).map_anon()?;
    let skipped = match slack {
        0 => 0,
        _ => mapping.as_ptr().align_offset(HUGE_PAGE).min(slack),
    };
    #[cfg(target_os = "linux")]
    if is_huge {
        // Advice only: a system that has none serves as well.
        let _ = mapping.advise_range(memmap2::Advice::HugePage, skipped, size);
    }
    let memory = &mut mapping[skipped..skipped + size];
    let starts: Vec<NonNull<u8>> = memory
        .chunks_exact_mut(stride)
        .map(|chunk| NonNull::from(chunk).cast())
        .collect();
    Ok((Arc::new(mapping), starts))
}

/// Results of writing a batch, besides its tokens.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Written {
    /// Borders of documents, if fields need them.
    pub borders: Borders,
    pub num_padding: u64,
    pub num_splits: u64,
}

impl Written {
    /// Forgets a batch, but not the memory.
    pub fn clear(&mut self) {
        (self.num_padding, self.num_splits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    #[test]
    fn buffers_are_apart_aligned_and_as_large_as_asked() {
        for (num_bytes, count) in [(0, 1), (1, 3), (100, 7), (1 << 20, 5), (3 << 20, 2)] {
            let sections = Sections::new(&Fields::default(), num_bytes, 1);
            let mut buffers = Buffer::map(&sections, count).unwrap();
            assert_eq!(buffers.len(), count);
            for (number, buffer) in buffers.iter_mut().enumerate() {
                assert_eq!(buffer.bytes().len(), num_bytes);
                assert_eq!(buffer.start.as_ptr() as usize % ALIGNMENT, 0);
                assert!(buffer.bytes().iter().all(|&byte| byte == 0));
                buffer.bytes_mut().fill(number as u8 + 1);
            }
            for (number, buffer) in buffers.iter().enumerate() {
                assert!(buffer.bytes().iter().all(|&byte| byte == number as u8 + 1));
            }
            assert_eq!(buffers[0].is_alone(), count == 1);
        }
    }

    #[test]
    fn a_thread_takes_what_it_wrote_itself_before_what_was_given_back_later() {
        let here = Some(thread::current().id());
        let there = thread::spawn(|| thread::current().id()).join().ok();
        let mut spares = Buffer::map(&Sections::new(&Fields::default(), 8, 1), 5).unwrap();
        let writers = [here, None, here, there, there];
        for (spare, (number, writer)) in spares.iter_mut().zip(writers.into_iter().enumerate()) {
            (spare.num_rows, spare.writer) = (number, writer);
        }
        let mut taken = || Some(Buffer::take_near(&mut spares)?.num_rows);
        assert_eq!(std::array::from_fn(|_| taken()), [2, 0, 4, 3, 1].map(Some));
        assert_eq!(taken(), None);
    }

    #[test]
    fn a_buffer_takes_other_shapes_in_its_memory() {
        let sections = |num_bytes| Sections::new(&Fields::default(), num_bytes, 1);
        let mut buffer = Buffer::new(&sections(0)).unwrap();
        let mut starts = Vec::new();
        for num_bytes in [1000, 3, 1024, 1025, 5000, 2048] {
            buffer.reshape(sections(num_bytes)).unwrap();
            assert_eq!(buffer.bytes().len(), num_bytes);
            buffer.bytes_mut().fill(7);
            starts.push(buffer.start);
        }
        assert_eq!(buffer.first_bytes(), 0);
        starts.dedup();
        assert_eq!(starts.len(), 3);
    }
}
