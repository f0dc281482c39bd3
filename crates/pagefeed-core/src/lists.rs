//! Arrow lists of any kind: made of offsets and values, their bounds, what they hold.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, GenericListArray, LargeListArray, OffsetSizeTrait, UInt32Array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef};

use crate::buffers::collect;
use crate::error::{Error, Result};

/// Tokens of rows that end at `ends`, which rise to the number of tokens, as lists.
pub fn token_lists(tokens: Vec<u32>, ends: &[usize]) -> Result<ArrayRef> {
    if !ends.is_sorted() || ends.last().copied().unwrap_or(0) != tokens.len() {
        return Err(Error::invalid("rows end where their tokens do not"));
    }
    let item = Arc::new(Field::new_list_field(DataType::UInt32, false));
    let offsets = [0].iter().chain(ends).map(|&end| end as i64).collect();
    let tokens = Arc::new(UInt32Array::from(tokens));
    let lists = LargeListArray::try_new(item, OffsetBuffer::new(offsets), tokens, None)?;
    Ok(Arc::new(lists))
}

/// Returns the length of each list; 0 for null lists.
pub fn list_lengths(lists: &ArrayRef) -> Result<Vec<i64>> {
    let bounds = |row| bounds(lists, row).map(|(begin, end)| (end - begin) as i64);
    if items(lists).is_none() {
        return Err(Error::unsupported(format!(
            "only lists have lengths, not {}",
            lists.data_type()
        )));
    }
    Ok((0..lists.len())
        .map(|row| bounds(row).unwrap_or(0))
        .collect())
}

/// Returns lists of this type, each from one of the rising `offsets` to the next. Lists
/// of a fixed size get offsets, too.
pub(crate) fn list_array<T: ArrowNativeType>(
    data_type: &DataType,
    offsets: &[T],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    match data_type {
        DataType::LargeList(item) => list_array_of::<i64, T>(item, offsets, values, nulls),
        DataType::List(item) | DataType::FixedSizeList(item, _) => {
            list_array_of::<i32, T>(item, offsets, values, nulls)
        }
        other => Err(Error::internal(format!("{other} is not a type of lists"))),
    }
}

fn list_array_of<O: OffsetSizeTrait, T: ArrowNativeType>(
    item: &FieldRef,
    offsets: &[T],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let last = offsets.last().map_or(0, |last| last.as_usize());
    O::from_usize(last).ok_or_else(too_many)?;
    let offsets = offsets.iter().map(|offset| O::usize_as(offset.as_usize()));
    let offsets = OffsetBuffer::new(collect(offsets)?.into());
    let list = GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?;
    Ok(Arc::new(list))
}

pub(crate) fn too_many() -> Error {
    Error::limit("a page holds more values than its Arrow type can address")
}

/// Begin and end of a list among all values, unless it is null.
pub(crate) fn bounds(lists: &ArrayRef, row: usize) -> Option<(usize, usize)> {
    if lists.is_null(row) {
        return None;
    }
    match lists.data_type() {
        DataType::List(_) => {
            let offsets = lists.as_list::<i32>().value_offsets();
            Some((offsets[row] as usize, offsets[row + 1] as usize))
        }
        DataType::LargeList(_) => {
            let offsets = lists.as_list::<i64>().value_offsets();
            Some((offsets[row] as usize, offsets[row + 1] as usize))
        }
        DataType::FixedSizeList(_, _) => {
            let size = lists.as_fixed_size_list().value_length() as usize;
            Some((row * size, (row + 1) * size))
        }
        DataType::Struct(fields) if fields.len() == 1 => bounds(lists.as_struct().column(0), row),
        _ => None,
    }
}

pub(crate) fn values(lists: &ArrayRef) -> Result<&ArrayRef> {
    let are_integers = |values: &&ArrayRef| values.data_type().is_integer();
    items(lists)
        .filter(are_integers)
        .ok_or_else(|| not_tokens(lists))
}

/// Returns the type of the items of lists; `None` for other types.
pub(crate) fn items(lists: &ArrayRef) -> Option<&ArrayRef> {
    match lists.data_type() {
        DataType::List(_) => Some(lists.as_list::<i32>().values()),
        DataType::LargeList(_) => Some(lists.as_list::<i64>().values()),
        DataType::FixedSizeList(_, _) => Some(lists.as_fixed_size_list().values()),
        DataType::Struct(fields) if fields.len() == 1 => items(lists.as_struct().column(0)),
        _ => None,
    }
}

pub(crate) fn not_tokens(lists: &ArrayRef) -> Error {
    Error::unsupported(format!(
        "only lists of integers of up to 64 bits can be padded, not {}",
        lists.data_type()
    ))
}
