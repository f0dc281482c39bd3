//! Memory of pages and of what they are read and decompressed into, in huge pages.
//!
//! Fresh memory costs a fault for every 4 KiB when it is first written, and in pages of
//! 4 KiB each row of a shuffled batch costs a walk through the system's tables. The system
//! gives huge pages where 2 MiB in a row are asked for, and a decoded page is smaller. So
//! vectors lie side by side in one range of addresses: [`vec`] takes memory there, and the
//! allocator below takes the memory of any vector back to where it came from.
//!
//! Memory that is given back waits for its next use, up to a limit; the rest goes back to
//! the system at once, and its addresses are used again for vectors of the same size.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
// The lock is not one of `crate::sync`: no thread waits for it without an end.
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread::yield_now;

/// Sizes of vectors that lie in the range.
const MIN_BYTES: usize = 32 << 10;
const MAX_BYTES: usize = 64 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// Reserved addresses. The system gives no memory for them until they are used.
const RANGE: usize = 64 << 30;
/// Sizes are multiples of this, the page of most systems.
const UNIT: usize = 4 << 10;
/// Steps between a power of two and the next to which sizes are rounded up.
const STEPS: usize = 16;
/// Bytes that a process gets from the system's allocator first: little data need no huge
/// page.
const FIRST_BYTES: usize = 8 << 20;
/// Bytes made usable at once.
const BYTES_AT_ONCE: usize = 16 << 20;
/// Bytes and pieces that may wait for their next use, and the share of the bytes in use.
const KEPT_BYTES: usize = 32 << 20;
const KEPT_PIECES: usize = 64;
const KEPT_SHARE: usize = 8;
/// Attempts at the lock before it counts as held for ever: it is, in a process that was
/// forked while another thread held it.
const ATTEMPTS: usize = 1000;

/// Start of the range of [`POOL`]; 0 before its first use.
static START: AtomicUsize = AtomicUsize::new(0);
/// Bytes asked for, while they are less than [`FIRST_BYTES`].
static ASKED: AtomicUsize = AtomicUsize::new(0);
static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Returns an empty vector for `capacity` bytes or numbers or slightly more; `None` if it
/// is too small or too large for the range, or the system has no memory. The memory was
/// written before, by the system or by a vector.
pub(crate) fn vec<T>(capacity: usize) -> Option<Vec<T>> {
    let bytes = rounded(capacity.checked_mul(size_of::<T>())?)?;
    if ASKED.load(Ordering::Relaxed) < FIRST_BYTES || !(1..=8).contains(&size_of::<T>()) {
        ASKED.fetch_add(bytes, Ordering::Relaxed);
        return None;
    }
    let mut pool = lock(1)?;
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

/// Locks the pool, in at most this many attempts.
fn lock(attempts: usize) -> Option<MutexGuard<'static, Pool>> {
    for _ in 0..attempts {
        match POOL.try_lock() {
            Ok(pool) => return Some(pool),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => yield_now(),
        }
    }
    None
}

/// The allocator of the system, which also takes back memory of the range.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: all memory is the system allocator's except that of `vec`, known by its address.
// The pool takes that back, and it never reaches the system's allocator.
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
    let Some(mut pool) = lock(ATTEMPTS) else {
        // The addresses are lost to this process, the memory is not.
        return return_to_system(memory, bytes);
    };
    pool.keep(memory, bytes);
    while let Some((memory, bytes)) = pool.take_surplus() {
        drop(pool); // Other threads need not wait for the system.
        return_to_system(memory, bytes);
        let Some(again) = lock(ATTEMPTS) else {
            return;
        };
        pool = again;
        pool.free.entry(bytes).or_default().push(memory);
    }
}

/// A range of addresses, in pieces. All bytes are multiples of [`UNIT`].
struct Pool {
    /// Start of the range; 0 before its first use.
    start: usize,
    /// End of the bytes that may be written.
    usable: usize,
    /// End of the bytes that were ever used.
    end: usize,
    /// Addresses and bytes of pieces that wait for their next use, the longest wait first.
    kept: Vec<(usize, usize)>,
    /// Addresses of pieces without memory, by their bytes.
    free: BTreeMap<usize, Vec<usize>>,
    num_kept: usize,
    /// Bytes in use.
    num_used: usize,
}

impl Pool {
    const fn new() -> Self {
        Self {
            start: 0,
            usable: 0,
            end: 0,
            kept: Vec::new(),
            free: BTreeMap::new(),
            num_kept: 0,
            num_used: 0,
        }
    }

    /// Returns the address of a piece of this size that nothing uses.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let memory = match self.kept.iter().rposition(|piece| piece.1 == bytes) {
            Some(at) => {
                self.num_kept -= bytes;
                self.kept.remove(at).0
            }
            None => match self.free.get_mut(&bytes).and_then(Vec::pop) {
                Some(memory) => memory,
                None => self.extend(bytes)?,
            },
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

    fn keep(&mut self, memory: usize, bytes: usize) {
        self.num_used -= bytes;
        self.num_kept += bytes;
        self.kept.push((memory, bytes));
    }

    /// Takes the piece that waits longest, if more wait than may.
    fn take_surplus(&mut self) -> Option<(usize, usize)> {
        let most = KEPT_BYTES.max(self.num_used / KEPT_SHARE);
        let is_surplus = self.num_kept > most || self.kept.len() > KEPT_PIECES;
        let surplus = is_surplus.then(|| self.kept.remove(0))?;
        self.num_kept -= surplus.1;
        Some(surplus)
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

/// Asks the system for memory for a part of the range, in huge pages if it has them.
fn make_usable(memory: usize, bytes: usize) -> bool {
    let memory = memory as *mut libc::c_void;
    // SAFETY: this part of the range is ours, and nothing uses it yet.
    unsafe {
        libc::madvise(memory, bytes, libc::MADV_HUGEPAGE);
        libc::mprotect(memory, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0
    }
}

/// Gives the memory of a part of the range back, which reads as zeros then.
fn return_to_system(memory: usize, bytes: usize) {
    // SAFETY: it reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let page = usize::try_from(page).unwrap_or(usize::MAX);
    if let Some(whole) = within(memory, bytes, page) {
        let start = whole.start as *mut libc::c_void;
        // SAFETY: this part of the range is ours, and nothing uses it any more.
        unsafe { libc::madvise(start, whole.len(), libc::MADV_DONTNEED) };
    }
}

/// Returns the whole pages of the system within a part of the range. Some systems have
/// pages of 64 KiB, and would also clear those that the part covers halfway.
fn within(memory: usize, bytes: usize, page: usize) -> Option<Range<usize>> {
    let start = memory.checked_next_multiple_of(page)?;
    let end = (memory + bytes) / page * page;
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests;
