//! Tokens of rows as batches.

use std::ops::Range;

use pagefeed_core::Error;
use pagefeed_core::engine::{Batch, ListRows};
use pagefeed_core::error::Result;
use pagefeed_core::lists::token_lists;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::error::to_python;
use crate::fields::AskedFields;
use crate::numbers::token_type;
use crate::run::detached;

/// Positions in a flattened batch.
fn positions(py: Python<'_>, starts: &PyBuffer<i64>) -> PyResult<Vec<usize>> {
    let outside = |_| Error::invalid("a document begins before the batch");
    let starts = starts.to_vec(py)?.into_iter();
    let starts = starts.map(|start| usize::try_from(start).map_err(outside));
    let starts: Result<Vec<usize>> = starts.collect();
    starts.map_err(|error| to_python(py, &error))
}

/// Returns the positions of documents in rows of `length`. A document begins at each row, and
/// at the rising `starts` inside rows. `ends` are the ends of rows among all tokens.
fn documents(ends: &[usize], length: usize, starts: &[usize]) -> Vec<Range<usize>> {
    let mut documents = Vec::new();
    let mut before = 0;
    for (row, &end) in ends.iter().enumerate() {
        let mut begin = row * length;
        let row_end = begin + end.saturating_sub(before).min(length);
        before = end;
        let own = &starts[starts.partition_point(|&start| start <= begin)..];
        let own = own.iter().copied().take_while(|&start| start < row_end);
        for end in own.chain([row_end]) {
            documents.push(begin..end);
            begin = end;
        }
    }
    documents
}

/// A batch of rows of `length`, filled up with `padding`. `tokens` (uint32) has the tokens
/// of all rows, `ends` (int64, rising) the end of each row among them. Documents begin at each
/// row and at `starts` (int64, rising), positions of the flattened batch.
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
    let (tokens, ends) = (tokens.to_vec(py)?, positions(py, &ends)?);
    let starts = positions(py, &starts)?;
    detached(py, || {
        let rows = ListRows {
            length,
            padding,
            token_type,
            fields: AskedFields::parse(fields)?,
        };
        let documents = documents(&ends, length, &starts);
        let ends_of = documents.iter().scan(0, |end, document| {
            *end += document.len();
            Some(*end)
        });
        let lists = token_lists(tokens, &ends_of.collect::<Vec<_>>())?;
        rows.batch(ends.len(), &lists, &documents)
    })
    .map(|rows| Buffer::from(Batch::from(rows)))
}
