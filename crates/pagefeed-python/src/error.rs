//! Errors of the data plane as Python exceptions.

use pagefeed_core::{Error, Kind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Name of the class in `pagefeed.errors` for an error of `kind`.
fn class_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Io(std::io::ErrorKind::NotFound) => "MissingFileError",
        Kind::Io(std::io::ErrorKind::PermissionDenied) => "AccessDeniedError",
        Kind::Io(std::io::ErrorKind::TimedOut) => "UnavailableError",
        Kind::Io(_) => "FileAccessError",
        Kind::Corrupt => "CorruptFileError",
        Kind::Checksum => "ChecksumError",
        Kind::Limit => "LimitExceededError",
        Kind::Unsupported => "UnsupportedError",
        Kind::Encrypted => "EncryptedError",
        Kind::ColumnNotFound => "ColumnNotFoundError",
        Kind::Stale => "StaleFileError",
        Kind::Invalid => "InvalidArgumentError",
        Kind::TokenRange => "TokenRangeError",
        Kind::MissingDependency => "MissingDependencyError",
        Kind::Cancelled => "CancelledError",
        Kind::Internal => "InternalError",
    }
}

/// Returns the Python exception for `error`, with its location as attributes.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).unwrap_or_else(|import_failed| {
        // Reached only while the interpreter shuts down.
        let fallback = PyRuntimeError::new_err(error.to_string());
        fallback.set_cause(py, Some(import_failed));
        fallback
    })
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = py
        .import("pagefeed.errors")?
        .getattr(class_name(error.kind()))?;
    let exception = class.call1((error.to_string(),))?;
    let location = error.location();
    exception.setattr("file", location.file.as_deref())?;
    exception.setattr("row_group", location.row_group)?;
    exception.setattr("column", location.column.as_deref())?;
    exception.setattr("page", location.page)?;
    exception.setattr("offset", location.offset)?;
    if location.batch_row.is_some() {
        exception.setattr("batch_row", location.batch_row)?;
    }
    Ok(PyErr::from_value(exception))
}
