//! Arrow arrays for any library that knows the C data interface.

use arrow_array::{Array, ArrayRef};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Field};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

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
