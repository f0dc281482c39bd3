//! A lock, as that of the standard library.

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError};

use super::scheduler::{running, world};

/// A lock.
pub struct Mutex<T> {
    is_locked: Cell<bool>,
    is_poisoned: Cell<bool>,
    waiting: Cell<Vec<usize>>,
    value: UnsafeCell<T>,
}

// SAFETY: all threads of a machine are coroutines of one thread of the system, which go
// over to each other only where they say so, and no machine lends a value to another.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: likewise; the value is lent to one coroutine at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// A held lock.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    was_panicking: bool,
}

impl<T> Mutex<T> {
    /// Returns a free lock.
    pub const fn new(value: T) -> Self {
        Self {
            is_locked: Cell::new(false),
            is_poisoned: Cell::new(false),
            waiting: Cell::new(Vec::new()),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        if let Some(world) = running() {
            world.check_may_wait();
            world.point("lock");
        }
        while self.is_locked.get() {
            let mut waiting = self.waiting.take();
            waiting.push(world().current());
            self.waiting.set(waiting);
            world().block("waits for a lock", None);
        }
        self.take()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        if let Some(world) = running() {
            world.point("try_lock");
        }
        if self.is_locked.get() {
            return Err(TryLockError::WouldBlock);
        }
        Ok(self.take()?)
    }

    fn take(&self) -> LockResult<MutexGuard<'_, T>> {
        self.is_locked.set(true);
        let guard = MutexGuard {
            mutex: self,
            was_panicking: std::thread::panicking(),
        };
        if self.is_poisoned.get() {
            return Err(PoisonError::new(guard));
        }
        Ok(guard)
    }

    /// Returns the value if the lock is free, for observers of the machine; does not
    /// switch threads.
    pub fn peek(&self) -> Option<&T> {
        // SAFETY: no thread holds the lock, and none can take it before the caller is done.
        (!self.is_locked.get()).then(|| unsafe { &*self.value.get() })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// Releases the lock without switching threads.
    pub(super) fn unlock(self) -> &'a Mutex<T> {
        self.release();
        let mutex = self.mutex;
        std::mem::forget(self);
        mutex
    }

    fn release(&self) {
        if std::thread::panicking() && !self.was_panicking {
            self.mutex.is_poisoned.set(true);
        }
        self.mutex.is_locked.set(false);
        for thread in self.mutex.waiting.take() {
            world().unblock(thread);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and only the caller borrows the guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.release();
        if let Some(world) = running() {
            world.point("unlock");
        }
    }
}
