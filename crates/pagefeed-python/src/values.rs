//! Values of a column from Python.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, NullArray, StringArray};
use pagefeed_core::error::Result;
use pagefeed_core::pages::row_column::{Column, InfilledRows};
use pyo3::prelude::*;

use crate::arrow::ArrowArray;
use crate::flat::{FlatField, RecordColumn};
use crate::index::Index;

/// Source of a column of rows of a dataset.
#[derive(FromPyObject)]
pub enum Values<'py> {
    Index(Bound<'py, Index>),
    Records(Bound<'py, RecordColumn>),
    Array(Bound<'py, ArrowArray>),
    Numbers(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
}

impl Values<'_> {
    /// The column without Python.
    pub fn into_column(self, verify_checksums: bool) -> Result<Column> {
        Ok(match self {
            Self::Records(records) => {
                let column = records.get().column()?;
                match records.get().infilled(&column) {
                    None => Column::Records(column),
                    Some(how) => Column::Infilled(Box::new(Column::Records(column)), how),
                }
            }
            Self::Index(index) => {
                let (index, rows) = (index.get(), index.get().indexed(verify_checksums));
                let column = match &index.tokenization {
                    None => Column::Pages(rows.clone()),
                    Some(tokenization) => Column::Texts(rows.clone(), tokenization.clone()),
                };
                match index.infilling.clone() {
                    None => column,
                    Some((infilling, filling)) => Column::Infilled(
                        Box::new(column),
                        InfilledRows {
                            rows,
                            infilling,
                            filling,
                        },
                    ),
                }
            }
            Self::Array(array) => Column::Values(Arc::clone(&array.get().array)),
            Self::Numbers(numbers) => {
                let is_nothing = numbers.iter().all(Option::is_none);
                let array: ArrayRef = match is_nothing {
                    true => Arc::new(NullArray::new(numbers.len())),
                    false => Arc::new(Int64Array::from(numbers)),
                };
                Column::Values(array)
            }
            Self::Text(text) => Column::Values(Arc::new(StringArray::from(text))),
        })
    }
}

/// Source of an aligned column of a dataset.
#[derive(FromPyObject)]
pub enum Beside<'py> {
    Column(Bound<'py, Index>),
    Field(Bound<'py, FlatField>),
}
