//! Fields of batches in Python.

use std::collections::HashMap;

use pagefeed_core::error::Result;
use pagefeed_core::fields::{Field, FieldType, Fields, IGNORED};
use pyo3::prelude::*;

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
            entry.types.iter().map(|dtype| dtype.name()).collect(),
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
