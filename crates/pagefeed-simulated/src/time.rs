//! The clock of the machine.

use std::time::Duration;

use super::scheduler::{nanoseconds, world};

/// A time on the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Instant {
    /// Now.
    pub fn now() -> Self {
        Self(super::now())
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(super::now() - self.0)
    }
}

/// Lets other threads run for this long.
pub fn sleep(duration: Duration) {
    let until = super::now().saturating_add(nanoseconds(duration));
    world().block("sleeps", Some(until));
}
