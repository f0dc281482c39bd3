//! The parts of orders in Python, over NumPy's arrays of uint64.

use pagefeed_core::error::Error;
use pagefeed_core::order::{self, Permutations, Sizes};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::error::to_python;
use crate::run::detached_if_many;

/// Hashes each of `values`, a contiguous uint64 array, in its place.
#[pyfunction]
pub fn mix(py: Python<'_>, values: PyBuffer<u64>, first: u64, second: u64) -> PyResult<()> {
    let mut mixed = values.to_vec(py)?;
    detached_if_many(py, mixed.len(), || {
        order::mix(&mut mixed, [first, second]);
        Ok(())
    })?;
    values.copy_from_slice(py, &mixed)
}

/// Scrambles each of `values`, a contiguous uint64 array of numbers of `num_bits` bits, in
/// its place: turns each bit by a hash of those before it.
#[pyfunction]
pub fn scramble(
    py: Python<'_>,
    values: PyBuffer<u64>,
    num_bits: u32,
    first: u64,
    second: u64,
) -> PyResult<()> {
    if !(1..=63).contains(&num_bits) {
        let error = Error::invalid(format!("numbers of {num_bits} bits: 1 to 63 are scrambled"));
        return Err(to_python(py, &error));
    }
    let mut scrambled = values.to_vec(py)?;
    detached_if_many(py, scrambled.len(), || {
        order::scramble(&mut scrambled, num_bits, [first, second]);
        Ok(())
    })?;
    values.copy_from_slice(py, &scrambled)
}

/// Permutes each of `values`, a contiguous uint64 array, in its place: among its size of
/// `sizes`, or all among `size`. `tweaks` is one for each, or empty; `rounds` are the keys
/// of the rounds, an even number.
#[pyfunction]
#[pyo3(signature = (values, *, size, sizes, tweaks, rounds, inverse))]
pub fn permute(
    py: Python<'_>,
    values: PyBuffer<u64>,
    size: u64,
    sizes: Option<PyBuffer<u64>>,
    tweaks: Option<PyBuffer<u64>>,
    rounds: Vec<u64>,
    inverse: bool,
) -> PyResult<()> {
    let copied = |array: Option<PyBuffer<u64>>| array.map(|array| array.to_vec(py)).transpose();
    let (sizes, tweaks) = (copied(sizes)?, copied(tweaks)?.unwrap_or_default());
    let mut mapped = values.to_vec(py)?;
    detached_if_many(py, mapped.len(), || {
        let sizes = sizes.as_deref().map_or(Sizes::One(size), Sizes::Each);
        let rounds = &rounds[..];
        Permutations { rounds, inverse }.apply(&mut mapped, sizes, &tweaks)
    })?;
    values.copy_from_slice(py, &mapped)
}
