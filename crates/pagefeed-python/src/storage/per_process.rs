//! Values that a forked child makes anew.

use std::sync::{Arc, Mutex, PoisonError};

use pagefeed_core::error::Result;

/// What each process has one of. Locked only under the GIL, which a forking thread holds, so
/// a child never finds it locked.
pub struct PerProcess<T: ?Sized>(Mutex<(u32, Arc<T>)>);

impl<T: ?Sized> PerProcess<T> {
    pub fn new(own: Arc<T>) -> Self {
        Self(Mutex::new((std::process::id(), own)))
    }

    /// That of this process, made of its parent's in a fork, which may have been caught with
    /// its locks taken by threads that the child does not have.
    pub fn get<E>(&self, of_parent: impl FnOnce(&T) -> Result<Arc<T>, E>) -> Result<Arc<T>, E> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.0 != std::process::id() {
            let ours = of_parent(&own.1)?;
            // Never dropped: its locks are not to be touched.
            std::mem::forget(std::mem::replace(&mut own.1, ours));
            own.0 = std::process::id();
        }
        Ok(Arc::clone(&own.1))
    }
}
