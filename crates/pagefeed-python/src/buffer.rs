//! Memory of the data plane by Python's buffer protocol.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use arrow_array::Array;
use arrow_schema::Field;
use pagefeed_core::engine::Batch;
use pagefeed_core::fields::Field as BatchField;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::arrow::ArrowArray;
use crate::arrow::table::ArrowTable;
use crate::view::fill_view;

/// Memory of one batch as writable bytes: its tokens, then its other fields. It returns
/// to the engine when the last array over it is dropped.
#[pyclass(module = "pagefeed._core")]
pub struct Buffer {
    batch: Batch,
    columns: Arc<BatchColumns>,
}

/// Columns that batches hand out.
#[derive(Default)]
pub struct BatchColumns {
    /// Fields of the columns.
    pub fields: Vec<Field>,
}

impl Buffer {
    /// Wraps a batch.
    pub fn new(batch: Batch, columns: Arc<BatchColumns>) -> Self {
        Self { batch, columns }
    }
}

impl From<Batch> for Buffer {
    fn from(batch: Batch) -> Self {
        Self::new(batch, Arc::default())
    }
}

#[pymethods]
impl Buffer {
    /// Offset of each field in the bytes, in the order of `field_table`; 0 for one that was
    /// not asked for.
    #[getter]
    fn offsets(&self) -> [usize; BatchField::ALL.len()] {
        BatchField::ALL.map(|field| self.batch.range(field).start)
    }

    /// Number of rows, including padding.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Borders in `cu_seqlens`: one more than segments.
    #[getter]
    fn num_borders(&self) -> usize {
        self.batch.made().map_or(0, |made| made.num_borders)
    }

    /// Tokens of the longest segment.
    #[getter]
    fn max_seqlen(&self) -> usize {
        self.batch.made().map_or(0, |made| made.max_seqlen)
    }

    /// Columns of `doc_lens`: segments of the row that has most.
    #[getter]
    fn most_segments(&self) -> usize {
        self.batch.made().map_or(0, |made| made.most_segments)
    }

    /// Tokens in the longest segment of each row.
    #[getter]
    fn max_doc_lens(&self) -> &[usize] {
        let made = self.batch.made();
        made.map_or(&[], |made| made.max_doc_lens.as_slice())
    }

    /// Offset of an aligned column in the bytes.
    fn aligned_offset(&self, column: usize) -> usize {
        self.batch.aligned_range(column).start
    }

    /// Tokens of a row of documents, or of a row of each padded column.
    #[getter]
    fn row_lengths(&self) -> &[usize] {
        self.batch.row_lengths()
    }

    /// Takes out the columns that are handed out: an array each, with nulls where the
    /// plan has no cell. Works once.
    fn take_columns(&mut self) -> Vec<ArrowArray> {
        let arrays = self.batch.take_columns().into_iter();
        let named = arrays.zip(&self.columns.fields);
        named
            .map(|(array, field)| {
                let data_type = array.data_type().clone();
                ArrowArray::new(array, field.clone().with_data_type(data_type))
            })
            .collect()
    }

    /// Takes out the metadata table of the documents. Works once.
    fn take_metadata(&mut self) -> Option<ArrowTable> {
        self.batch.take_metadata().map(ArrowTable::from)
    }

    fn __len__(&self) -> usize {
        self.batch.bytes().len()
    }

    /// # Safety
    /// Called by Python only, with a `view` to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, length) = {
            let mut buffer = slf.try_borrow_mut()?;
            let bytes = buffer.batch.bytes_mut();
            (bytes.as_mut_ptr().cast::<c_void>(), bytes.len())
        };
        // SAFETY: the bytes live as long as the object, which the view keeps alive
        // (PyBuffer_FillInfo takes a reference to it), and do not move. The engine does
        // not touch a batch that was handed out, so it may be offered as writable.
        unsafe { fill_view(slf.as_any(), view, (start, length), false, flags) }
    }
}
