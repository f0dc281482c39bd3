//! Columns of spans: lists of ranges of tokens, each with what else is known of it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, StructArray, new_empty_array};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use arrow_select::interleave::interleave;

use super::document_part::DocumentPart;
use crate::error::{Error, Result};

const START: &str = "start";
const END: &str = "end";

/// Returns the Arrow type of spans for a column of lists of structs with `start` and
/// `end`; `None` for others.
pub fn span_type(data_type: &DataType) -> Option<DataType> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        data_type
    else {
        return None;
    };
    let DataType::Struct(fields) = item.data_type() else {
        return None;
    };
    let is_bound = |field: &FieldRef| field.name() == START || field.name() == END;
    let bounds = fields.iter().filter(|field| is_bound(field));
    let bounds: Vec<_> = bounds.collect();
    if bounds.len() != 2 || !bounds.iter().all(|field| field.data_type().is_integer()) {
        return None;
    }
    let whole = |field: &FieldRef| match is_bound(field) {
        true => Arc::new(Field::new(field.name(), DataType::Int64, true)),
        false => Arc::clone(field),
    };
    let fields: Fields = fields.iter().map(whole).collect();
    let item = Field::new("item", DataType::Struct(fields), true);
    Some(DataType::List(Arc::new(item)))
}

/// Returns the field of a column of spans; an error if it holds none.
pub fn span_field(field: &Field) -> Result<Field> {
    let spans_or_null = match field.data_type() {
        DataType::Null => Some(DataType::Null),
        data_type => span_type(data_type),
    };
    let data_type = spans_or_null.ok_or_else(|| {
        Error::unsupported(format!(
            "{} holds no spans, which are lists of structs with whole numbers `start` and \
             `end`, in tokens of the row, and any other fields",
            field.data_type()
        ))
        .in_column(field.name())
    })?;
    Ok(field.clone().with_data_type(data_type))
}

/// The spans of an array of that type, and their starts and ends.
struct Spans<'a> {
    lists: &'a ListArray,
    items: &'a StructArray,
    starts: &'a Int64Array,
    ends: &'a Int64Array,
}

impl<'a> Spans<'a> {
    fn of(array: &'a dyn Array) -> Result<Self> {
        let spans = || {
            let lists = array.as_list_opt::<i32>()?;
            let items = lists.values().as_struct_opt()?;
            let numbers = |name| items.column_by_name(name)?.as_primitive_opt::<Int64Type>();
            Some(Self {
                lists,
                items,
                starts: numbers(START)?,
                ends: numbers(END)?,
            })
        };
        spans().ok_or_else(|| Error::invalid(format!("spans of type {}", array.data_type())))
    }

    /// Numbers of the spans of a row; none if it is null.
    fn of_row(&self, row: usize) -> impl Iterator<Item = usize> {
        let offsets = self.lists.value_offsets();
        let range = match self.lists.is_valid(row) {
            true => offsets[row] as usize..offsets[row + 1] as usize,
            false => 0..0,
        };
        range.filter(|&span| self.items.is_valid(span))
    }
}

/// Refuses a span outside of its row. `lengths` are those of the rows; `first_row` is
/// the number of the first row in its row group.
pub fn check(array: &dyn Array, lengths: &[u32], first_row: u64) -> Result<()> {
    match find_wrong(array, lengths)? {
        None => Ok(()),
        Some((row, wrong)) => Err(Error::corrupt(format!(
            "row {} of the row group {wrong}",
            first_row + row as u64
        ))),
    }
}

/// Returns the first row with a span outside of it, and the error.
pub fn find_wrong(array: &dyn Array, lengths: &[u32]) -> Result<Option<(usize, String)>> {
    if array.data_type() == &DataType::Null {
        return Ok(None);
    }
    let spans = Spans::of(array)?;
    for (row, &length) in lengths.iter().enumerate() {
        for span in spans.of_row(row) {
            let border = |bounds: &Int64Array| bounds.is_valid(span).then(|| bounds.value(span));
            let (start, end) = (border(spans.starts), border(spans.ends));
            let is_right = matches!(
                (start, end),
                (Some(start), Some(end)) if 0 <= start && start <= end && end <= i64::from(length)
            );
            if !is_right {
                let shown = |border: Option<i64>| border.map_or("null".into(), |n| n.to_string());
                let wrong = format!(
                    "has {length} tokens and a span from {} to {}: spans are start <= end in \
                     tokens of their row; correct the row, or leave the column out of spans",
                    shown(start),
                    shown(end)
                );
                return Ok(Some((row, wrong)));
            }
        }
    }
    Ok(None)
}

/// Returns the spans of the rows that `picks` names in `arrays`, each cut to its
/// document and moved to its position in the sequence.
pub fn clip(
    arrays: &[&dyn Array],
    picks: &[(usize, usize)],
    parts: &[DocumentPart],
    data_type: &DataType,
) -> Result<ArrayRef> {
    let sources: Vec<Spans<'_>> = arrays
        .iter()
        .map(|array| Spans::of(*array))
        .collect::<Result<_>>()?;
    let (DataType::List(item), Some(first)) = (data_type, sources.first()) else {
        return Ok(new_empty_array(data_type));
    };
    let (mut starts, mut ends, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lengths, mut nulls) = (Vec::new(), NullBufferBuilder::new(parts.len()));
    for (&(source, row), part) in picks.iter().zip(parts) {
        let spans = &sources[source];
        let before = chosen.len();
        let begin = part.first_token as i64;
        let end = begin + part.num_tokens as i64;
        let shift = part.start as i64 - begin;
        for span in spans.of_row(row) {
            let (from, to) = (spans.starts.value(span), spans.ends.value(span));
            let is_here = from < end && (to > begin || from == to && from == begin);
            if is_here {
                chosen.push((source, span));
                starts.push(from.max(begin) + shift);
                ends.push(to.min(end) + shift);
            }
        }
        lengths.push(chosen.len() - before);
        nulls.append(spans.lists.is_valid(row));
    }
    let mut bounds = [(START, starts), (END, ends)].map(|(name, numbers)| {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        (name, numbers)
    });
    let columns = (0..first.items.num_columns()).map(|column| {
        let name = first.items.fields()[column].name();
        if let Some((_, numbers)) = bounds.iter_mut().find(|(bound, _)| bound == name) {
            return Ok(Arc::clone(numbers));
        }
        let values = sources
            .iter()
            .map(|spans| spans.items.column(column).as_ref());
        let values: Vec<&dyn Array> = values.collect();
        match chosen.is_empty() {
            true => Ok(new_empty_array(values[0].data_type())),
            false => Ok(interleave(&values, &chosen)?),
        }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let items = StructArray::try_new(first.items.fields().clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let (item, items) = (Arc::clone(item), Arc::new(items));
    Ok(Arc::new(ListArray::try_new(
        item,
        offsets,
        items,
        nulls.finish(),
    )?))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;

    use super::*;

    /// Rows of spans `(start, end)`, each called by the number of the span.
    fn spans(rows: &[Option<&[(i64, i64)]>]) -> ArrayRef {
        let flat: Vec<(i64, i64)> = rows
            .iter()
            .flatten()
            .flat_map(|row| row.iter())
            .copied()
            .collect();
        let names: Vec<String> = (0..flat.len()).map(|number| number.to_string()).collect();
        let bound = |name: &str| Field::new(name, DataType::Int64, true);
        let fields = Fields::from(vec![
            bound(START),
            bound(END),
            Field::new("name", DataType::Utf8, true),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(flat.iter().map(|span| Some(span.0)).collect::<Int64Array>()),
            Arc::new(flat.iter().map(|span| Some(span.1)).collect::<Int64Array>()),
            Arc::new(StringArray::from(names)),
        ];
        let items = StructArray::try_new(fields.clone(), columns, None).unwrap();
        let lengths = rows.iter().map(|row| row.map_or(0, <[_]>::len));
        let nulls = rows.iter().map(Option::is_some).collect::<Vec<_>>().into();
        let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Arc::new(ListArray::try_new(item, offsets, Arc::new(items), Some(nulls)).unwrap())
    }

    fn part(start: usize, first_token: usize, num_tokens: usize) -> DocumentPart {
        DocumentPart {
            sequence: 0,
            start,
            first_token,
            num_tokens,
        }
    }

    fn cut(array: &ArrayRef, row: usize, part: DocumentPart) -> Option<Vec<(i64, i64, String)>> {
        let clipped = clip(&[array], &[(0, row)], &[part], array.data_type()).unwrap();
        let clipped = Spans::of(&clipped).unwrap();
        let names = clipped.items.column(2).as_string::<i32>();
        let span = |span| {
            let name = names.value(span).to_string();
            (clipped.starts.value(span), clipped.ends.value(span), name)
        };
        clipped
            .lists
            .is_valid(0)
            .then(|| clipped.of_row(0).map(span).collect())
    }

    #[test]
    fn spans_are_cut_and_moved() {
        let array = spans(&[Some(&[(0, 4), (4, 9), (9, 9), (2, 12)]), None, Some(&[])]);
        let named = |spans: &[(i64, i64, &str)]| {
            Some(
                spans
                    .iter()
                    .map(|&(a, b, name)| (a, b, name.to_string()))
                    .collect::<Vec<_>>(),
            )
        };
        let whole = named(&[(5, 9, "0"), (9, 14, "1"), (14, 14, "2"), (7, 17, "3")]);
        assert_eq!(cut(&array, 0, part(5, 0, 12)), whole);
        assert_eq!(
            cut(&array, 0, part(0, 4, 5)),
            named(&[(0, 5, "1"), (0, 5, "3")])
        );
        assert_eq!(
            cut(&array, 0, part(1, 9, 3)),
            named(&[(1, 1, "2"), (1, 4, "3")])
        );
        assert_eq!(cut(&array, 1, part(0, 0, 5)), None);
        assert_eq!(cut(&array, 2, part(0, 0, 5)), named(&[]));
    }

    #[test]
    fn spans_outside_of_their_row_are_refused() {
        let array = spans(&[Some(&[(0, 4)]), None, Some(&[(1, 3), (3, 6)])]);
        assert!(check(&array, &[4, 0, 6], 10).is_ok());
        let error = check(&array, &[4, 0, 5], 10).unwrap_err().to_string();
        assert!(
            error.contains("row 12") && error.contains("from 3 to 6"),
            "{error}"
        );
        for wrong in [(-1, 2), (3, 2)] {
            assert!(check(&spans(&[Some(&[wrong])]), &[9], 0).is_err());
        }
    }

    #[test]
    fn types_of_spans() {
        let array = spans(&[]);
        assert_eq!(
            span_type(array.data_type()),
            Some(array.data_type().clone())
        );
        for other in [DataType::Int64, DataType::Utf8] {
            let list = DataType::List(Arc::new(Field::new("item", other.clone(), true)));
            assert_eq!((span_type(&other), span_type(&list)), (None, None));
        }
    }
}
