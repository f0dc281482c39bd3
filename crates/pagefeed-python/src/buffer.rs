//! Memory of the data plane behind Python's buffer protocol.

use std::ffi::{c_int, c_void};

use pagefeed_core::engine::{Batch, Document};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The memory of one batch, as writable bytes: `numpy.frombuffer(buffer, dtype)`.
/// It goes back to the engine when the last array over it is gone.
#[pyclass(module = "pagefeed._core")]
pub struct Buffer {
    batch: Batch,
}

impl Buffer {
    /// Wraps the memory of `batch`.
    pub fn new(batch: Batch) -> Self {
        Self { batch }
    }
}

fn put(bytes: &mut [u8], numbers: &[u32]) {
    for (bytes, number) in bytes.chunks_exact_mut(4).zip(numbers) {
        bytes.copy_from_slice(&number.to_ne_bytes());
    }
}

#[pymethods]
impl Buffer {
    /// The documents in it as records of 32 bytes: uint32 batch_row, start, num_tokens
    /// and row, uint64 page, uint32 first_token and row_tokens.
    fn documents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let documents = self.batch.documents();
        PyBytes::new_with(py, size_of_val(documents), |bytes| {
            for (bytes, document) in bytes.chunks_exact_mut(size_of::<Document>()).zip(documents) {
                let (numbers, rest) = bytes.split_at_mut(16);
                let (page, tail) = rest.split_at_mut(8);
                let first = [
                    document.batch_row,
                    document.start,
                    document.num_tokens,
                    document.row,
                ];
                put(numbers, &first);
                page.copy_from_slice(&document.page.to_ne_bytes());
                put(tail, &[document.first_token, document.row_tokens]);
            }
            Ok(())
        })
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
        if view.is_null() {
            return Err(PyBufferError::new_err("a view is needed"));
        }
        let (start, length) = {
            let mut buffer = slf.try_borrow_mut()?;
            let bytes = buffer.batch.bytes_mut();
            (bytes.as_mut_ptr().cast::<c_void>(), bytes.len())
        };
        // SAFETY: the bytes live as long as the object, which the view keeps alive
        // (PyBuffer_FillInfo takes a reference to it), and do not move. The engine does
        // not touch a batch that was handed out, so it may be offered as writable.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length.cast_signed(), 0, flags)
        };
        if filled == -1 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}
