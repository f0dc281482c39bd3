//! A machine of one processor whose threads are coroutines: a seed decides at every lock,
//! wait and wake-up which of them runs, and time passes when all of them wait. The same
//! seed gives the same run.
//!
//! Not `shuttle`, which gives its threads the same coroutines (`corosensei`): there a wait
//! with a timeout never times out, no thread wakes without reason, no thread is refused,
//! and there is no clock. Not `loom`, which tries all orders of a few operations: the
//! engine takes hundreds of locks for a batch.

mod condvar;
mod mutex;
mod policy;
mod random;
mod scheduler;
pub mod thread;
mod time;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use policy::Policy;
pub use random::Random;
pub use scheduler::{Settings, Summary, Watch, fail, note, now, random, run, simulated_child};
pub use time::{Instant, sleep};

use scheduler::world;

/// Returns the number of the process that a thread is in; a forked child has a
/// different one.
pub fn process_id() -> u32 {
    world().process_id()
}
