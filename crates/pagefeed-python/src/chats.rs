//! Chats, which Python renders and encodes.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use pagefeed_core::error::{Error, Result};
use pagefeed_core::pages::text::is_text;
use pagefeed_core::text::{EncodeRows, Visit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow::ArrowArray;

/// A Python function of an Arrow array of chats that returns three bytes of numbers in
/// native order: ids of all (uint32), their labels (int32), and the number of each row's.
pub struct Chats(pub Py<PyAny>);

impl EncodeRows for Chats {
    fn check(&self, field: &Field) -> Result<()> {
        let data_type = field.data_type();
        let is_list = matches!(data_type, DataType::List(_) | DataType::LargeList(_));
        match is_list || is_text(data_type) {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "a column of chats holds lists of messages, or JSON text of them, but {:?} is \
                 {data_type}",
                field.name()
            ))),
        }
    }

    fn has_labels(&self) -> bool {
        true
    }

    fn encode(&self, rows: &ArrayRef, visit: &mut Visit<'_>) -> Result<()> {
        let field = Field::new("messages", rows.data_type().clone(), true);
        self.check(&field)?;
        let given = ArrowArray::new(Arc::clone(rows), field);
        let found = Python::try_attach(|py| -> PyResult<[Vec<[u8; 4]>; 3]> {
            let found = self.0.bind(py).call1((given,))?;
            let parts: [Bound<'_, PyBytes>; 3] = found.extract()?;
            Ok(parts.map(|part| part.as_bytes().as_chunks().0.to_vec()))
        });
        let [ids, labels, counts] = match found {
            Some(Ok(found)) => found,
            Some(Err(error)) => return Err(Error::corrupt(message_of(&error))),
            None => return Err(Error::invalid("Python is shutting down")),
        };
        let ids: Vec<u32> = ids.into_iter().map(u32::from_ne_bytes).collect();
        let labels: Vec<i32> = labels.into_iter().map(i32::from_ne_bytes).collect();
        let mut begin = 0;
        for row in 0..rows.len() {
            let count = counts
                .get(row)
                .map_or(0, |&count| u32::from_ne_bytes(count));
            let range = begin..begin + count as usize;
            let missing = || Error::invalid("fewer ids and labels than were told");
            let of_row = ids.get(range.clone()).ok_or_else(missing)?;
            visit(row, of_row, labels.get(range.clone()).ok_or_else(missing)?)?;
            begin = range.end;
        }
        Ok(())
    }
}

/// What an error of Python says, without its type.
fn message_of(error: &PyErr) -> String {
    Python::try_attach(|py| error.value(py).to_string()).unwrap_or_else(|| error.to_string())
}
