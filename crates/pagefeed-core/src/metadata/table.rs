//! Tables of the parts of documents in a batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, new_empty_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave;
use arrow_select::take::take_record_batch;

use super::document_part::DocumentPart;
use super::spans;
use crate::error::{Error, Result};

/// Columns that locate a document in the batch; columns of the files follow.
pub const POSITION_COLUMNS: [&str; 4] = ["sequence", "start", "stop", "first_token"];

/// Columns of a metadata table.
#[derive(Debug)]
pub struct TableSchema {
    schema: SchemaRef,
    /// For each column of the files, whether it holds spans.
    are_spans: Vec<bool>,
}

impl TableSchema {
    /// Returns a table with these columns of the files. Columns of `are_spans` have the
    /// type of [`spans::span_type`].
    pub fn new(columns: Vec<FieldRef>, are_spans: Vec<bool>) -> Result<Self> {
        let position = |name: &&str| Arc::new(Field::new(*name, DataType::Int64, false));
        let mut fields: Vec<FieldRef> = POSITION_COLUMNS.iter().map(position).collect();
        fields.extend(columns);
        if fields.len() != POSITION_COLUMNS.len() + are_spans.len() {
            return Err(Error::invalid(
                "give for each column of the table whether it holds spans",
            ));
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            are_spans,
        })
    }

    /// Returns the table of `parts`. For each part, `picks` names a source and a row of
    /// its arrays.
    pub fn table(
        &self,
        parts: &[DocumentPart],
        sources: &[&[ArrayRef]],
        picks: &[(usize, usize)],
    ) -> Result<RecordBatch> {
        let numbers = |value: fn(&DocumentPart) -> usize| -> ArrayRef {
            let numbers = parts.iter().map(|part| value(part) as i64);
            Arc::new(Int64Array::from_iter_values(numbers))
        };
        let mut columns = vec![
            numbers(|part| part.sequence),
            numbers(|part| part.start),
            numbers(|part| part.start + part.num_tokens),
            numbers(|part| part.first_token),
        ];
        for (column, &are_spans) in self.are_spans.iter().enumerate() {
            let arrays: Option<Vec<&dyn Array>> = sources
                .iter()
                .map(|arrays| arrays.get(column).map(AsRef::as_ref))
                .collect();
            let arrays = arrays.ok_or_else(|| Error::invalid("rows without their columns"))?;
            let data_type = self
                .schema
                .field(POSITION_COLUMNS.len() + column)
                .data_type();
            columns.push(if parts.is_empty() {
                new_empty_array(data_type)
            } else if are_spans && data_type != &DataType::Null {
                spans::clip(&arrays, picks, parts, data_type)?
            } else {
                interleave(&arrays, picks).map_err(failed)?
            });
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)
    }

    /// Returns one table of the rows of several, in the order of their positions.
    pub fn concat(&self, tables: &[RecordBatch]) -> Result<RecordBatch> {
        if let [table] = tables {
            return Ok(table.clone());
        }
        let all = concat_batches(&self.schema, tables).map_err(failed)?;
        let numbers = |column: usize| all.column(column).as_primitive::<Int64Type>().values();
        let (sequences, starts) = (numbers(0), numbers(1));
        let mut order: Vec<u32> = (0..all.num_rows() as u32).collect();
        order.sort_by_key(|&row| (sequences[row as usize], starts[row as usize]));
        take_record_batch(&all, &UInt32Array::from(order)).map_err(failed)
    }
}

/// Returns the table of whole documents, cut to `most` tokens: the rows of a batch that
/// are `there`. `lengths` has the tokens of every row.
pub fn of_documents(
    schema: &TableSchema,
    columns: &[ArrayRef],
    there: impl Iterator<Item = usize>,
    lengths: &[u32],
    most: usize,
) -> Result<RecordBatch> {
    let part = |sequence: usize| DocumentPart {
        sequence,
        start: 0,
        first_token: 0,
        num_tokens: most.min(lengths[sequence] as usize),
    };
    let parts: Vec<DocumentPart> = there.filter(|&row| row < lengths.len()).map(part).collect();
    let picks: Vec<(usize, usize)> = parts.iter().map(|part| (0, part.sequence)).collect();
    schema.table(&parts, &[columns], &picks)
}

fn failed(error: ArrowError) -> Error {
    Error::unsupported(format!(
        "the metadata of a batch cannot be put together: {error}; a smaller batch_size \
         may help"
    ))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;

    use super::*;

    fn part(sequence: usize, start: usize) -> DocumentPart {
        DocumentPart {
            sequence,
            start,
            first_token: 7,
            num_tokens: 2,
        }
    }

    #[test]
    fn rows_of_several_tables_are_put_in_order() {
        let name: FieldRef = Arc::new(Field::new("id", DataType::Utf8, true));
        let schema = TableSchema::new(vec![name], vec![false]).unwrap();
        let ids: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
        let source = [ids];
        let make = |parts: &[DocumentPart], rows: &[usize]| {
            let picks: Vec<_> = rows.iter().map(|&row| (0, row)).collect();
            schema.table(parts, &[&source], &picks).unwrap()
        };
        let first = make(&[part(0, 4), part(2, 0)], &[2, 1]);
        let second = make(&[part(0, 0), part(1, 0)], &[0, 0]);
        let all = schema.concat(&[first, second]).unwrap();
        let ids = all.column(4).as_string::<i32>();
        let ids: Vec<_> = ids.iter().collect();
        assert_eq!(ids, [Some("a"), Some("c"), Some("a"), None]);
        let stops = all.column(2).as_primitive::<Int64Type>();
        assert_eq!(stops.values(), &[2, 6, 2, 2]);
        assert_eq!(make(&[], &[]).num_rows(), 0);
    }
}
