//! Values of rows as Python takes them: numbers, texts, bytes.

use std::ffi::c_int;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;
use pagefeed_core::tokens::NumberType;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList, PyMemoryView, PyString};

use crate::view::fill_view;

/// Returns one number a row: the name of their type, and their bytes, with NaN for
/// null. `None` for other types, and for integers or flags with nulls, which no number
/// can express, not even in padding rows.
pub fn numbers<'py>(
    py: Python<'py>,
    array: &ArrayRef,
) -> Option<(&'static str, Bound<'py, PyByteArray>)> {
    let with_nan = match array.data_type() {
        DataType::Float16 => {
            filled::<Float16Type>(array, <<Float16Type as ArrowPrimitiveType>::Native>::NAN)
        }
        DataType::Float32 => filled::<Float32Type>(array, f32::NAN),
        DataType::Float64 => filled::<Float64Type>(array, f64::NAN),
        _ if array.null_count() > 0 => return None,
        _ => Arc::clone(array),
    };
    if let Some(flags) = with_nan.as_boolean_opt() {
        let bytes: Vec<u8> = flags.values().iter().map(u8::from).collect();
        return Some(("bool", PyByteArray::new(py, &bytes)));
    }
    let name = NumberType::of(array.data_type())?.name();
    let data = with_nan.to_data();
    let width = data.data_type().primitive_width()?;
    let begin = data.offset() * width;
    let bytes = &data.buffers()[0].as_slice()[begin..begin + data.len() * width];
    Some((name, PyByteArray::new(py, bytes)))
}

/// Returns the array with `value` instead of nulls.
fn filled<T: ArrowPrimitiveType>(array: &ArrayRef, value: T::Native) -> ArrayRef {
    if array.null_count() == 0 {
        return Arc::clone(array);
    }
    let numbers = array.as_primitive::<T>().iter();
    let numbers = numbers.map(|element| element.unwrap_or(value));
    Arc::new(PrimitiveArray::<T>::from_iter_values(numbers))
}

/// Returns one text a row, None for null. `None` for other types.
pub fn texts<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Option<Bound<'py, PyList>>> {
    let string = |text: Option<&str>| text.map(|text| PyString::new(py, text));
    Ok(Some(match array.data_type() {
        DataType::Utf8 => PyList::new(py, array.as_string::<i32>().iter().map(string))?,
        DataType::LargeUtf8 => PyList::new(py, array.as_string::<i64>().iter().map(string))?,
        DataType::Utf8View => PyList::new(py, array.as_string_view().iter().map(string))?,
        _ => return Ok(None),
    }))
}

/// Returns one memoryview a row, None for null. `None` for other types.
pub fn blobs<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Option<Bound<'py, PyList>>> {
    let blobs: Vec<Option<&[u8]>> = match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().collect(),
        _ => return Ok(None),
    };
    let views = blobs.into_iter().map(|bytes| -> PyResult<_> {
        let Some(bytes) = bytes else { return Ok(None) };
        let view = Held {
            start: bytes.as_ptr().expose_provenance(),
            length: bytes.len(),
            _array: array.clone(),
        };
        let view = Bound::new(py, view)?;
        PyMemoryView::from(view.as_any()).map(Some)
    });
    let views: Vec<Option<Bound<'py, PyMemoryView>>> = views.collect::<PyResult<_>>()?;
    PyList::new(py, views).map(Some)
}

/// Bytes of an array, to be read.
#[pyclass(frozen, module = "pagefeed._core")]
struct Held {
    start: usize,
    length: usize,
    /// Keeps them where they are.
    _array: ArrayRef,
}

#[pymethods]
impl Held {
    /// # Safety
    /// Called by Python only, with a `view` to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let start = std::ptr::with_exposed_provenance_mut(this.start);
        // SAFETY: the array holds these bytes as long as the object lives, which the view
        // keeps alive; they are offered to be read only.
        unsafe { fill_view(slf.as_any(), view, (start, this.length), true, flags) }
    }
}
