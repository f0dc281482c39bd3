//! The parts of orders in Python, over NumPy's arrays.

use pagefeed_core::order::dealing::{Dealing, Key, Stretch};
use pagefeed_core::order::{self, Permutations, Sizes};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::numbers::bytes_of;
use crate::run::detached_if_many;

/// Hashes each of `values`, a contiguous uint64 array, in place.
#[pyfunction]
pub fn mix(py: Python<'_>, values: PyBuffer<u64>, first: u64, second: u64) -> PyResult<()> {
    let mut mixed = values.to_vec(py)?;
    detached_if_many(py, mixed.len(), || {
        order::mix(&mut mixed, [first, second]);
        Ok(())
    })?;
    values.copy_from_slice(py, &mixed)
}

/// Deals the sequences of some ranks in a stretch by their costs.
///
/// `sequences` (int64), `costs` (float64) and `stays` (uint8, or None) have an element for each
/// position of the ranks, turn after turn. `first` are the ranks' first positions. `keys` are
/// for quantiles, buckets, ranks and costs. Returns `[ranks, slots]` in native order: the new
/// slot of each slot, int32, and the sequence at each slot, int64.
#[pyfunction]
#[pyo3(signature = (sequences, costs, stays, *, first, keys, num_ranks, exact, bucket, equal))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub fn deal<'py>(
    py: Python<'py>,
    sequences: PyBuffer<i64>,
    costs: PyBuffer<f64>,
    stays: Option<PyBuffer<u8>>,
    first: Vec<u64>,
    keys: [Key; 4],
    num_ranks: u64,
    exact: bool,
    bucket: u64,
    equal: f64,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let (sequences, costs) = (sequences.to_vec(py)?, costs.to_vec(py)?);
    let stays = stays.map(|stays| stays.to_vec(py)).transpose()?;
    let dealing = Dealing {
        keys,
        num_ranks,
        exact,
        bucket,
        equal,
    };
    let dealt = detached_if_many(py, sequences.len(), || {
        dealing.deal(Stretch {
            first: &first,
            sequences: &sequences,
            costs: &costs,
            stays: stays.as_deref().unwrap_or_default(),
        })
    })?;
    Ok((bytes_of(py, dealt.put), bytes_of(py, dealt.sequences)))
}

/// Permutes each of `values`, a contiguous uint64 array, in place: below its size of
/// `sizes`, or all below `size`. `tweaks` has one for each value, or is empty; `rounds`
/// are the keys of the rounds, an even number.
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
