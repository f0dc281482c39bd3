//! Lists and structs put together around their leaves, by the levels of those.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, StructArray, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef};

use super::records::{Records, check_levels};
use super::strings;
use crate::buffers::reserve;
use crate::decode::PageRun;
use crate::error::{Error, Result};
use crate::lists::too_many;
use crate::page::PageOpener;
use crate::schema::{ColumnSchema, Leaf, children};

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
    let (mut records, mut values) = (Vec::new(), Vec::new());
    for ((leaf, run), data_type) in schema.leaves.iter().zip(runs).zip(types) {
        let Some(read) = strings::read(opener, run, leaf, data_type, run.rows_of(rows))? else {
            return Ok(None);
        };
        records.push(read.0);
        values.push(read.1);
    }
    check_levels(&schema.leaves, &records)?;
    let columns = (&records[..], &values[..]);
    assemble(&schema.field, Depth::default(), columns, &mut 0).map(Some)
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

/// The array of `field`, whose leaves begin with number `next`; `columns` are the levels of
/// the leaves, and their values without the nodes around them.
fn assemble(
    field: &Field,
    depth: Depth,
    columns: (&[Records], &[ArrayRef]),
    next: &mut usize,
) -> Result<ArrayRef> {
    let (records, leaf) = (&columns.0[*next], &columns.1[*next]);
    let inside = depth.of(field);
    match field.data_type() {
        DataType::Struct(fields) => {
            let mut arrays = Vec::with_capacity(fields.len());
            for field in fields {
                arrays.push(assemble(field, inside, columns, next)?);
            }
            let nulls = validity(inside, records)?;
            Ok(Arc::new(StructArray::try_new(
                fields.clone(),
                arrays,
                nulls,
            )?))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            let values = assemble(item, inside.in_list(), columns, next)?;
            let nulls = validity(inside, records)?;
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

/// Returns which entries of a node are not null; `None` if all are null-free. A required node
/// has the nulls of the struct around it, without which Arrow takes those inside for damage.
fn validity(depth: Depth, records: &Records) -> Result<Option<NullBuffer>> {
    if depth.definition == depth.element || !records.has_nulls() {
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

/// Gives required structs the nulls of the struct around them, which the crate leaves out, where
/// there are such structs.
pub(super) fn with_outer_nulls(array: ArrayRef, field: &Field) -> Result<ArrayRef> {
    Ok(match has_required_struct(field, false) {
        true => make_array(masked(array.to_data(), None)?),
        false => array,
    })
}

/// Whether a required struct may be null by the struct around it.
fn has_required_struct(field: &Field, may_be_null: bool) -> bool {
    let is_struct = matches!(field.data_type(), DataType::Struct(_));
    let is_hidden = is_struct && may_be_null && !field.is_nullable();
    let inside = is_struct && (field.is_nullable() || may_be_null);
    let mut fields = children(field.data_type()).iter();
    is_hidden || fields.any(|field| has_required_struct(field, inside))
}

fn masked(data: ArrayData, outer: Option<NullBuffer>) -> Result<ArrayData> {
    let is_struct = matches!(data.data_type(), DataType::Struct(_));
    let nulls = data.nulls().cloned().or(outer.filter(|_| is_struct));
    let fields = children(data.data_type()).to_vec();
    if fields.is_empty() {
        return Ok(data);
    }
    let inside = data.child_data().iter().zip(&fields).map(|(child, field)| {
        let outer = nulls.clone().filter(|_| is_struct && !field.is_nullable());
        masked(child.clone(), outer)
    });
    let inside = inside.collect::<Result<Vec<_>>>()?;
    Ok(data
        .into_builder()
        .nulls(nulls)
        .child_data(inside)
        .build()?)
}
