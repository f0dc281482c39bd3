//! Values that a forked child makes again.

use std::sync::{Arc, Mutex, PoisonError};

use pagefeed_core::error::Result;

/// A value for each process. It is locked only under the GIL, which a forking thread
/// holds, so that a child never finds it locked.
pub struct PerProcess<T: ?Sized>(Mutex<(u32, Arc<T>)>);

impl<T: ?Sized> PerProcess<T> {
    pub fn new(own: Arc<T>) -> Self {
        Self(Mutex::new((std::process::id(), own)))
    }

    /// Returns the value of this process. In a forked child it is made from the
    /// parent's, whose locks may be held by threads that the child lacks.
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
