//! Which storage an index reads by.

#[cfg(feature = "remote")]
pub mod remote;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use pagefeed_core::error::Result;
use pagefeed_core::pages::indexed::Indexed;
use pagefeed_core::storage::Storage;
use pagefeed_core::store::Store;
use pyo3::prelude::*;

use crate::run::{cancellable, detached};

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

/// The storage that Python names by a handle; that of this machine's files by none.
#[cfg(feature = "remote")]
pub fn storage_of(handle: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Storage>> {
    match handle {
        Some(remote) => remote.cast::<remote::Remote>()?.get().storage(remote.py()),
        None => Ok(Arc::new(Store::default())),
    }
}

/// The storage of this machine's files: a build without remote storage has no handles.
#[cfg(not(feature = "remote"))]
pub fn storage_of(_: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Storage>> {
    Ok(Arc::new(Store::default()))
}

/// The same storage, whose calls end soon after `stop` becomes true.
pub fn stopped_by(storage: &Arc<dyn Storage>, stop: &Arc<AtomicBool>) -> Arc<dyn Storage> {
    storage
        .stopped_by(stop)
        .unwrap_or_else(|| Arc::clone(storage))
}

/// Reads some of a column; where that may take long, Ctrl-C is served.
pub fn reading<T: Send>(
    py: Python<'_>,
    column: Indexed,
    read: impl FnOnce(Indexed) -> Result<T> + Send,
) -> PyResult<T> {
    if column.storage.num_in_flight() == 0 {
        return detached(py, || read(column));
    }
    let nothing = || Ok(());
    cancellable(py, nothing, |cancel| {
        let storage = stopped_by(&column.storage, cancel);
        read(Indexed { storage, ..column })
    })
}
