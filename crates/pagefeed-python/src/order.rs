//! The parts of orders in Python, over NumPy's arrays of uint64.

use pagefeed_core::order::{self, Permutations, Sizes};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

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
