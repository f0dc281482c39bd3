//! Pages decoded into Arrow arrays.

pub(crate) mod conform;
mod decimals;
mod entries;
pub(crate) mod fallback;
mod nested;
mod records;
mod string_builder;
mod strings;

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int64Type, UInt32Type, UInt64Type};
use arrow_array::types::{Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, PrimitiveArray};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, FieldRef};

use super::PageRun;
use crate::buffers::collect;
use crate::decode::cursor::PageCursor;
use crate::decode::tokens::decode_rows;
use crate::decode::tokens::integers::{IntegerReader, Storage};
use crate::decode::tokens::rows::RowReader;
use crate::error::{Error, Result};
use crate::lists::list_array;
use crate::page::PageOpener;
use crate::schema::{ColumnSchema, extension};
use crate::tokens::Tokens;

/// Decodes rows `first_row .. first_row + num_rows` (of the row group) of a column
/// into an Arrow array of exactly `num_rows` rows; `runs` holds one run of pages per
/// leaf of `schema`, each covering at least these rows.
pub fn decode_array(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    runs: &[PageRun],
    first_row: u64,
    num_rows: u64,
) -> Result<ArrayRef> {
    decode_array_by(opener, schema, runs, first_row, num_rows, Paths::All)
}

/// Decoders that may be used; tests compare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// The fast ones where they fit.
    All,
    /// The `parquet` crate's reader only.
    FallbackOnly,
}

/// [`decode_array`] with a choice of decoders.
#[doc(hidden)]
pub fn decode_array_by(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    runs: &[PageRun],
    first_row: u64,
    num_rows: u64,
    paths: Paths,
) -> Result<ArrayRef> {
    if runs.len() != schema.leaves.len() {
        return Err(Error::invalid(format!(
            "{} runs of pages for {} leaves",
            runs.len(),
            schema.leaves.len()
        )));
    }
    for run in runs {
        if run.first_row > first_row {
            return Err(Error::invalid(format!(
                "row {first_row} was asked for, the pages begin with row {}",
                run.first_row
            )));
        }
    }
    if num_rows == 0 {
        return Ok(arrow_array::new_empty_array(schema.field.data_type()));
    }
    let fast = match paths {
        Paths::All => decode_fast(opener, schema, runs, first_row, num_rows)?,
        Paths::FallbackOnly => None,
    };
    let array = match fast {
        Some(array) => array,
        None => {
            let array = fallback::decode(opener, schema, runs, first_row, num_rows)?;
            let array = nested::with_outer_nulls(array, &schema.field)?;
            decimals::check(&array)?;
            if schema.needs_validation {
                array.to_data().validate_full()?;
            }
            array
        }
    };
    let array = extension::retyped(array, schema.field.data_type())?;
    check(&array, schema, num_rows)?;
    Ok(array)
}

fn check(array: &ArrayRef, schema: &ColumnSchema, num_rows: u64) -> Result<()> {
    if array.len() as u64 != num_rows {
        return Err(Error::corrupt(format!(
            "{num_rows} rows were expected, the pages gave {}",
            array.len()
        )));
    }
    if array.data_type() != schema.field.data_type() {
        return Err(Error::internal(format!(
            "a column of type {} was decoded as {}",
            schema.field.data_type(),
            array.data_type()
        )));
    }
    Ok(())
}

/// Decodes columns that have a fast decoder; `None` for others.
fn decode_fast(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    runs: &[PageRun],
    first_row: u64,
    num_rows: u64,
) -> Result<Option<ArrayRef>> {
    let rows = first_row..first_row.saturating_add(num_rows);
    let ([leaf], [run]) = (&schema.leaves[..], runs) else {
        return Ok(None);
    };
    let cursor = || PageCursor::new(leaf, run, run.rows_of(&rows));
    match strings::decode(opener, schema, cursor())? {
        None => integers(opener, cursor(), schema.field.data_type()),
        strings => Ok(strings),
    }
}

/// Decodes integers and lists of them without nulls.
fn integers(
    opener: &mut PageOpener,
    cursor: PageCursor<'_>,
    data_type: &DataType,
) -> Result<Option<ArrayRef>> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
        data_type
    else {
        let tokens = read_integers(opener, cursor, data_type, 0)?;
        return match tokens {
            Some((tokens, _)) => primitive(data_type, tokens),
            None => Ok(None),
        };
    };
    let Some((tokens, offsets)) = read_integers(opener, cursor, item.data_type(), 1)? else {
        return Ok(None);
    };
    let Some(values) = primitive(item.data_type(), tokens)? else {
        return Ok(None);
    };
    Ok(match data_type {
        DataType::FixedSizeList(_, size) => fixed_size_list(item, *size, &offsets, values)?,
        _ => Some(list_array(data_type, &offsets, values, None)?),
    })
}

/// Reads integers that are to become `item`, `depth` lists deep; `None` if they are
/// not, or if a row or value is null.
fn read_integers(
    opener: &mut PageOpener,
    cursor: PageCursor<'_>,
    item: &DataType,
    depth: i16,
) -> Result<Option<(Tokens, Vec<u32>)>> {
    let leaf = cursor.leaf;
    let is_plain = leaf.max_repetition == depth && item.is_integer();
    let Some(storage) = Storage::of(leaf).ok().filter(|_| is_plain) else {
        return Ok(None);
    };
    let reader = IntegerReader {
        leaf,
        // Arrow has unsigned 64-bit integers: no number is out of range.
        storage: if storage == Storage::U64 {
            Storage::I64
        } else {
            storage
        },
        narrow: false,
    };
    let mut rows = RowReader::new(&cursor, Vec::new())?.allow_nulls();
    let mut tokens = Tokens::default();
    decode_rows(opener, cursor, None, &mut rows, &reader, &mut tokens)?;
    Ok((!rows.has_nulls).then_some((tokens, rows.offsets)))
}

/// An array without nulls; `None` if the type is not what the column stores.
fn primitive(data_type: &DataType, tokens: Tokens) -> Result<Option<ArrayRef>> {
    Ok(Some(match (data_type, tokens) {
        (DataType::Int32, Tokens::I32(values)) => whole::<Int32Type>(Buffer::from_vec(values)),
        (DataType::UInt32, Tokens::U32(values)) => whole::<UInt32Type>(Buffer::from_vec(values)),
        (DataType::Int64, Tokens::I64(values)) => whole::<Int64Type>(Buffer::from_vec(values)),
        (DataType::UInt64, Tokens::I64(values)) => whole::<UInt64Type>(Buffer::from_vec(values)),
        (DataType::Int8, Tokens::I32(values)) => cut::<Int8Type, _>(values, |v| v as i8)?,
        (DataType::Int16, Tokens::I32(values)) => cut::<Int16Type, _>(values, |v| v as i16)?,
        (DataType::UInt8, Tokens::U32(values)) => cut::<UInt8Type, _>(values, |v| v as u8)?,
        (DataType::UInt16, Tokens::U32(values)) => cut::<UInt16Type, _>(values, |v| v as u16)?,
        _ => return Ok(None),
    }))
}

fn whole<T: ArrowPrimitiveType>(values: Buffer) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

/// Narrows integers that are stored in 32 bits, after they were checked to fit.
fn cut<T: ArrowPrimitiveType, V>(
    values: Vec<V>,
    narrow: impl Fn(V) -> T::Native,
) -> Result<ArrayRef> {
    let values = collect(values.into_iter().map(narrow))?;
    Ok(whole::<T>(Buffer::from_vec(values)))
}

fn fixed_size_list(
    item: &FieldRef,
    size: i32,
    offsets: &[u32],
    values: ArrayRef,
) -> Result<Option<ArrayRef>> {
    let lengths = offsets.windows(2).map(|row| row[1] - row[0]);
    if size <= 0
        || lengths
            .into_iter()
            .any(|length| length != size.unsigned_abs())
    {
        return Ok(None);
    }
    let list = FixedSizeListArray::try_new(item.clone(), size, values, None)?;
    Ok(Some(Arc::new(list)))
}

#[cfg(test)]
mod tests;
