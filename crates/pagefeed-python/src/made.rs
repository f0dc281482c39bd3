//! Pages that Python makes: rows that are in no Parquet file.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::{ArrayRef, make_array};
use bytes::Bytes;
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::storage::{FileId, Stamp, Storage};
use pagefeed_core::store::Store;
use pagefeed_core::write::chunks;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::storage;

/// A storage whose pages are arrays of Python, written as Parquet has them.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct MadePages {
    read: Py<PyAny>,
    /// Storage of the files that the arrays come from, if they come from files.
    files: Option<Store>,
}

#[pymethods]
impl MadePages {
    /// Takes a function of a file's name and an offset. It returns the array of the page
    /// there, and the number of the leaf.
    #[new]
    fn new(read: Py<PyAny>, is_of_files: bool) -> Self {
        let files = is_of_files.then(Store::default);
        Self { read, files }
    }
}

impl MadePages {
    /// Returns the storage of a handle.
    pub fn storage(handle: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Storage>> {
        let given = handle.cast::<Self>()?.get();
        let read = given.read.clone_ref(handle.py());
        Ok(Arc::new(Self::new(read, given.files.is_some())))
    }

    fn chunk(&self, file: &FileId, offset: u64) -> Result<Bytes> {
        let made = Python::try_attach(|py| -> PyResult<(ArrayRef, usize)> {
            let answer = self.read.bind(py).call1((&*file.path, offset))?;
            let (array, leaf): (Bound<'_, PyAny>, usize) = answer.extract()?;
            Ok((imported(&array)?, leaf))
        });
        let (array, leaf) = match made {
            Some(Ok(made)) => made,
            Some(Err(error)) => return Err(failed(&error)),
            None => return Err(Error::invalid("Python is shutting down")),
        };
        let mut leaves = chunks(&array)?.into_iter();
        leaves
            .nth(leaf)
            .ok_or_else(|| Error::internal("the column does not have this leaf"))
    }
}

/// The storage of an index that Python names by a handle.
pub fn storage_of(handle: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Storage>> {
    match handle {
        Some(made) if made.is_instance_of::<MadePages>() => MadePages::storage(made),
        other => storage::storage_of(other),
    }
}

impl Storage for MadePages {
    fn stamp(&self, path: &str) -> Result<Stamp> {
        let none = Stamp {
            size: 0,
            modified_ns: 0,
            inode: 0,
            changed_ns: 0,
            sample: 0,
        };
        let files = self.files.as_ref();
        files.map_or(Ok(none), |files| files.sampled(path))
    }

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(files) = &self.files {
            files.check_one(file)?;
        }
        let each = ranges.iter().map(|range| self.chunk(file, range.start));
        each.collect()
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        let read = Python::attach(|py| self.read.clone_ref(py));
        Arc::new(Self::new(read, self.files.is_some()))
    }
}

/// Returns the array that an object of Python hands out.
pub fn imported(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let capsules = object.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = capsules.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?;
    let array = array.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: capsules of these names hold these structures, which live as long as they do.
    // The array is moved out, and what is left in its capsule is marked as released.
    let (schema, array) = unsafe {
        let schema = schema.cast::<FFI_ArrowSchema>().as_ref();
        (schema, FFI_ArrowArray::from_raw(array.cast().as_ptr()))
    };
    // SAFETY: both are of one array, by the rules of the interface.
    let data = unsafe { from_ffi(array, schema) };
    let data = data.map_err(|error| PyTypeError::new_err(error.to_string()))?;
    Ok(make_array(data))
}

/// Returns the error that Python raised, as one of the data plane.
fn failed(error: &PyErr) -> Error {
    let told = Python::try_attach(|py| {
        let name = error.get_type(py).name().map(|name| name.to_string());
        let kind = match name.unwrap_or_default().as_str() {
            "StaleFileError" => Kind::Stale,
            "MissingFileError" => Kind::Io(ErrorKind::NotFound),
            "FileAccessError" => Kind::Io(ErrorKind::Other),
            "UnsupportedError" => Kind::Unsupported,
            "LimitExceededError" => Kind::Limit,
            "MissingDependencyError" => Kind::MissingDependency,
            "InvalidArgumentError" => Kind::Invalid,
            _ => Kind::Corrupt,
        };
        Error::new(kind, error.value(py).to_string())
    });
    told.unwrap_or_else(|| Error::invalid("Python is shutting down"))
}
