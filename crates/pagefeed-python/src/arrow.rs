//! Arrow arrays for any library that knows the C data interface.

use arrow_array::{Array, ArrayRef};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Field};
use pagefeed_core::gather::BatchToken;
use pagefeed_core::pad::{list_lengths, write_padded};
use pagefeed_core::transport::{from_bytes, to_bytes};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use crate::run::detached;

/// An Arrow array. Any library that speaks the Arrow PyCapsule interface takes it
/// without a copy: `pyarrow.array(x)`, `polars.Series(x)`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct ArrowArray {
    array: ArrayRef,
    field: Field,
}

impl ArrowArray {
    /// Wraps `array`, described by `field`.
    pub fn new(array: ArrayRef, field: Field) -> Self {
        Self { array, field }
    }

    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&self.field).map_err(export_failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

impl ArrowArray {
    fn write<T: BatchToken + Element>(
        &self,
        py: Python<'_>,
        rows: &PyBuffer<T>,
        length: usize,
        padding: i64,
    ) -> PyResult<()> {
        if !rows.is_c_contiguous() || rows.readonly() {
            return Err(PyValueError::new_err(
                "rows must be contiguous and writable",
            ));
        }
        let padding = T::from_i64(padding).ok_or_else(|| {
            PyValueError::new_err(format!("padding {padding} does not fit {}", T::NAME))
        })?;
        // SAFETY: contiguous memory of this type that the PyBuffer keeps alive; the
        // caller (pagefeed.documents) passes a fresh array.
        let target =
            unsafe { std::slice::from_raw_parts_mut(rows.buf_ptr().cast(), rows.item_count()) };
        detached(py, || write_padded(&self.array, length, padding, target))
    }
}

fn export_failed(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("the array cannot be exported: {error}"))
}

#[pymethods]
impl ArrowArray {
    /// The schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.schema_capsule(py)
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
        PyTuple::new(py, [self.schema_capsule(py)?, array])
    }

    /// Lengths of the lists of integers that this is an array of: int64; 0 if null.
    fn list_lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let lengths = detached(py, || list_lengths(&self.array))?;
        let bytes: Vec<u8> = lengths.iter().flat_map(|n| n.to_ne_bytes()).collect();
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes each list of integers to a row of `rows`, cut or filled up with
    /// `padding`: a contiguous int64, int32 or uint16 array [len, length].
    fn write_padded(
        &self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        length: usize,
        padding: i64,
    ) -> PyResult<()> {
        if let Ok(rows) = PyBuffer::<i64>::get(rows) {
            self.write(py, &rows, length, padding)
        } else if let Ok(rows) = PyBuffer::<i32>::get(rows) {
            self.write(py, &rows, length, padding)
        } else {
            self.write(py, &PyBuffer::<u16>::get(rows)?, length, padding)
        }
    }

    /// Pickles the array, copied.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let (py, this) = (slf.py(), slf.get());
        let bytes = detached(py, || to_bytes(&this.array, &this.field))?;
        let restore = slf.get_type().getattr("_from_bytes")?;
        Ok((restore, (PyBytes::new(py, &bytes),)))
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
