//! Arrays as bytes, to hand them to another process: Arrow IPC streams of one column.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};

use crate::error::{Error, Result};

/// Writes an array and its field.
pub fn to_bytes(array: &ArrayRef, field: &Field) -> Result<Vec<u8>> {
    let write = || {
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(array)])?;
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        writer.write(&batch)?;
        writer.into_inner()
    };
    write().map_err(failed)
}

/// Reads what [`to_bytes`] wrote.
pub fn from_bytes(bytes: &[u8]) -> Result<(ArrayRef, Field)> {
    let read = || {
        let mut reader = StreamReader::try_new(Cursor::new(bytes), None)?;
        let batch = reader
            .next()
            .ok_or_else(|| ArrowError::IpcError("there is no array".into()))??;
        let field = batch.schema().field(0).clone();
        Ok((Arc::clone(batch.column(0)), field))
    };
    read().map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::invalid(format!(
        "the array cannot be moved to another process: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use arrow_array::cast::AsArray;
    use arrow_schema::DataType;

    use super::*;

    #[test]
    fn an_array_comes_back() {
        let array: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
        let field = Field::new("text", DataType::Utf8, true);
        let sliced = array.slice(1, 2);
        let (read, read_field) = from_bytes(&to_bytes(&sliced, &field).unwrap()).unwrap();
        assert_eq!(read_field, field);
        assert_eq!(read.as_string::<i32>(), sliced.as_string::<i32>());
        assert!(from_bytes(b"nothing").is_err());
    }
}
