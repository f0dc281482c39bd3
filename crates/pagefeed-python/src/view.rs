//! Views of memory, by Python's buffer protocol.

use std::ffi::{c_int, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Fills a view with bytes of an object.
///
/// # Safety
/// The bytes must stay where they are as long as the object lives; `view` is null or Python's.
pub unsafe fn fill_view(
    object: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    (start, length): (*mut c_void, usize),
    is_readonly: bool,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("a view is needed"));
    }
    let (length, readonly) = (length.cast_signed(), is_readonly.into());
    // SAFETY: as this function's.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, object.as_ptr(), start, length, readonly, flags) };
    match filled {
        -1 => Err(PyErr::fetch(object.py())),
        _ => Ok(()),
    }
}
