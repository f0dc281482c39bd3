//! Sizes of decoded columns, for readers in Python.

use std::sync::Arc;

use pagefeed_core::index::{BuildOptions, expansion as found_in};
use pyo3::prelude::*;

use crate::naming::PyNaming;
use crate::run::detached;
use crate::storage::storage_of;

/// Bytes that all values of a column take as arrays in some row groups of a file, and
/// those of the largest row; found before another reader decodes them. Chunks of more
/// than `most_stored` bytes are left out.
#[pyfunction]
#[pyo3(signature = (path, column, groups, *, most_stored, naming = None, storage = None))]
pub fn expansion(
    py: Python<'_>,
    path: &str,
    column: &str,
    groups: Vec<usize>,
    most_stored: u64,
    naming: Option<PyRef<'_, PyNaming>>,
    storage: Option<Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    let storage = storage_of(storage.as_ref())?;
    let options = BuildOptions {
        use_page_index: false,
        by_row_group: false,
        missing_as_null: false,
        naming: naming.map(|naming| Arc::clone(&naming.naming)),
        verify_checksums: false,
        num_threads: 1,
        cancel: Arc::default(),
        num_done: Arc::default(),
    };
    let found = detached(py, || {
        found_in(&*storage, path, column, &groups, &options, most_stored)
            .map_err(|error| error.in_file(path))
    })?;
    Ok((found.all, found.of_row))
}
