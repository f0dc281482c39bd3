//! Lists and structs put together around their leaves, by the levels of those.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, StructArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use super::records::Records;
use super::strings;
use crate::buffers::reserve;
use crate::decode::PageRun;
use crate::error::{Error, Result};
use crate::lists::too_many;
use crate::page::PageOpener;
use crate::schema::{ColumnSchema, Leaf};

/// Levels and values of a leaf, without the nodes around it.
type Column = (Records, ArrayRef);

/// Decodes a column of strings, or of structs and lists of strings; `None` for other
/// columns and encodings.
pub(crate) fn decode(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    runs: &[PageRun],
    rows: &Range<u64>,
) -> Result<Option<ArrayRef>> {
    let mut types = Vec::new();
    if !is_readable(&schema.field, Depth::default(), &schema.leaves, &mut types) {
        return Ok(None);
    }
    let mut columns: Vec<Column> = Vec::with_capacity(runs.len());
    for ((leaf, run), data_type) in schema.leaves.iter().zip(runs).zip(types) {
        let Some(column) = strings::read(opener, run, leaf, data_type, run.rows_of(rows))? else {
            return Ok(None);
        };
        columns.push(column);
    }
    assemble(&schema.field, Depth::default(), &columns, &mut 0).map(Some)
}

/// Levels of a node of the schema.
#[derive(Clone, Copy, Default)]
struct Depth {
    /// Definition level from which on the node is present.
    definition: u8,
    /// Repetition level of further elements of the list around the node.
    repetition: i16,
    /// Definition level from which on that list has elements.
    element: u8,
}

impl Depth {
    fn of(self, field: &Field) -> Self {
        Self {
            definition: self.definition + u8::from(field.is_nullable()),
            ..self
        }
    }

    fn in_list(self) -> Self {
        Self {
            definition: self.definition + 1,
            repetition: self.repetition + 1,
            element: self.definition + 1,
        }
    }
}

/// Whether the column has strings, structs and lists whose levels agree with the Arrow
/// type; collects the types of the leaves.
fn is_readable<'a>(
    field: &'a Field,
    depth: Depth,
    leaves: &[Leaf],
    types: &mut Vec<&'a DataType>,
) -> bool {
    let depth = depth.of(field);
    match field.data_type() {
        DataType::Struct(fields) => {
            !fields.is_empty() && fields.iter().all(|f| is_readable(f, depth, leaves, types))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            is_readable(item, depth.in_list(), leaves, types)
        }
        data_type => {
            let leaf = leaves.get(types.len());
            types.push(data_type);
            leaf.is_some_and(|leaf| {
                strings::is_string(data_type, leaf)
                    && i16::from(depth.definition) == leaf.max_definition
                    && depth.repetition == leaf.max_repetition
            })
        }
    }
}

/// The array of `field`, whose leaves begin with number `next`.
fn assemble(field: &Field, depth: Depth, columns: &[Column], next: &mut usize) -> Result<ArrayRef> {
    let (records, leaf) = &columns[*next];
    let inside = depth.of(field);
    match field.data_type() {
        DataType::Struct(fields) => {
            let mut arrays = Vec::with_capacity(fields.len());
            for field in fields {
                let (other, _) = &columns[*next];
                if !records.agrees(other, inside.repetition, inside.element) {
                    return Err(Error::corrupt(format!(
                        "the lists of field {:?} are of other lengths than its neighbours'",
                        field.name()
                    )));
                }
                arrays.push(assemble(field, inside, columns, next)?);
            }
            let nulls = validity(field, inside, records)?;
            Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                arrays,
                nulls,
            )?))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            let values = assemble(item, inside.in_list(), columns, next)?;
            let nulls = validity(field, inside, records)?;
            match field.data_type() {
                DataType::LargeList(_) => lists::<i64>(item, inside, records, values, nulls),
                _ => lists::<i32>(item, inside, records, values, nulls),
            }
        }
        _ => {
            *next += 1;
            Ok(leaf.clone())
        }
    }
}

/// Returns which entries of a node are not null; `None` if all are null-free.
fn validity(field: &Field, depth: Depth, records: &Records) -> Result<Option<NullBuffer>> {
    if !field.is_nullable() || !records.has_nulls() {
        return Ok(None);
    }
    let elements = records.elements(depth.repetition, depth.element)?;
    let bits = BooleanBuffer::collect_bool(elements.len(), |i| elements[i] >= depth.definition);
    let nulls = NullBuffer::new(bits);
    Ok((nulls.null_count() > 0).then_some(nulls))
}

fn lists<O: OffsetSizeTrait>(
    item: &FieldRef,
    depth: Depth,
    records: &Records,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    O::from_usize(values.len()).ok_or_else(too_many)?;
    let (list, element) = (depth, depth.in_list());
    let (mut offsets, mut num_items) = (Vec::new(), 0);
    for (repetition, definition) in records.levels() {
        let repetition = i16::from(repetition);
        if offsets.len() == offsets.capacity() {
            let more = offsets.len().max(1024);
            reserve(&mut offsets, more)?;
        }
        if repetition <= list.repetition && definition >= list.element {
            offsets.push(O::usize_as(num_items));
        }
        num_items += usize::from(repetition <= element.repetition && definition >= element.element);
    }
    offsets.push(O::usize_as(num_items));
    if num_items != values.len() {
        return Err(Error::corrupt(format!(
            "lists of {num_items} elements, of which {} are there",
            values.len()
        )));
    }
    let offsets = OffsetBuffer::new(offsets.into());
    let list = GenericListArray::<O>::try_new(item.clone(), offsets, values, nulls)?;
    Ok(Arc::new(list))
}
