//! Remote storage in Python.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pagefeed_core::error::Result;
use pagefeed_core::storage::Storage;
use pagefeed_remote::{Listed, Options, Remote as CoreRemote};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::to_python;
use crate::run::cancellable;

/// A file: its URL, bytes, and version.
type File = (String, u64, String);

/// Files named by URLs. Wrapped by `pagefeed.storage.RemoteStorage`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct Remote {
    options: Options,
    /// That of this process, by its number. Locked only under the GIL, which a forking
    /// thread holds, so a child never finds it locked.
    remote: Mutex<(u32, Arc<CoreRemote>)>,
}

impl Remote {
    fn here(&self, py: Python<'_>) -> PyResult<Arc<CoreRemote>> {
        let mut remote = self.remote.lock().unwrap_or_else(PoisonError::into_inner);
        if remote.0 != std::process::id() {
            let ours = new(py, &self.options)?;
            // Never dropped: its locks are not to be touched.
            std::mem::forget(std::mem::replace(&mut remote.1, ours));
            remote.0 = std::process::id();
        }
        Ok(remote.1.clone())
    }

    /// What indexes read by.
    pub fn storage(&self, py: Python<'_>) -> PyResult<Arc<dyn Storage>> {
        Ok(self.here(py)?)
    }

    /// Runs `work`, which Ctrl-C ends.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&CoreRemote) -> Result<T> + Send,
    ) -> PyResult<T> {
        let remote = self.here(py)?;
        let nothing = || Ok(());
        cancellable(py, nothing, |cancel| {
            work(&remote.with_cancel(Arc::clone(cancel)))
        })
    }
}

fn new(py: Python<'_>, options: &Options) -> PyResult<Arc<CoreRemote>> {
    let remote = CoreRemote::new(options.clone());
    remote.map(Arc::new).map_err(|error| to_python(py, &error))
}

fn file(listed: Listed) -> File {
    (listed.url, listed.size, listed.version)
}

#[pymethods]
impl Remote {
    /// A storage with these settings, and without secrets of the names `lost`, which did
    /// not travel to this process; nothing is sent yet.
    #[new]
    fn make(
        py: Python<'_>,
        options: BTreeMap<String, String>,
        lost: Vec<String>,
    ) -> PyResult<Self> {
        let options = Options::new(options).map_err(|error| to_python(py, &error))?;
        let options = options.without(lost);
        let remote = new(py, &options)?;
        Ok(Self {
            options,
            remote: Mutex::new((std::process::id(), remote)),
        })
    }

    /// Files below a folder, as (URL, bytes, version), sorted by name.
    fn list_files(&self, py: Python<'_>, url: &str) -> PyResult<Vec<File>> {
        let found = self.run(py, |remote| remote.list(url))?;
        Ok(found.into_iter().map(file).collect())
    }

    /// Some files, likewise, in their order.
    fn find(&self, py: Python<'_>, urls: Vec<String>) -> PyResult<Vec<File>> {
        let found = self.run(py, |remote| remote.find(&urls))?;
        Ok(found.into_iter().map(file).collect())
    }

    /// Bytes [begin, end) of a file.
    fn read<'py>(
        &self,
        py: Python<'py>,
        url: &str,
        begin: u64,
        end: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.run(py, |remote| remote.read_now(url, begin..end))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What was sent so far, by name.
    fn counts(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        Ok(self.here(py)?.counts().named().into_iter().collect())
    }
}
