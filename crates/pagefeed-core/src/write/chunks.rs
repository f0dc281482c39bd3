//! Arrow arrays as column chunks, the way Parquet files hold them.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_empty_array};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::{Error, Result};

/// Bytes of a file before its footer's length and mark.
const END_BYTES: usize = 8;
const MARK_BYTES: usize = 4;

/// Returns the data pages of each leaf of a column: plain values, not compressed.
pub fn chunks(array: &ArrayRef) -> Result<Vec<Bytes>> {
    let (file, metadata) = write("x", array)?;
    let file = Bytes::from(file);
    let Some(group) = metadata.row_groups().first() else {
        return Err(Error::internal("the written file has no row group"));
    };
    let ranges = group.columns().iter().map(|chunk| {
        let (start, size) = chunk.byte_range();
        let (start, end) = (start as usize, (start + size) as usize);
        let is_inside = start <= end && end <= file.len();
        let lost = || Error::internal("a column chunk lies outside of its file");
        is_inside.then(|| file.slice(start..end)).ok_or_else(lost)
    });
    ranges.collect()
}

/// Returns the footer of an empty file with such a column.
pub fn footer(column: &str, data_type: &DataType) -> Result<Vec<u8>> {
    let (file, _) = write(column, &new_empty_array(data_type))?;
    let end = file.len().saturating_sub(END_BYTES);
    Ok(file.get(MARK_BYTES..end).unwrap_or_default().to_vec())
}

fn write(column: &str, array: &ArrayRef) -> Result<(Vec<u8>, ParquetMetaData)> {
    let field = Field::new(column, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(array)])?;
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_max_row_group_row_count(None)
        .build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema, Some(properties))?;
    writer.write(&batch)?;
    let metadata = writer.close()?;
    Ok((file, metadata))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, Int32Array, ListArray, StructArray};

    use super::*;

    #[test]
    fn a_chunk_is_written_for_each_leaf() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(7), None])]);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![5]));
        let fields = [
            (
                Arc::new(Field::new("a", numbers.data_type().clone(), true)),
                numbers,
            ),
            (
                Arc::new(Field::new("b", lists.data_type().clone(), true)),
                Arc::new(lists) as ArrayRef,
            ),
        ];
        let array: ArrayRef = Arc::new(StructArray::from(fields.to_vec()));
        assert_eq!(chunks(&array).unwrap().len(), 2);
        assert!(chunks(&array.slice(0, 0)).is_err());
        assert!(!footer("x", array.data_type()).unwrap().is_empty());
    }
}
