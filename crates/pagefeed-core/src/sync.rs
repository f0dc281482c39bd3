//! Threads, locks, condition variables and time: those of the standard library; or, with
//! the feature `simulate`, those of a simulated machine (`pagefeed-simulated`) on which
//! one seed decides what runs when.
//!
//! All code that waits takes these from here. Atomics and `OnceLock` are the standard
//! library's in both: nothing waits for them, and a simulated machine has one processor.

#[cfg(feature = "simulate")]
pub use pagefeed_simulated as simulated;

#[cfg(not(feature = "simulate"))]
pub use std::{
    process::id as process_id,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
    time::Instant,
};

#[cfg(feature = "simulate")]
pub use simulated::{Condvar, Instant, Mutex, MutexGuard, process_id, thread};

pub use std::sync::{PoisonError, TryLockError};
