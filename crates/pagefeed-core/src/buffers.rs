//! Large buffers that are used again.
//!
//! Memory fresh from the system costs a fault for every 4 KiB when it is first written,
//! which takes about as long as decompressing a page into it. Pages of texts are
//! megabytes, so the buffers they are read, decompressed and handed out in come from
//! here and return when the last user drops them, be it an array in another library
//! and on another thread.
//!
//! At most [`MAX_KEPT_BYTES`] wait for their next use, in the whole process. What is
//! dropped beyond goes back to the system at once: the allocator would keep such memory,
//! and in pieces that the next, slightly larger page does not fit. Every thread keeps
//! the last of smaller buffers, such as pages of tokens are read into; it keeps the last
//! one, which is still in its processor's cache.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::error::{Error, Result};
use crate::huge_pages;
use crate::limits::check_page_size;
use crate::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Buffers of this size and more are kept for all threads.
pub const MIN_KEPT_BYTES: usize = 256 << 10;
/// Buffers smaller than this are left to the allocator.
const MIN_OWN_BYTES: usize = 16 << 10;
/// Most bytes in buffers that are not in use.
pub const MAX_KEPT_BYTES: usize = 32 << 20;

thread_local! {
    /// The buffer that this thread dropped last, if it was a small one.
    static OWN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

static FREE: Mutex<Free> = Mutex::new(Free {
    buffers: Vec::new(),
    num_bytes: 0,
});

/// Bytes that others can use again once they are dropped.
#[derive(Debug, Default)]
pub struct RecycledBuffer {
    memory: Memory,
    /// Bytes of the memory that are in use.
    size: usize,
}

#[derive(Debug)]
enum Memory {
    Small(Vec<u8>),
    /// A mapping from the system, zeros at first.
    Large(MmapMut),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl RecycledBuffer {
    /// Returns `size` bytes with undefined contents.
    pub fn new(size: usize) -> Result<Self> {
        let memory = if size < MIN_OWN_BYTES {
            Memory::Small(vec![0; size])
        } else if size < MIN_KEPT_BYTES {
            Memory::Small(take_own(size).unwrap_or_else(|| vec![0; rounded(size)]))
        } else {
            let recycled = free().and_then(|mut free| free.take(size));
            Memory::Large(recycled.map_or_else(|| map(size), Ok)?)
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
        match &self.memory {
            Memory::Small(memory) => memory.len(),
            Memory::Large(memory) => memory.len(),
        }
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
        let memory = match &self.memory {
            Memory::Small(memory) => memory.as_slice(),
            Memory::Large(memory) => memory,
        };
        &memory[..self.size]
    }
}

impl DerefMut for RecycledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let memory = match &mut self.memory {
            Memory::Small(memory) => memory.as_mut_slice(),
            Memory::Large(memory) => memory,
        };
        &mut memory[..self.size]
    }
}

impl AsRef<[u8]> for RecycledBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for RecycledBuffer {
    fn drop(&mut self) {
        match std::mem::take(&mut self.memory) {
            Memory::Small(memory) => {
                if (MIN_OWN_BYTES..=MIN_KEPT_BYTES).contains(&memory.len()) {
                    // A thread that ends keeps nothing any more.
                    let _ = OWN.try_with(|own| own.set(memory));
                }
            }
            Memory::Large(memory) => {
                if memory.len() <= MAX_KEPT_BYTES
                    && let Some(mut free) = free()
                {
                    free.keep(memory);
                }
            }
        }
    }
}

/// This thread's buffer, if it has at least `size` bytes and is not far too large.
fn take_own(size: usize) -> Option<Vec<u8>> {
    let take = |own: &Cell<Vec<u8>>| {
        let buffer = own.take();
        if (size..=size * 2).contains(&buffer.len()) {
            return Some(buffer);
        }
        own.set(buffer);
        None
    };
    OWN.try_with(take).ok().flatten()
}

/// Buffers without a user, the one that waited longest first.
struct Free {
    buffers: Vec<MmapMut>,
    num_bytes: usize,
}

/// Locks the free buffers; `None` if another thread holds the lock. To do without costs
/// some page faults, but a wait could be endless in a process forked while another
/// thread held it.
fn free() -> Option<MutexGuard<'static, Free>> {
    match FREE.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Free {
    /// The smallest buffer of at least `size` bytes, if not even that is far too large.
    fn take(&mut self, size: usize) -> Option<MmapMut> {
        let fitting = self.buffers.iter().enumerate();
        let fitting =
            fitting.filter(|(_, buffer)| (size..=size + size / 2).contains(&buffer.len()));
        let (at, _) = fitting.min_by_key(|(_, buffer)| buffer.len())?;
        let buffer = self.buffers.remove(at);
        self.num_bytes -= buffer.len();
        Some(buffer)
    }

    fn keep(&mut self, buffer: MmapMut) {
        self.num_bytes += buffer.len();
        self.buffers.push(buffer);
        let mut num_dropped = 0;
        while self.num_bytes > MAX_KEPT_BYTES {
            self.num_bytes -= self.buffers[num_dropped].len();
            num_dropped += 1;
        }
        self.buffers.drain(..num_dropped);
    }
}

/// Sizes are rounded, so that pages of nearly one size share buffers.
fn rounded(size: usize) -> usize {
    let step = size.checked_next_power_of_two().unwrap_or(size) / 8;
    size.checked_next_multiple_of(step.max(1)).unwrap_or(size)
}

/// Memory for at least `size` bytes, from the system.
fn map(size: usize) -> Result<MmapMut> {
    let memory = MmapMut::map_anon(rounded(size)).map_err(|_| no_memory(size))?;
    will_write(&memory[..size]);
    Ok(memory)
}

/// Refuses `size` bytes that the system would not give: for readers that end the process
/// where memory is short.
pub(crate) fn check_available(size: usize) -> Result<()> {
    // Less is had from the allocator without asking, most of the time.
    if size < MIN_KEPT_BYTES {
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
/// a page of texts. What huge pages fit in comes as such; what is smaller, at one call.
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
    if !advise(HUGE_PAGE, libc::MADV_HUGEPAGE) && size_of_val(memory) >= MIN_KEPT_BYTES {
        advise(PAGE, libc::MADV_POPULATE_WRITE);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn will_write<T>(_memory: &[T]) {}

/// Makes room for `additional` elements, within the limit and the available memory.
pub(crate) fn reserve<T>(values: &mut Vec<T>, additional: usize) -> Result<()> {
    let count = values.len().saturating_add(additional);
    let bytes = count.saturating_mul(size_of::<T>());
    check_page_size(bytes as u64)?;
    huge_pages::renew(values, additional);
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

    fn empty() -> Free {
        Free {
            buffers: Vec::new(),
            num_bytes: 0,
        }
    }

    #[test]
    fn the_smallest_buffer_that_fits_is_taken() {
        let mut free = empty();
        for size in [4000, 1000, 1500] {
            free.keep(MmapMut::map_anon(size).unwrap());
        }
        assert_eq!(free.take(1001).map(|buffer| buffer.len()), Some(1500));
        assert!(free.take(1001).is_none()); // 4000 would be too much.
        assert_eq!(free.take(1000).map(|buffer| buffer.len()), Some(1000));
        assert_eq!(free.num_bytes, 4000);
        assert_eq!(free.take(2667).map(|buffer| buffer.len()), Some(4000));
        assert_eq!((free.buffers.len(), free.num_bytes), (0, 0));
    }

    #[test]
    fn what_waited_longest_is_dropped_first() {
        let mut free = empty();
        for fraction in [2, 4, 3, 4] {
            free.keep(MmapMut::map_anon(MAX_KEPT_BYTES / fraction).unwrap());
        }
        let sizes = free.buffers.iter().map(|buffer| buffer.len());
        let expected = [4, 3, 4].map(|fraction| MAX_KEPT_BYTES / fraction);
        assert_eq!(sizes.collect::<Vec<_>>(), expected);
        assert_eq!(free.num_bytes, expected.iter().sum::<usize>());
    }

    #[test]
    fn a_thread_uses_its_small_buffer_again() {
        let first = RecycledBuffer::new(50_000).unwrap();
        let address = first.as_ptr();
        drop(first);
        let second = RecycledBuffer::new(50_100).unwrap();
        assert_eq!(second.as_ptr(), address);
        assert_ne!(RecycledBuffer::new(50_100).unwrap().as_ptr(), address);
        drop(second);
        // Far too large.
        let third = RecycledBuffer::new(20_000).unwrap();
        assert_ne!(third.as_ptr(), address);
        assert_eq!(RecycledBuffer::new(40_000).unwrap().as_ptr(), address);
    }

    #[test]
    fn buffers_have_the_size_asked_for() {
        for size in [
            0,
            1,
            1000,
            MIN_OWN_BYTES,
            20_000,
            40_000,
            MIN_KEPT_BYTES,
            MIN_KEPT_BYTES + 1,
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
        let mut buffer = RecycledBuffer::new(300_000).unwrap();
        let capacity = buffer.capacity();
        buffer.truncate(1000);
        assert_eq!(buffer.into_whole().len(), capacity);
    }
}
