//! Which storage an index reads by.

#[cfg(feature = "remote")]
pub mod remote;

mod per_process;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pagefeed_core::error::Result;
use pagefeed_core::pages::indexed::Indexed;
use pagefeed_core::storage::Storage;
use pagefeed_core::store::Store;
use pyo3::prelude::*;

pub use per_process::PerProcess;

use crate::run::{cancellable, detached};

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

/// Returns the same storage, whose calls end soon after `stop` becomes true.
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
