//! A condition variable, as that of the standard library.

use std::cell::Cell;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use super::mutex::MutexGuard;
use super::scheduler::{nanoseconds, running, world};

/// A condition variable.
#[derive(Default)]
pub struct Condvar {
    waiting: Cell<Vec<usize>>,
}

// SAFETY: see `Mutex`.
unsafe impl Sync for Condvar {}

/// Whether a wait ended because its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was up.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Returns a condition variable without waiters.
    pub const fn new() -> Self {
        Self {
            waiting: Cell::new(Vec::new()),
        }
    }

    /// Releases the lock, waits, and takes it again. May wake without reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_until(guard, None)
    }

    /// Waits at most some time, while a condition holds.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let end = super::now().saturating_add(nanoseconds(timeout));
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            if super::now() >= end {
                return Ok((guard, WaitTimeoutResult(true)));
            }
            let woken = self.wait_until(guard, Some(end));
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        end: Option<u64>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let world = world();
        world.check_may_wait();
        let me = world.current();
        self.change(|waiting| waiting.push(me));
        let mutex = guard.unlock();
        if world.wakes_without_reason() {
            world.point("wakes");
        } else {
            world.block("waits to be notified", end);
        }
        self.change(|waiting| waiting.retain(|&thread| thread != me));
        mutex.lock()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        let world = world();
        world.check_may_wait();
        self.change(|waiting| {
            if !waiting.is_empty() {
                let chosen = world.below(waiting.len());
                world.unblock(waiting.remove(chosen));
            }
        });
        world.point("notify");
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        let Some(world) = running() else { return };
        world.check_may_wait();
        self.change(|waiting| waiting.drain(..).for_each(|thread| world.unblock(thread)));
        world.point("notify");
    }

    fn change(&self, change: impl FnOnce(&mut Vec<usize>)) {
        let mut waiting = self.waiting.take();
        change(&mut waiting);
        self.waiting.set(waiting);
    }
}
