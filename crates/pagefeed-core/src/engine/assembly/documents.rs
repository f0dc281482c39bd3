//! Documents of a batch: lists in its cells as rows of tokens, cut, padded or joined, and
//! what comes with them.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, RecordBatch};

use super::aligned::AlignedWriter;
use super::buffer::Buffer;
use super::list_rows::{ListRows, write_lists};
use super::number_lists::NumberLists;
use crate::engine::documents::{DocumentColumns, Documents, Pad};
use crate::engine::{Aligned, EngineConfig};
use crate::error::{Error, Result};
use crate::fields::{Field, Sections};
use crate::lists::list_lengths;
use crate::metadata::spans::find_wrong;
use crate::metadata::table::of_documents;
use crate::metadata::{TableSchema, span_fields};
use crate::tokens::as_numbers;

/// Makes the rows of a batch of its columns, and keeps those that are handed out. An
/// error may name a row of the batch.
pub(super) fn finish(
    config: &EngineConfig,
    documents: &Documents,
    buffer: &mut Buffer,
) -> Result<()> {
    let columns = std::mem::take(&mut buffer.columns);
    if documents.has_tokens {
        write_tokens(config, documents, buffer, &columns)?;
    } else {
        write_padded(documents, buffer, &columns)?;
    }
    let kept = columns.into_iter().enumerate();
    let kept = kept.filter(|&(column, _)| documents.keeps(column));
    buffer.columns = kept.map(|(_, array)| array).collect();
    Ok(())
}

/// Places of documents in a batch.
struct Shape {
    /// Number of rows, and tokens of each.
    num_rows: usize,
    length: usize,
    /// Places of each document among the tokens of all rows.
    positions: Vec<Range<usize>>,
}

impl Shape {
    /// The shape of documents with these numbers of tokens.
    fn new(documents: &Documents, whole: &[i64]) -> Self {
        let most = documents.max_length.unwrap_or(usize::MAX);
        let cut = |&length: &i64| most.min(usize::try_from(length).unwrap_or(0));
        let lengths = whole.iter().map(cut);
        let length = match documents.pad {
            Pad::Longest => lengths.clone().max().unwrap_or(0),
            Pad::Full => most,
            Pad::Joined => lengths.clone().sum(),
        };
        let length = length.max(1);
        let is_joined = documents.pad == Pad::Joined;
        let mut end = 0;
        let position = |(row, own): (usize, usize)| {
            let start = if is_joined { end } else { row * length };
            end = start + own;
            start..end
        };
        Self {
            num_rows: if is_joined { 1 } else { whole.len() },
            length,
            positions: lengths.enumerate().map(position).collect(),
        }
    }

    fn num_tokens(&self) -> usize {
        self.num_rows.saturating_mul(self.length)
    }

    /// Writes the length of each document.
    fn put_lengths(&self, memory: &mut [u8]) {
        for (to, position) in as_numbers::<i64>(memory).iter_mut().zip(&self.positions) {
            *to = position.len() as i64;
        }
    }
}

/// Writes columns of lists, each as rows of another length, and the lengths of its lists.
fn write_padded(documents: &Documents, buffer: &mut Buffer, columns: &[ArrayRef]) -> Result<()> {
    let mut sections = Sections::default();
    let mut shapes = Vec::new();
    for &(column, _) in &documents.padded {
        let shape = Shape::new(documents, &list_lengths(&columns[column])?);
        sections = sections
            .with_aligned(shape.num_tokens(), size_of::<i64>())
            .with_aligned(shape.num_rows, size_of::<i64>());
        shapes.push(shape);
    }
    buffer.row_lengths = shapes.iter().map(|shape| shape.length).collect();
    buffer.reshape(sections)?;
    let mut views = buffer.views().aligned.into_iter();
    for (shape, &(column, padding)) in shapes.iter().zip(&documents.padded) {
        let numbers = as_numbers::<i64>(views.next().unwrap_or_default());
        write_lists(&columns[column], &shape.positions, padding, numbers)?;
        shape.put_lengths(views.next().unwrap_or_default());
    }
    Ok(())
}

/// Writes tokens, fields, metadata, the numbers of the tokens, and the lengths of the
/// documents.
fn write_tokens(
    config: &EngineConfig,
    documents: &Documents,
    buffer: &mut Buffer,
    columns: &[ArrayRef],
) -> Result<()> {
    let fields = &config.layout.fields;
    let whole = list_lengths(&columns[0])?;
    let shape = Shape::new(documents, &whole);
    let beside = documents.aligned.iter();
    let beside = beside.map(|asked| NumberLists::new(asked, columns));
    let beside: Vec<NumberLists<'_>> = beside.collect::<Result<_>>()?;
    let aligned: Vec<Aligned> = beside.iter().flat_map(NumberLists::columns).collect();
    let mut sections = Sections::new(fields, shape.num_tokens(), config.token_type.num_bytes());
    for column in &aligned {
        sections = sections.with_aligned(shape.num_tokens(), column.token_bytes());
    }
    buffer.row_lengths = vec![shape.length];
    buffer.reshape(sections.with_aligned(shape.positions.len(), size_of::<i64>()))?;
    let mut borders = std::mem::take(&mut buffer.written.borders);
    let mut views = buffer.views();
    let mut memory = std::mem::take(&mut views.aligned);
    shape.put_lengths(memory.pop().unwrap_or_default());
    let loss_mask = config.layout.loss_column;
    let loss_mask = loss_mask.map(|column| (column, views.slots(fields, Field::LossMask)));
    let rows = ListRows {
        length: shape.length,
        padding: config.padding,
        token_type: config.token_type,
        fields: *fields,
    };
    let made = rows.write(&mut views, &columns[0], &shape.positions, &mut borders)?;
    let table = documents.metadata.as_ref();
    let table = table.map(|asked| metadata(config, documents, asked, columns, &whole));
    let table = table.transpose()?;
    let mut writer = AlignedWriter::of(aligned, memory, shape.length, fields.across_documents);
    writer.pad(0..shape.num_tokens());
    let mut next = writer.columns.iter_mut();
    for lists in &beside {
        lists.write(&whole, &shape.positions, &mut next)?;
    }
    writer.end(&borders);
    if let Some((column, mut mask)) = loss_mask {
        writer.mask(column, &mut mask);
    }
    buffer.made = made;
    buffer.metadata = table.into_iter().collect();
    buffer.written.borders = borders;
    Ok(())
}

/// Returns the table of the documents.
fn metadata(
    config: &EngineConfig,
    documents: &Documents,
    asked: &DocumentColumns,
    columns: &[ArrayRef],
    whole: &[i64],
) -> Result<RecordBatch> {
    let lengths = whole.iter().map(|&n| u32::try_from(n).unwrap_or(0));
    let lengths: Vec<u32> = lengths.collect();
    let own = asked.first..asked.first + asked.names.len();
    let both = columns[own.clone()].iter().zip(&config.columns[own]);
    let typed = both.map(|(array, field)| {
        let field = field.clone().with_data_type(array.data_type().clone());
        (array, field)
    });
    let typed: Vec<(&ArrayRef, arrow_schema::Field)> = typed.collect();
    let named = asked.names.iter().zip(&typed);
    let named = named.map(|(name, (array, field))| (name.as_str(), *array, field));
    let named: Vec<_> = named.collect();
    let (fields, arrays) = span_fields(&named, &asked.are_spans)?;
    let by_column = arrays.iter().zip(&fields).zip(&asked.are_spans);
    for ((array, field), _) in by_column.filter(|(_, are_spans)| **are_spans) {
        if let Some((row, wrong)) = find_wrong(array, &lengths)? {
            let error = Error::corrupt(format!("row {row} of a batch {wrong}"));
            return Err(error.in_column(field.name()).at_batch_row(row));
        }
    }
    let schema = TableSchema::new(fields, asked.are_spans.clone())?;
    let is_there = &columns[asked.there];
    let there = (0..is_there.len()).filter(|&row| is_there.is_valid(row));
    let most = documents.max_length.unwrap_or(usize::MAX);
    of_documents(&schema, &arrays, there, &lengths, most)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Float64Type, Int32Type};
    use arrow_array::{ListArray, StringArray};

    use super::*;
    use crate::engine::documents::AlignedLists;
    use crate::engine::{Layout, TokenType};
    use crate::tokens::PerToken;

    fn column<T: arrow_array::types::ArrowPrimitiveType>(
        lists: Vec<Option<Vec<Option<T::Native>>>>,
    ) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<T, _, _>(lists))
    }

    /// The batch of tokens and numbers, or the error.
    fn made(columns: &[ArrayRef], pad: Pad, per_token: PerToken) -> Result<(Buffer, Documents)> {
        let documents = Documents {
            has_tokens: true,
            max_length: Some(2),
            pad,
            num_named: columns.len(),
            aligned: vec![AlignedLists {
                name: "numbers".into(),
                column: 1,
                has: None,
                per_token,
                is_shifted: false,
                unlearned: None,
            }],
            ..Documents::default()
        };
        let config = EngineConfig {
            num_threads: 1,
            budget: 1 << 20,
            token_type: TokenType::I64,
            batch_rows: columns[0].len(),
            row_length: 0,
            columns: Vec::new(),
            row_payload: 0,
            padding: -7,
            layout: Layout::default(),
        };
        let mut buffer = Buffer::new(&Sections::default())?;
        buffer.columns = columns.to_vec();
        finish(&config, &documents, &mut buffer)?;
        Ok((buffer, documents))
    }

    #[test]
    fn numbers_keep_their_type_and_follow_the_tokens() {
        let tokens = column::<Int32Type>(vec![
            Some(vec![Some(1), Some(2), Some(3)]),
            None,
            Some(vec![Some(4)]),
        ]);
        let numbers = column::<Float64Type>(vec![
            Some(vec![Some(1.5), Some(-2.0), Some(3.0)]),
            None,
            Some(vec![Some(0.25)]),
        ]);
        let per_token = PerToken {
            padding: 9.0f64.to_bits(),
            ..PerToken::default()
        };
        for (slice, pad, length, ids, expected) in [
            (
                0,
                Pad::Longest,
                2,
                vec![1, 2, -7, -7, 4, -7],
                vec![1.5, -2.0, 9.0, 9.0, 0.25, 9.0],
            ),
            (0, Pad::Joined, 3, vec![1, 2, 4], vec![1.5, -2.0, 0.25]),
            (1, Pad::Longest, 1, vec![-7, 4], vec![9.0, 0.25]),
            (
                1,
                Pad::Full,
                2,
                vec![-7, -7, 4, -7],
                vec![9.0, 9.0, 0.25, 9.0],
            ),
        ] {
            let columns = [&tokens, &numbers].map(|all| all.slice(slice, 3 - slice));
            let (mut buffer, documents) = made(&columns, pad, per_token).unwrap();
            assert_eq!(buffer.row_lengths, [length]);
            assert!(buffer.columns.is_empty() && !documents.keeps(0) && !documents.keeps(1));
            let mut views = buffer.views();
            assert_eq!(views.take::<i64>(Field::InputIds), ids);
            let found = as_numbers::<i64>(&mut *views.aligned[0]);
            let bits: Vec<i64> = expected
                .iter()
                .map(|n: &f64| n.to_bits().cast_signed())
                .collect();
            assert_eq!(found, bits);
            let lengths = [2, 0, 1];
            assert_eq!(as_numbers::<i64>(&mut *views.aligned[1]), &lengths[slice..]);
        }
    }

    #[test]
    fn what_does_not_fit_its_tokens_is_refused() {
        let tokens = column::<Int32Type>(vec![Some(vec![Some(1)]), Some(vec![Some(1), Some(2)])]);
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let holes = column::<Int32Type>(vec![Some(vec![None]), Some(vec![Some(1), Some(2)])]);
        let short = column::<Int32Type>(vec![Some(vec![Some(1)]), Some(vec![Some(1)])]);
        for (numbers, row) in [(text, None), (holes, Some(0)), (short, Some(1))] {
            let columns = [Arc::clone(&tokens), numbers];
            let error = made(&columns, Pad::Longest, PerToken::default()).unwrap_err();
            assert_eq!(error.location().batch_row, row);
            assert_eq!(error.location().column.as_deref(), Some("numbers"));
        }
    }
}
