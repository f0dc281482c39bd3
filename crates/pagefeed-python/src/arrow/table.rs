//! Tables for any library that knows the Arrow PyCapsule interface.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::Field;
use pagefeed_core::pickle::from_bytes;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::arrow::{ArrowArray, Reduced, with_pyarrow};
use crate::run::detached;

/// A table of Arrow columns. Any library that speaks the Arrow PyCapsule interface takes
/// it without a copy: `pyarrow.table(x)`, `polars.DataFrame(x)`.
#[pyclass(frozen, module = "pagefeed._core")]
pub struct ArrowTable {
    rows: RecordBatch,
    /// All columns as one array.
    structs: ArrowArray,
}

impl From<RecordBatch> for ArrowTable {
    fn from(rows: RecordBatch) -> Self {
        let structs: ArrayRef = Arc::new(StructArray::from(rows.clone()));
        let field = Field::new("rows", structs.data_type().clone(), false);
        let structs = ArrowArray::new(structs, field);
        Self { rows, structs }
    }
}

#[pymethods]
impl ArrowTable {
    /// The schema alone.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.structs.__arrow_c_schema__(py)
    }

    /// Schema and columns, as two capsules; a requested schema is a wish that the
    /// interface allows to be ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        self.structs.__arrow_c_array__(py, requested_schema)
    }

    /// Returns a stream of one batch of rows.
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
            Some((index, field)) => Ok(ArrowArray::new(
                Arc::clone(self.rows.column(index)),
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
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().structs.reduced(slf)
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
