//! Ranges of tokens and of pages, over NumPy's arrays.

use pagefeed_core::search::holding;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::index::Index;
use crate::numbers::{Held, bytes_of, lookup};
use crate::run::{detached, detached_if_many};

/// Cuts ranges of the line of all tokens, each row with `per_row` separators, at the
/// ends of pages. Returns for each slice: which range, page (both int64), first
/// token of the page, tokens, and offset in the range (uint32).
#[pyfunction]
pub fn cut_tokens<'py>(
    py: Python<'py>,
    index: PyRef<'py, Index>,
    starts: PyBuffer<i64>,
    stops: PyBuffer<i64>,
    per_row: u64,
) -> PyResult<[Bound<'py, PyBytes>; 5]> {
    let (starts, stops) = (starts.to_vec(py)?, stops.to_vec(py)?);
    let index = &index.index;
    let cut = || index.cut(&starts, &stops, per_row);
    let slices = detached_if_many(py, starts.len(), cut)?;
    Ok([
        bytes_of(py, slices.range),
        bytes_of(py, slices.page),
        bytes_of(py, slices.first_token),
        bytes_of(py, slices.num_tokens),
        bytes_of(py, slices.offset),
    ])
}

/// Lists the pages of ranges, from `first` up to `end`. Returns the first page of each
/// range among these, and their number (uint32), each page (int64) and its rows (uint32).
#[pyfunction]
pub fn list_pages<'py>(
    py: Python<'py>,
    index: PyRef<'py, Index>,
    first: PyBuffer<i64>,
    end: PyBuffer<i64>,
) -> PyResult<[Bound<'py, PyBytes>; 3]> {
    let (first, end) = (first.to_vec(py)?, end.to_vec(py)?);
    let index = &index.index;
    let pages = detached(py, || index.list_pages(&first, &end))?;
    Ok([
        bytes_of(py, pages.offsets),
        bytes_of(py, pages.page),
        bytes_of(py, pages.num_rows),
    ])
}

/// Writes, for each of `numbers`, which of the ranges between `borders` holds it: the last
/// that begins at or before it. All are contiguous int64 arrays; no number is negative.
/// Borders may be mapped from a file, and are not copied.
#[pyfunction]
pub fn find_ranges(
    py: Python<'_>,
    borders: Bound<'_, PyAny>,
    numbers: PyBuffer<i64>,
    found: PyBuffer<i64>,
) -> PyResult<()> {
    let borders: Held<i64> = Held::new(borders)?;
    let borders = borders.all();
    let Some(num_ranges) = borders.len().checked_sub(1).filter(|&count| count > 0) else {
        return Err(PyValueError::new_err("give two borders or more"));
    };
    let first = |range: usize| borders[range].cast_unsigned();
    lookup(py, &numbers, &found, |numbers, found| {
        for (&number, found) in numbers.iter().zip(found) {
            *found = holding(0..num_ranges, number.cast_unsigned(), first) as i64;
        }
        Ok(())
    })
}
