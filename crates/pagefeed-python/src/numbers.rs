//! Numbers of NumPy in and out.

use arrow_buffer::{ArrowNativeType, Buffer};
use pagefeed_core::engine::TokenType;
use pagefeed_core::error::Result;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::run::detached_if_many;

/// Runs a vectorised lookup from one int64 array into another of the same length,
/// possibly the same array. Copies are looked up, since other threads may write to
/// both.
pub fn lookup(
    py: Python<'_>,
    input: &PyBuffer<i64>,
    output: &PyBuffer<i64>,
    find: impl FnOnce(&[i64], &mut [i64]) -> Result<()> + Send,
) -> PyResult<()> {
    let whole = input.is_c_contiguous() && output.is_c_contiguous() && !output.readonly();
    if !whole || input.item_count() != output.item_count() {
        return Err(PyValueError::new_err(
            "input and output must be contiguous int64 arrays of one length",
        ));
    }
    let from = input.to_vec(py)?;
    let mut into = vec![0; from.len()];
    detached_if_many(py, from.len(), || find(&from, into.as_mut_slice()))?;
    output.copy_from_slice(py, &into)
}

/// Numbers in memory owned by Python: an array, often mapped from disk. The buffer is
/// held, so that the array can neither move nor shrink.
pub struct Held<T>(PyBuffer<T>);

impl<T: Element> Held<T> {
    /// Takes a contiguous array of these numbers without writers.
    pub fn new(array: Bound<'_, PyAny>) -> PyResult<Self> {
        let view = PyBuffer::<T>::get(&array)?;
        if !view.is_c_contiguous() {
            return Err(PyValueError::new_err("arrays must be contiguous"));
        }
        Ok(Self(view))
    }

    /// Returns all numbers.
    pub fn all(&self) -> &[T] {
        if self.0.item_count() == 0 {
            return &[];
        }
        let start = self.0.buf_ptr().cast_const().cast();
        // SAFETY: this number of aligned numbers lies there as long as the buffer lives.
        unsafe { std::slice::from_raw_parts(start, self.0.item_count()) }
    }
}

/// Returns numbers as bytes: millions of Python integers would be too many.
pub fn bytes_of<T: ArrowNativeType>(py: Python<'_>, numbers: Vec<T>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &Buffer::from_vec(numbers))
}

/// The elements of a contiguous array of exactly this type.
pub fn elements<T: Element + Copy>(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    PyBuffer::<T>::get(array)?.to_vec(py)
}

/// The type of tokens in batches, by the name that NumPy has for it.
pub fn token_type(name: &str) -> PyResult<TokenType> {
    match name {
        "int64" => Ok(TokenType::I64),
        "int32" => Ok(TokenType::I32),
        "uint16" => Ok(TokenType::U16),
        _ => Err(PyValueError::new_err(format!(
            "dtype is one of int64, int32, uint16, not {name}"
        ))),
    }
}
