//! Buffers of bytes, and vectors that grow within the limits of a page.
//!
//! Pages of texts are megabytes: the buffers they are read, decompressed and handed out in
//! come from the [`arena`], and return there when the last user drops them, even if that
//! is an array in another library, on another thread.

use std::alloc::{Layout, alloc_zeroed};
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::arena;
use crate::error::{Error, Result};
use crate::limits::check_page_size;

/// Size from which the system, not the allocator, is asked whether there is memory.
pub const LARGE_BYTES: usize = 256 << 10;

/// Bytes whose memory others use again once they are dropped.
#[derive(Debug, Default)]
pub struct RecycledBuffer {
    memory: Vec<u8>,
    /// Bytes of the memory that are in use.
    size: usize,
}

impl RecycledBuffer {
    /// Returns `size` bytes with undefined contents.
    pub fn new(size: usize) -> Result<Self> {
        let memory = match arena::vec::<u8>(size) {
            Some(mut memory) => {
                // SAFETY: all memory of the arena was written before.
                unsafe { memory.set_len(memory.capacity()) };
                memory
            }
            None => zeros(size)?,
        };
        Ok(Self { memory, size })
    }

    /// Returns the bytes of all `slices`, copied into one buffer.
    pub fn concat(slices: &[&[u8]]) -> Result<Self> {
        let mut buffer = Self::new(slices.iter().map(|slice| slice.len()).sum())?;
        let mut at = 0;
        for slice in slices {
            buffer[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Ok(buffer)
    }

    /// Bytes of memory, whether in use or not.
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Returns all bytes of its memory; those after its end are undefined.
    pub fn into_whole(mut self) -> Self {
        self.size = self.capacity();
        self
    }

    /// Drops the bytes after the first `size`.
    pub fn truncate(&mut self, size: usize) {
        self.size = self.size.min(size);
    }
}

impl Deref for RecycledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.size]
    }
}

impl DerefMut for RecycledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.size]
    }
}

impl AsRef<[u8]> for RecycledBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Returns zeros from the allocator; an error if it has no memory for them.
fn zeros(size: usize) -> Result<Vec<u8>> {
    let layout = Layout::array::<u8>(size).map_err(|_| no_memory(size))?;
    if size == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: some bytes are asked for.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(no_memory(size));
    }
    // SAFETY: the allocator gave these bytes, which are zeros, to this vector alone.
    let zeros = unsafe { Vec::from_raw_parts(memory, size, size) };
    will_write(&zeros);
    Ok(zeros)
}

/// Refuses `size` bytes that the system would not give: for readers that end the process
/// where memory is short.
pub(crate) fn check_available(size: usize) -> Result<()> {
    // Less is had from the allocator without asking, most of the time.
    if size < LARGE_BYTES {
        return Ok(());
    }
    MmapMut::map_anon(size)
        .map(drop)
        .map_err(|_| no_memory(size))
}

/// The system refuses `size` bytes.
pub(crate) fn no_memory(size: usize) -> Error {
    Error::limit(format!(
        "there is no memory for {size} bytes of a page: raise the limit of the process \
         (ulimit -v, or that of its container), or write smaller pages"
    ))
}

/// Tells the system that fresh memory will be written as a whole: otherwise it is handed
/// out in pieces of 4 KiB, each when it is first written, at a cost of a fifth of decoding
/// a page of texts. Memory that spans a huge page then consists of huge pages; less
/// memory, if it is large, is handed out in one call.
#[cfg(target_os = "linux")]
pub(crate) fn will_write<T>(memory: &[T]) {
    const PAGE: usize = 4 << 10;
    const HUGE_PAGE: usize = 2 << 20;
    let range = memory.as_ptr_range();
    let advise = |unit: usize, advice| {
        let start = (range.start as usize).next_multiple_of(unit);
        let end = range.end as usize / unit * unit;
        if start < end {
            // SAFETY: neither changes anything in the memory, all of which is ours.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, advice) };
        }
        start < end
    };
    if !advise(HUGE_PAGE, libc::MADV_HUGEPAGE) && size_of_val(memory) >= LARGE_BYTES {
        advise(PAGE, libc::MADV_POPULATE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn will_write<T>(_memory: &[T]) {}

/// Gives an empty vector memory of the arena if its own is too little for `count` values.
/// Reserve after it: the arena may have none.
pub(crate) fn renew<T>(values: &mut Vec<T>, count: usize) {
    if values.is_empty() && values.capacity() < count {
        *values = Vec::new(); // Nothing of the old memory is worth a copy.
        *values = arena::vec(count).unwrap_or_default();
    }
}

/// Makes room for `additional` elements, within the limit and the available memory.
pub(crate) fn reserve<T>(values: &mut Vec<T>, additional: usize) -> Result<()> {
    let count = values.len().saturating_add(additional);
    let bytes = count.saturating_mul(size_of::<T>());
    check_page_size(bytes as u64)?;
    renew(values, additional);
    let before = values.capacity();
    values
        .try_reserve(additional)
        .map_err(|_| no_memory(bytes))?;
    if values.capacity() > before {
        will_write(values.spare_capacity_mut());
    }
    Ok(())
}

/// Returns all values of an iterator; an error if there is no memory for them.
pub(crate) fn collect<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut collected = Vec::new();
    reserve(&mut collected, values.len())?;
    collected.extend(values);
    Ok(collected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_size_asked_for() {
        for size in [
            0,
            1,
            1000,
            20_000,
            40_000,
            LARGE_BYTES,
            LARGE_BYTES + 1,
            5 << 20,
        ] {
            let mut buffer = RecycledBuffer::new(size).unwrap();
            assert_eq!(buffer.len(), size);
            assert!(buffer.capacity() <= size * 2);
            buffer.fill(1);
            buffer.truncate(size / 2);
            assert_eq!(buffer.len(), size / 2);
        }
        assert!(RecycledBuffer::new(isize::MAX as usize - 8).is_err());
        assert!(RecycledBuffer::new(usize::MAX).is_err());
        let mut buffer = RecycledBuffer::new(300_000).unwrap();
        let capacity = buffer.capacity();
        buffer.truncate(1000);
        assert_eq!(buffer.into_whole().len(), capacity);
    }

    #[test]
    fn a_vector_is_renewed_only_if_it_is_empty_and_too_small() {
        let mut values = vec![7_u16];
        let address = values.as_ptr();
        renew(&mut values, 90_000);
        assert_eq!((values.as_ptr(), values[0]), (address, 7));
        values.clear();
        renew(&mut values, 1);
        assert_eq!(values.as_ptr(), address);
        renew(&mut values, 90_000);
        assert!(values.capacity() == 0 || values.capacity() >= 90_000);
    }
}
