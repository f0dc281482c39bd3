//! Fields of batches in Python.

use std::collections::HashMap;

use pagefeed_core::Error;
use pagefeed_core::error::Result;
use pagefeed_core::fields::{Field, FieldType, Fields, IGNORED};
use pagefeed_core::lists::token_lists;
use pagefeed_core::pad::Padding;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::engine::token_type;
use crate::error::to_python;
use crate::run::detached;

/// Name, types, shape, number on padding, whether only pagefeed makes it, whether models of
/// Hugging Face take it.
type Entry = (
    &'static str,
    Vec<&'static str>,
    &'static str,
    Option<i64>,
    bool,
    bool,
);

/// The fields that a batch may have, in their order: see `FieldEntry` of the core.
#[pyfunction]
pub fn field_table() -> Vec<Entry> {
    let entry = |field: Field| {
        let entry = field.entry();
        (
            entry.name,
            entry.types.iter().map(|each| each.name()).collect(),
            entry.shape.name(),
            entry.padding,
            entry.is_ours_alone,
            entry.is_for_models,
        )
    };
    Field::ALL.map(entry).to_vec()
}

/// The fields of a batch, as Python asks for them: a dict with their names, and the
/// settings that are not as usual.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct AskedFields {
    fields: Vec<String>,
    #[pyo3(default)]
    shifted: bool,
    #[pyo3(default)]
    across_documents: bool,
    #[pyo3(default)]
    dtypes: HashMap<String, String>,
    #[pyo3(default = IGNORED)]
    ignore_index: i64,
}

impl AskedFields {
    /// The fields, or the tokens alone.
    pub fn parse(asked: Option<Self>) -> Result<Fields> {
        let Some(asked) = asked else {
            return Ok(Fields::default());
        };
        let names = asked.fields.iter().map(|name| Field::from_name(name));
        let names: Vec<Field> = names.collect::<Result<_>>()?;
        let mut fields = Fields::new(&names, asked.shifted, asked.across_documents);
        fields.ignored = asked.ignore_index;
        asked
            .dtypes
            .iter()
            .try_fold(fields, |fields, (name, dtype)| {
                fields.with_type(Field::from_name(name)?, FieldType::from_name(dtype)?)
            })
    }
}

/// Places in a flattened batch.
pub fn places(py: Python<'_>, starts: &PyBuffer<i64>) -> PyResult<Vec<usize>> {
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
