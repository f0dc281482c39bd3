//! Storage of an index.

#[cfg(feature = "remote")]
mod own;
#[cfg(feature = "remote")]
pub mod remote;

mod per_process;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::file_reads::{self, FileReads};
use pagefeed_core::index::Indexed;
use pagefeed_core::parallel::on_threads;
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

/// Threads that ask for the state of files, most of which wait for a file system.
const NUM_ASKING: usize = 16;

/// Returns a text for each file of this machine that changes when the file does.
#[pyfunction]
pub fn local_versions(py: Python<'_>, files: Vec<String>) -> PyResult<Vec<String>> {
    let store = Store::default();
    let stopped = || Error::new(Kind::Cancelled, "versions of files are not needed any more");
    cancellable(
        py,
        || Ok(()),
        |cancel| {
            on_threads(NUM_ASKING, files.len(), || {
                |number: usize| match cancel.load(Ordering::Relaxed) {
                    true => Err(stopped()),
                    false => Ok(store.sampled(&files[number])?.version()),
                }
            })
        },
    )
}

/// Requests, bytes, retries, seconds, and quantiles of the seconds of a request.
type ReadsOfFile = (String, u64, u64, u64, f64, Vec<f64>);

/// Returns requests, bytes, retries, seconds, and quantiles of the seconds of a request,
/// by file, of all reads of this process since this was first called.
#[pyfunction]
pub fn reads_of_files(py: Python<'_>, shares: Vec<f64>) -> PyResult<Vec<ReadsOfFile>> {
    let of_file = |(path, reads): (String, FileReads)| {
        let quantiles = shares.iter().map(|share| reads.quantile(*share)).collect();
        let seconds = reads.time.as_secs_f64();
        let (requests, bytes, retries) = (reads.requests, reads.bytes, reads.retries);
        (path, requests, bytes, retries, seconds, quantiles)
    };
    detached(py, || {
        Ok(file_reads::of_files().into_iter().map(of_file).collect())
    })
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
