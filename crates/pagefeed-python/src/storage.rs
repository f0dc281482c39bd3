//! Which storage an index reads by.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pagefeed_core::storage::Storage;
use pagefeed_core::store::Store;
use pyo3::prelude::*;

/// The storage that Python names by a handle; that of this machine's files by none.
#[cfg(feature = "remote")]
pub fn storage_of(handle: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Storage>> {
    match handle {
        Some(remote) => remote
            .cast::<crate::remote::Remote>()?
            .get()
            .storage(remote.py()),
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
