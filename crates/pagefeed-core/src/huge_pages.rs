//! Memory of decoded pages, in huge pages of the system.
//!
//! A batch takes its rows from all over the pages in memory. In pages of 4 KiB each row costs
//! a walk through the system's tables, and fresh memory a fault every 4 KiB: in huge pages
//! batches of shuffled rows take 0.9 of the processor time (`benchmarks/duel.py`). The
//! system hands them out where 2 MiB in a row are asked for, and a decoded page is smaller. So
//! pages lie side by side in a range of addresses of their own: [`renew`] gives vectors memory
//! there, and the allocator below takes the memory of any vector back to where it came from.
//!
//! Memory that is given back waits for its next use, up to a share of what is in use; what is
//! beyond goes back to the system at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
// The lock is not one of `crate::sync`: nobody waits for it without an end.
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::yield_now;

/// Sizes of vectors that lie in the range.
const MIN_BYTES: usize = 32 << 10;
const MAX_BYTES: usize = 64 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// Addresses that are reserved. Nothing is behind them until they are used.
const RANGE: usize = 64 << 30;
/// Sizes are multiples of this, the page of most systems.
const UNIT: usize = 4 << 10;
/// Steps between a power of two and the next in which sizes are rounded up.
const STEPS: usize = 16;
/// What a process asks for first comes from the allocator: little data need no huge page.
const FIRST_BYTES: usize = 8 << 20;
/// Bytes made usable at once.
const BYTES_AT_ONCE: usize = 16 << 20;
/// Fraction of what is in use that may wait for its next use.
const KEPT_SHARE: usize = 8;
/// Looks at a lock before it counts as held for ever: in a process that was forked while
/// another thread held it, it stays locked.
const LOOKS: usize = 1000;

/// Where the range of [`POOL`] begins; 0 while there is none.
static START: AtomicUsize = AtomicUsize::new(0);
/// Bytes asked for, while those are less than [`FIRST_BYTES`].
static ASKED: AtomicUsize = AtomicUsize::new(0);
static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Gives an empty vector memory in huge pages for `count` values, if it has none for as
/// many. Reserve after it: less than that, or none, is there if the system has none.
pub(crate) fn renew<T>(values: &mut Vec<T>, count: usize) {
    if values.is_empty() && values.capacity() < count {
        *values = Vec::new(); // Nothing of what was there is worth a copy.
        *values = vec(count).unwrap_or_default();
    }
}

/// Returns an empty vector for `capacity` values or slightly more, in huge pages; `None`
/// if it is too small or too large for that, or the system does not have it.
fn vec<T>(capacity: usize) -> Option<Vec<T>> {
    let bytes = rounded(capacity.checked_mul(size_of::<T>())?)?;
    if ASKED.load(Ordering::Relaxed) < FIRST_BYTES || !(1..=8).contains(&size_of::<T>()) {
        ASKED.fetch_add(bytes, Ordering::Relaxed);
        return None;
    }
    let mut pool = pool(1)?;
    let memory = pool.take(bytes)?;
    START.store(pool.start, Ordering::Relaxed);
    // SAFETY: the pool gave the bytes to this vector alone, aligned for any number. The
    // allocator, which frees them, knows them by their address.
    Some(unsafe { Vec::from_raw_parts(memory as *mut T, 0, bytes / size_of::<T>()) })
}

/// Bytes that a vector of `bytes` takes, if it lies in the range.
fn rounded(bytes: usize) -> Option<usize> {
    if !(MIN_BYTES..=MAX_BYTES).contains(&bytes) {
        return None;
    }
    let step = bytes.next_power_of_two() / 2 / STEPS;
    Some(bytes.next_multiple_of(step.max(UNIT)))
}

/// Locks the pool, with as many looks.
fn pool(looks: usize) -> Option<MutexGuard<'static, Pool>> {
    for _ in 0..looks {
        match POOL.try_lock() {
            Ok(pool) => return Some(pool),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => yield_now(),
        }
    }
    None
}

/// The allocator of the system, which also takes back what lies in the range.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: all memory is the system allocator's but that of `vec`, which is told by its
// address. That is taken back by the pool, and never passed on to the system's allocator.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised to this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised to this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_in_range(memory, &layout) {
            return give_back(memory.addr(), layout.size().next_multiple_of(UNIT));
        }
        // SAFETY: as promised to this function.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_in_range(memory, &layout) {
            // SAFETY: as promised to this function.
            return unsafe { System.realloc(memory, layout, size) };
        }
        // SAFETY: the caller promises a size that is valid with this alignment.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have as many bytes, and lie apart.
            unsafe { memory.copy_to_nonoverlapping(new, layout.size().min(size)) };
            // SAFETY: as promised to this function.
            unsafe { self.dealloc(memory, layout) };
        }
        new
    }
}

fn is_in_range(memory: *mut u8, layout: &Layout) -> bool {
    let start = START.load(Ordering::Relaxed);
    layout.size() >= MIN_BYTES && start != 0 && memory.addr().wrapping_sub(start) < RANGE
}

fn give_back(memory: usize, bytes: usize) {
    // Other threads need not wait for the system.
    let is_kept = pool(LOOKS).is_some_and(|pool| pool.keeps(bytes));
    if !is_kept {
        return_to_system(memory, bytes);
    }
    // Without the lock the addresses are lost to this process, the memory is not.
    if let Some(mut pool) = pool(LOOKS) {
        pool.give_back(memory, bytes, is_kept);
    }
}

/// A range of addresses, in pieces. All bytes are multiples of [`UNIT`].
struct Pool {
    /// Where the range begins; 0 while there is none.
    start: usize,
    /// End of what may be written.
    usable: usize,
    /// End of what was ever used.
    end: usize,
    /// What is not in use before that, by address.
    free: BTreeMap<usize, Free>,
    /// Sizes and addresses of the same.
    by_size: BTreeSet<(usize, usize)>,
    /// Bytes of memory behind what is free.
    num_kept: usize,
    /// Bytes in use.
    num_used: usize,
}

/// A piece that is not in use, between two that are.
#[derive(Clone, Copy)]
struct Free {
    bytes: usize,
    /// Bytes with memory behind them, at most.
    kept: usize,
}

impl Pool {
    const fn new() -> Self {
        Self {
            start: 0,
            usable: 0,
            end: 0,
            free: BTreeMap::new(),
            by_size: BTreeSet::new(),
            num_kept: 0,
            num_used: 0,
        }
    }

    /// Returns the address of so many bytes that nobody uses, in the smallest piece.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let memory = match self.by_size.range((bytes, 0)..).next() {
            Some(&(_, memory)) => {
                let piece = self.remove(memory)?;
                if piece.bytes > bytes {
                    let rest = Free {
                        bytes: piece.bytes - bytes,
                        kept: piece.kept.saturating_sub(bytes),
                    };
                    self.insert(memory + bytes, rest);
                }
                memory
            }
            None => self.extend(bytes)?,
        };
        self.num_used += bytes;
        Some(memory)
    }

    fn extend(&mut self, bytes: usize) -> Option<usize> {
        if self.start == 0 {
            self.start = reserve()?;
            (self.usable, self.end) = (self.start, self.start);
        }
        let memory = self.end;
        let end = memory + bytes;
        if end > self.usable {
            let more = (end - self.usable).next_multiple_of(BYTES_AT_ONCE);
            if self.usable + more > self.start + RANGE || !make_usable(self.usable, more) {
                return None;
            }
            self.usable += more;
        }
        self.end = end;
        Some(memory)
    }

    /// Whether memory waits for its next use once it is given back.
    fn keeps(&self, bytes: usize) -> bool {
        self.num_kept + bytes <= (self.num_used - bytes) / KEPT_SHARE
    }

    /// Takes back what was taken. It is one piece with what is free beside it.
    fn give_back(&mut self, mut memory: usize, bytes: usize, is_kept: bool) {
        self.num_used -= bytes;
        if self.num_used == 0 {
            return_to_system(self.start, self.end - self.start);
            self.free.clear();
            self.by_size.clear();
            (self.end, self.num_kept) = (self.start, 0);
            return;
        }
        let kept = if is_kept { bytes } else { 0 };
        let mut piece = Free { bytes, kept };
        let behind = memory + bytes;
        let before = self.free.range(..memory).next_back();
        let before = before.filter(|(start, free)| *start + free.bytes == memory);
        let before = before.map(|(&start, _)| start);
        for start in before.into_iter().chain([behind]) {
            if let Some(free) = self.remove(start) {
                piece.bytes += free.bytes;
                piece.kept += free.kept;
                memory = memory.min(start);
            }
        }
        self.insert(memory, piece);
    }

    fn insert(&mut self, memory: usize, piece: Free) {
        self.num_kept += piece.kept;
        self.by_size.insert((piece.bytes, memory));
        self.free.insert(memory, piece);
    }

    fn remove(&mut self, memory: usize) -> Option<Free> {
        let piece = self.free.remove(&memory)?;
        self.by_size.remove(&(piece.bytes, memory));
        self.num_kept -= piece.kept;
        Some(piece)
    }
}

/// Reserves a range of addresses, and returns where it begins.
fn reserve() -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let size = RANGE + HUGE_PAGE;
    // SAFETY: new addresses, wherever the system has some.
    let range = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
    (range != libc::MAP_FAILED).then(|| range.addr().next_multiple_of(HUGE_PAGE))
}

/// Asks the system for memory behind a part of the range, in huge pages if it has them.
fn make_usable(memory: usize, bytes: usize) -> bool {
    let memory = memory as *mut libc::c_void;
    // SAFETY: this part of the range is ours, and nobody uses it yet.
    unsafe {
        libc::madvise(memory, bytes, libc::MADV_HUGEPAGE);
        libc::mprotect(memory, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0
    }
}

/// Gives the memory behind a part of the range back, which reads as zeros then.
fn return_to_system(memory: usize, bytes: usize) {
    // SAFETY: it reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Some(whole) = usize::try_from(page)
        .ok()
        .and_then(|page| within(memory, bytes, page))
    else {
        return;
    };
    let start = whole.start as *mut libc::c_void;
    // SAFETY: this part of the range is ours, and nobody uses it any more.
    unsafe { libc::madvise(start, whole.len(), libc::MADV_DONTNEED) };
}

/// Returns the pages of the system that lie within so many bytes as a whole. Some systems
/// have pages of 64 KiB, and would clear those that lie there in part, too.
fn within(memory: usize, bytes: usize, page: usize) -> Option<Range<usize>> {
    let start = memory.checked_next_multiple_of(page)?;
    let end = (memory + bytes) / page * page;
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests;
