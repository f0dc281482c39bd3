//! Arrow arrays for any library that knows the C data interface.

pub mod table;
mod values;

use arrow_array::{Array, ArrayRef};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::Field;
use arrow_schema::ffi::FFI_ArrowSchema;
use pagefeed_core::pickle::{from_bytes, to_bytes};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyCapsule, PyDict, PyList, PyTuple};

use crate::run::detached;

/// An Arrow array. Any library that speaks the Arrow PyCapsule interface takes it
/// without a copy: `pyarrow.array(x)`, `polars.Series(x)`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct ArrowArray {
    /// The array.
    pub array: ArrayRef,
    /// Field of the array.
    pub field: Field,
}

impl ArrowArray {
    /// Wraps `array`, described by `field`.
    pub fn new(array: ArrayRef, field: Field) -> Self {
        Self { array, field }
    }

    /// Whether it has an extension type.
    fn is_extension(&self) -> bool {
        self.field.metadata().contains_key("ARROW:extension:name")
    }

    /// Returns how an object that holds this array is pickled.
    fn reduced<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Reduced<'py>> {
        let py = object.py();
        let bytes = detached(py, || to_bytes(&self.array, &self.field))?;
        let restore = object.get_type().getattr("_from_bytes")?;
        Ok((restore, (PyBytes::new(py, &bytes),)))
    }
}

/// Function that restores an object, and its argument.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>,));

/// The module `pyarrow`, which makes Python objects of values.
pub fn with_pyarrow(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let purpose = PyDict::new(py);
    purpose.set_item("extra", "pyarrow")?;
    purpose.set_item("purpose", "values as Python objects")?;
    let require = py.import("pagefeed.core._base")?.getattr("require")?;
    Ok(require.call(("pyarrow",), Some(&purpose))?.cast_into()?)
}

#[pymethods]
impl ArrowArray {
    /// The schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let failed =
            |error| PyValueError::new_err(format!("the array cannot be exported: {error}"));
        let schema = FFI_ArrowSchema::try_from(&self.field).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Schema and array, as two capsules. The schema is the array's own: a
    /// requested schema is a wish that the interface allows to be ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        drop(requested_schema);
        let array = FFI_ArrowArray::new(&self.array.to_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [self.__arrow_c_schema__(py)?, array])
    }

    /// Returns the name of the numbers' type, and their bytes, with NaN for null; None
    /// for other types, and for nulls that the type cannot express.
    fn numbers<'py>(&self, py: Python<'py>) -> Option<(&'static str, Bound<'py, PyByteArray>)> {
        match self.is_extension() {
            true => None,
            false => values::numbers(py, &self.array),
        }
    }

    /// Returns texts as a list of str, or bytes as a list of memoryviews; None for
    /// other types.
    fn texts_or_bytes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        if self.is_extension() {
            return Ok(None);
        }
        match values::texts(py, &self.array)? {
            None => values::blobs(py, &self.array),
            texts => Ok(texts),
        }
    }

    /// The values as Python objects; needs pyarrow.
    fn to_pylist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        with_pyarrow(slf.py())?
            .call_method1("array", (slf,))?
            .call_method0("to_pylist")
    }

    /// A value as a Python object; needs pyarrow.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, row: isize) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let length = slf.get().array.len();
        let index = if row < 0 {
            row + length.cast_signed()
        } else {
            row
        };
        let index = usize::try_from(index).ok().filter(|&index| index < length);
        let Some(index) = index else {
            let message = format!("row {row} is out of range: there are {length}");
            return Err(PyIndexError::new_err(message));
        };
        let element = Self::new(slf.get().array.slice(index, 1), slf.get().field.clone());
        Self::to_pylist(&Bound::new(py, element)?)?.get_item(0)
    }

    /// Pickles the array, copied.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().reduced(slf)
    }

    #[staticmethod]
    fn _from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let (array, field) = detached(py, || from_bytes(data))?;
        Ok(Self::new(array, field))
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "ArrowArray({} x {})",
            self.array.len(),
            self.array.data_type()
        )
    }
}
