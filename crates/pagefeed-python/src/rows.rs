//! Rows that Python makes texts or chats of, and encodes.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, Fields};
use pagefeed_core::error::{Error, Result};
use pagefeed_core::pages::text::is_text;
use pagefeed_core::text::{EncodeRows, Visit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::ArrowArray;

/// A Python function of an Arrow array of structs, the rows. It returns three arrays as
/// bytes in native order: all ids (uint32), their labels (int32, if it has labels), and
/// the number of ids of each row.
pub struct Rows {
    function: Py<PyAny>,
    /// Names of the columns.
    names: Vec<String>,
    has_labels: bool,
}

impl Rows {
    /// Takes an object of Python that describes itself.
    pub fn new(py: Python<'_>, function: Py<PyAny>) -> PyResult<Self> {
        let encoder = function.bind(py);
        Ok(Self {
            names: encoder.getattr("columns")?.extract()?,
            has_labels: encoder.getattr("has_labels")?.extract()?,
            function,
        })
    }
}

impl EncodeRows for Rows {
    fn check(&self, field: &Field) -> Result<()> {
        let data_type = field.data_type();
        let is_list = matches!(data_type, DataType::List(_) | DataType::LargeList(_));
        match !self.has_labels || is_list || is_text(data_type) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "a column of chats holds lists of messages, or JSON text of them, but {:?} is \
                 {data_type}",
                field.name()
            ))),
        }
    }

    fn has_labels(&self) -> bool {
        self.has_labels
    }

    fn encode(&self, columns: &[ArrayRef], visit: &mut Visit<'_>) -> Result<()> {
        let fields = self.names.iter().zip(columns);
        let fields = fields.map(|(name, array)| Field::new(name, array.data_type().clone(), true));
        let rows = StructArray::try_new(Fields::from_iter(fields), columns.to_vec(), None)?;
        self.check(&rows.fields()[0])?;
        let num_rows = rows.len();
        let field = Field::new("rows", rows.data_type().clone(), false);
        let given = ArrowArray::new(Arc::new(rows), field);
        let answer = Python::try_attach(|py| -> PyResult<[Vec<[u8; 4]>; 3]> {
            let answer = self.function.bind(py).call1((given,))?;
            let parts: [Bound<'_, PyBytes>; 3] = answer.extract()?;
            Ok(parts.map(|bytes| bytes.as_bytes().as_chunks().0.to_vec()))
        });
        let [ids, labels, counts] = match answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => return Err(Error::corrupt(message_of(&error))),
            None => return Err(Error::invalid("Python is shutting down")),
        };
        let ids: Vec<u32> = ids.into_iter().map(u32::from_ne_bytes).collect();
        let labels: Vec<i32> = labels.into_iter().map(i32::from_ne_bytes).collect();
        let mut begin = 0;
        for row in 0..num_rows {
            let count = counts
                .get(row)
                .map_or(0, |&count| u32::from_ne_bytes(count));
            let range = begin..begin + count as usize;
            let missing = || Error::invalid("fewer ids and labels than were announced");
            let of_row = ids.get(range.clone()).ok_or_else(missing)?;
            let labels = match self.has_labels {
                true => labels.get(range.clone()).ok_or_else(missing)?,
                false => &[],
            };
            visit(row, of_row, labels)?;
            begin = range.end;
        }
        Ok(())
    }
}

/// Returns the message of a Python error, without its type.
fn message_of(error: &PyErr) -> String {
    Python::try_attach(|py| error.value(py).to_string()).unwrap_or_else(|| error.to_string())
}
