//! A store of the user's own, whose calls `pagefeed.remote.own_store` checks.

use std::io::ErrorKind;
use std::sync::Arc;

use bytes::Bytes;
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_remote::{OwnStore, State};
use pyo3::call::PyCallArgs;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// Calls in Python. The GIL is held inside them alone.
struct Calls(Py<PyAny>);

/// The store in the settings of a storage; `None` if there is none.
pub fn store(calls: &Bound<'_, PyAny>) -> Option<Arc<dyn OwnStore>> {
    (!calls.is_none()).then(|| Arc::new(Calls(calls.clone().unbind())) as Arc<dyn OwnStore>)
}

impl Calls {
    fn call<T: for<'py> FromPyObjectOwned<'py>>(
        &self,
        name: &str,
        arguments: impl for<'py> PyCallArgs<'py>,
    ) -> Result<T> {
        let answer = Python::try_attach(|py| {
            let answer = self.0.bind(py).call_method1(name, arguments);
            let extracted = answer.and_then(|answer| answer.extract::<T>().map_err(Into::into));
            extracted.map_err(|error| told(py, &error))
        });
        answer.ok_or_else(|| Error::new(Kind::Cancelled, "the process ends"))?
    }
}

impl OwnStore for Calls {
    fn head(&self, key: &str) -> Result<State> {
        self.call("head", (key,))
    }

    fn read(&self, key: &str, begin: u64, end: u64) -> Result<(Bytes, State)> {
        let (bytes, state): (PyBackedBytes, _) = self.call("read", (key, begin, end))?;
        Ok((Bytes::from_owner(bytes), state))
    }

    fn list(&self, folder: &str) -> Result<Vec<(String, State)>> {
        self.call("list", (folder,))
    }
}

/// An error of the calls, whose text is safe to show.
fn told(py: Python<'_>, error: &PyErr) -> Error {
    let name = error.get_type(py).name().map(|name| name.to_string());
    let kind = match name.as_deref() {
        Ok("FileNotFoundError") => ErrorKind::NotFound,
        Ok("PermissionError") => ErrorKind::PermissionDenied,
        Ok("TimeoutError") => ErrorKind::TimedOut,
        _ => ErrorKind::Other,
    };
    Error::new(Kind::Io(kind), error.value(py).to_string())
}
