//! Lists as batches: rows of one length.

use arrow_array::Array;
use pagefeed_core::Error;
use pagefeed_core::error::Result;
use pagefeed_core::lists::token_lists;
use pagefeed_core::pad::{self, Padding};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::aligned::AskedAligned;
use crate::arrow::ArrowArray;
use crate::buffer::Buffer;
use crate::error::to_python;
use crate::fields::AskedFields;
use crate::numbers::token_type;
use crate::run::detached;

/// Lists with numbers for each token, like `per_token` says, as rows of `length`
/// tokens in their own type, cut or filled up; `lengths` (int64) are the tokens of each.
/// With `starts` (int64) all are one row, in which each begins there. Where `has` is
/// null the column is not of the dataset of the row, whose tokens have padding.
#[pyfunction]
#[pyo3(signature = (lists, lengths, length, per_token, *, starts=None, has=None))]
pub fn padded_numbers(
    py: Python<'_>,
    lists: &Bound<'_, ArrowArray>,
    lengths: PyBuffer<i64>,
    length: usize,
    per_token: AskedAligned,
    starts: Option<PyBuffer<i64>>,
    has: Option<&Bound<'_, ArrowArray>>,
) -> PyResult<Buffer> {
    let mut lengths = lengths.to_vec(py)?;
    if let Some(has) = has {
        let has = &has.get().array;
        let rows = lengths.iter_mut().zip(0..has.len());
        let lacking = rows.filter(|&(_, row)| has.is_null(row));
        lacking.for_each(|(length, _)| *length = 0);
    }
    let starts = starts.map(|starts| starts.to_vec(py)).transpose()?;
    let (starts, lists) = (starts.as_deref(), &lists.get().array);
    let per_token = per_token.per_token();
    let padded = py.detach(|| pad::padded_numbers(lists, &lengths, length, starts, &per_token));
    padded.map(Buffer::from).map_err(|(row, error)| {
        let error = to_python(py, &error);
        // An exception without attributes is one all the same.
        let _ = error.value(py).setattr("batch_row", row);
        error
    })
}

/// Returns lists of integers as rows of `length` tokens, cut or padded with `padding`,
/// and fields made of them. Documents begin with each list, and at the rising `starts`
/// (int64) in the flattened batch.
#[pyfunction]
#[pyo3(signature = (lists, length, padding, dtype, *, fields=None, starts=None))]
pub fn padded(
    py: Python<'_>,
    lists: &Bound<'_, ArrowArray>,
    length: usize,
    padding: i64,
    dtype: &str,
    fields: Option<AskedFields>,
    starts: Option<PyBuffer<i64>>,
) -> PyResult<Buffer> {
    let starts = starts.map_or(Ok(Vec::new()), |starts| places(py, &starts))?;
    let padding = Padding {
        length,
        token: padding,
        token_type: token_type(dtype)?,
        fields: AskedFields::parse(fields).map_err(|error| to_python(py, &error))?,
    };
    let lists = &lists.get().array;
    detached(py, || padding.batch(lists, &starts)).map(Buffer::from)
}

/// Places in a flattened batch.
fn places(py: Python<'_>, starts: &PyBuffer<i64>) -> PyResult<Vec<usize>> {
    let outside = |_| Error::invalid("a document begins before the batch");
    let starts = starts.to_vec(py)?.into_iter();
    let starts = starts.map(|start| usize::try_from(start).map_err(outside));
    let starts: Result<Vec<usize>> = starts.collect();
    starts.map_err(|error| to_python(py, &error))
}

/// A batch of rows of `length`, filled up with `padding`: `tokens` (uint32) are those of
/// all rows, `ends` (int64, rising) where each row ends among them. Documents begin at each
/// row and at `starts` (int64, rising), places of the flattened batch.
#[pyfunction]
#[pyo3(signature = (tokens, ends, length, starts, dtype, *, padding, fields=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of one function"
)]
pub fn token_rows(
    py: Python<'_>,
    tokens: PyBuffer<u32>,
    ends: PyBuffer<i64>,
    length: usize,
    starts: PyBuffer<i64>,
    dtype: &str,
    padding: i64,
    fields: Option<AskedFields>,
) -> PyResult<Buffer> {
    let token_type = token_type(dtype)?;
    let (tokens, ends) = (tokens.to_vec(py)?, places(py, &ends)?);
    let starts = places(py, &starts)?;
    detached(py, || {
        let padding = Padding {
            length,
            token: padding,
            token_type,
            fields: AskedFields::parse(fields)?,
        };
        padding.batch(&token_lists(tokens, &ends)?, &starts)
    })
    .map(Buffer::from)
}
