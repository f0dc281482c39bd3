//! Remote storage in Python.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::storage::Storage;
use pagefeed_remote::{
    Condition, FindKeys, Keys, Listed, Options, Remote as CoreRemote, Service, Source, Version,
};
use pyo3::exceptions::{PyImportError, PyOSError, PyTimeoutError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use super::own;
use super::per_process::PerProcess;
use crate::error::to_python;
use crate::run::cancellable;

/// A file: its URL, bytes, and version.
type File = (String, u64, String);

/// Keys that the control plane found.
#[derive(FromPyObject)]
enum Found {
    /// Key, secret, token, and seconds since 1970 when these expire.
    Keys((String, String, Option<String>, Option<f64>)),
    /// Name, settings, whether it is near, sources that were looked at before.
    Service((String, Vec<(String, String)>, bool, Option<String>)),
}

impl From<Found> for Source {
    fn from(found: Found) -> Self {
        match found {
            Found::Keys((id, secret, token, expires)) => Self::Keys(Keys {
                id,
                secret,
                token,
                expires: expires.map(|seconds| {
                    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds.clamp(0.0, 1e10))
                }),
            }),
            Found::Service((source, settings, is_near, looked_at)) => Self::Service(Service {
                source,
                settings,
                is_near,
                looked_at,
            }),
        }
    }
}

/// Asks a function of Python for keys, on the thread that calls.
fn find_keys(function: Py<PyAny>) -> FindKeys {
    Arc::new(move || {
        let answer = Python::try_attach(|py| {
            let answer = function.call0(py);
            answer
                .and_then(|answer| answer.extract::<Found>(py))
                .map_err(|error| key_error(py, &error))
        });
        let ended = || Error::new(Kind::Cancelled, "the process ends");
        answer.ok_or_else(ended)?.map(Source::from)
    })
}

fn key_error(py: Python<'_>, error: &PyErr) -> Error {
    let kind = if error.is_instance_of::<PyTimeoutError>(py) {
        Kind::Io(ErrorKind::TimedOut)
    } else if error.is_instance_of::<PyOSError>(py) {
        Kind::Io(ErrorKind::PermissionDenied)
    } else if error.is_instance_of::<PyImportError>(py) {
        Kind::MissingDependency
    } else {
        Kind::Internal
    };
    Error::new(kind, error.value(py).to_string())
}

/// Files of a list, which need less memory than tuples.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct Files(Mutex<std::vec::IntoIter<Listed>>);

#[pymethods]
impl Files {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self) -> Option<File> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.next().map(file)
    }
}

/// Files named by URLs. Wrapped by `pagefeed.core.storage.RemoteStorage`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct Remote {
    options: Options,
    remote: PerProcess<CoreRemote>,
}

impl Remote {
    fn here(&self, py: Python<'_>) -> PyResult<Arc<CoreRemote>> {
        self.remote.get(|_| new(py, &self.options))
    }

    /// Returns the storage for indexes.
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
    /// A storage with the settings of [`Options`] by name, without secrets of the names
    /// `lost`, which did not travel to this process. Nothing is sent yet.
    #[new]
    fn make(py: Python<'_>, settings: &Bound<'_, PyAny>, lost: Vec<String>) -> PyResult<Self> {
        let options = Options {
            deadline: settings.get_item("deadline")?.extract()?,
            timeout: settings.get_item("timeout")?.extract()?,
            max_wait: settings.get_item("max_wait")?.extract()?,
            max_in_flight: settings.get_item("max_in_flight")?.extract()?,
            cache: settings.get_item("cache")?.extract()?,
            allow_http: settings.get_item("allow_http")?.extract()?,
            authorization: settings.get_item("authorization")?.extract()?,
            hub_endpoint: settings.get_item("hub_endpoint")?.extract()?,
            ca_bundle: settings.get_item("ca_bundle")?.extract()?,
            hub_token: settings.get_item("hub_token")?.extract()?,
            providers: settings.get_item("providers")?.extract()?,
            keys: Some(find_keys(settings.get_item("keys")?.unbind())),
            lost,
            store: own::store(&settings.get_item("store")?),
            store_identity: settings.get_item("store_identity")?.extract()?,
        };
        let remote = new(py, &options)?;
        Ok(Self {
            options,
            remote: PerProcess::new(remote),
        })
    }

    /// Files of a bucket below a folder, as (URL, bytes, version), sorted by name.
    fn list_files(&self, py: Python<'_>, url: &str) -> PyResult<Files> {
        let listed = self.run(py, |remote| remote.list(url))?;
        Ok(Files(Mutex::new(listed.into_iter())))
    }

    /// Returns the hub's answer at one of its URLs about a file, and the URL of the
    /// next page.
    fn ask_hub<'py>(
        &self,
        py: Python<'py>,
        url: &str,
        file: &str,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<String>)> {
        let (body, next) = self.run(py, |remote| remote.ask_hub(url, file))?;
        Ok((PyBytes::new(py, &body), next))
    }

    /// Keeps what the hub listed, so that it is not asked again soon.
    fn note(&self, py: Python<'_>, files: Vec<File>) -> PyResult<()> {
        let listed = |(url, size, version)| Listed { url, size, version };
        let files = files.into_iter().map(listed).collect();
        self.here(py)?.note(files);
        Ok(())
    }

    /// Returns the state of files, in order; with `as_listed`, as this storage knows
    /// them.
    #[pyo3(signature = (urls, *, as_listed=false))]
    fn find(&self, py: Python<'_>, urls: Vec<String>, as_listed: bool) -> PyResult<Vec<File>> {
        let files = self.run(py, |remote| remote.find(&urls, as_listed))?;
        Ok(files.into_iter().map(file).collect())
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

    /// Returns a whole object and its version; None if it does not exist.
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        url: &str,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Version)>> {
        let object = self.run(py, |remote| remote.fetch(url))?;
        Ok(object.map(|(bytes, version)| (PyBytes::new(py, &bytes), version)))
    }

    /// Writes a whole object and returns its version: only if there is none with `new`,
    /// or if it still has the version `unchanged`; else None.
    #[pyo3(signature = (url, data, *, new = false, unchanged = None))]
    fn put(
        &self,
        py: Python<'_>,
        url: &str,
        data: PyBackedBytes,
        new: bool,
        unchanged: Option<Version>,
    ) -> PyResult<Option<Version>> {
        let condition = match unchanged {
            Some(version) => Condition::Unchanged(version),
            None if new => Condition::Absent,
            None => Condition::Nothing,
        };
        let bytes = Bytes::from_owner(data);
        self.run(py, |remote| remote.put(url, bytes, &condition))
    }

    /// Removes objects that exist.
    fn remove(&self, py: Python<'_>, urls: Vec<String>) -> PyResult<()> {
        self.run(py, |remote| remote.remove(&urls))
    }

    /// Begins an upload in parts; returns its name.
    fn begin_upload(&self, py: Python<'_>, url: &str) -> PyResult<String> {
        self.run(py, |remote| remote.begin_upload(url))
    }

    /// Writes a part of an object, numbered from 0 on; returns its name.
    fn put_part(
        &self,
        py: Python<'_>,
        url: &str,
        upload: String,
        part_number: usize,
        data: PyBackedBytes,
    ) -> PyResult<String> {
        let bytes = Bytes::from_owner(data);
        self.run(py, |remote| {
            remote.put_part(url, &upload, part_number, bytes)
        })
    }

    /// Completes an object of the parts with these names; returns its version.
    fn finish_upload(
        &self,
        py: Python<'_>,
        url: &str,
        upload: String,
        parts: Vec<String>,
    ) -> PyResult<Version> {
        self.run(py, |remote| remote.finish_upload(url, &upload, &parts))
    }

    /// Removes the parts of an unfinished object.
    fn abort_upload(&self, py: Python<'_>, url: &str, upload: String) -> PyResult<()> {
        self.run(py, |remote| remote.abort_upload(url, &upload))
    }

    /// Returns counts of requests so far, by name.
    fn counts(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        Ok(self.here(py)?.counts().named().into_iter().collect())
    }
}
