//! Tables for any library that knows the Arrow PyCapsule interface.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::Field;
use arrow_schema::ffi::FFI_ArrowSchema;
use pagefeed_core::pickle::{from_bytes, to_bytes};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use crate::arrow::{ArrowArray, export_failed, with_pyarrow};
use crate::run::detached;

/// A table of Arrow columns. Any library that speaks the Arrow PyCapsule interface takes
/// it without a copy: `pyarrow.table(x)`, `polars.DataFrame(x)`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct ArrowTable {
    rows: RecordBatch,
}

impl From<RecordBatch> for ArrowTable {
    fn from(rows: RecordBatch) -> Self {
        Self { rows }
    }
}

impl ArrowTable {
    fn schema_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.rows.schema()).map_err(export_failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// All columns as one array.
    fn structs(&self) -> ArrayRef {
        Arc::new(StructArray::from(self.rows.clone()))
    }
}

#[pymethods]
impl ArrowTable {
    /// The schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.schema_capsule(py)
    }

    /// Schema and columns, as two capsules; a requested schema is a wish that the
    /// interface allows to be ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        drop(requested_schema);
        let array = FFI_ArrowArray::new(&self.structs().to_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [self.schema_capsule(py)?, array])
    }

    /// The same as a stream of one batch of rows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let rows = [Ok(self.rows.clone())];
        let reader = RecordBatchIterator::new(rows, self.rows.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.rows.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// A column by its name.
    fn __getitem__(&self, name: &str) -> PyResult<ArrowArray> {
        let schema = self.rows.schema();
        match schema.column_with_name(name) {
            Some((number, field)) => Ok(ArrowArray::new(
                Arc::clone(self.rows.column(number)),
                field.clone(),
            )),
            None => Err(PyKeyError::new_err(name.to_owned())),
        }
    }

    /// The rows as dictionaries; needs pyarrow.
    fn to_pylist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        with_pyarrow(slf.py())?
            .call_method1("table", (slf,))?
            .call_method0("to_pylist")
    }

    /// Pickles the table, copied.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let (py, this) = (slf.py(), slf.get());
        let array = this.structs();
        let field = Field::new("rows", array.data_type().clone(), false);
        let bytes = detached(py, || to_bytes(&array, &field))?;
        let restore = slf.get_type().getattr("_from_bytes")?;
        Ok((restore, (PyBytes::new(py, &bytes),)))
    }

    #[staticmethod]
    fn _from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        let (array, _) = detached(py, || from_bytes(data))?;
        Ok(Self::from(RecordBatch::from(array.as_struct())))
    }

    fn __len__(&self) -> usize {
        self.rows.num_rows()
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("ArrowTable({} rows of {names})", self.rows.num_rows())
    }
}
