//! Tables of numbers: arrays that grow while an index is built, and are pieces of a mapped
//! file once it is opened. There they are lists, one for each table.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, LargeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};

use crate::error::{Error, Result};

/// Declares a table of columns, and one that grows.
macro_rules! columns {
    (
        $(#[$table_doc:meta])* $table:ident, $(#[$builder_doc:meta])* $builder:ident:
        $($(#[$doc:meta])* $name:ident: $native:ty as $arrow:ty,)*
    ) => {
        $(#[$table_doc])*
        #[derive(Clone, Debug)]
        pub struct $table {
            $($(#[$doc])* pub $name: ScalarBuffer<$native>,)*
        }

        $(#[$builder_doc])*
        #[derive(Debug, Default)]
        pub struct $builder {
            $(pub(super) $name: Vec<$native>,)*
        }

        impl $builder {
            /// The table built so far.
            pub fn finish(self) -> $table {
                $table { $($name: self.$name.into(),)* }
            }
        }

        impl $table {
            /// Columns of the stored form, one list for each table.
            pub fn fields() -> Vec<Field> {
                vec![$(list_field::<$arrow>(stringify!($name)),)*]
            }

            /// The columns of some tables, in the order of `fields`.
            pub fn to_arrays(tables: &[&Self]) -> Result<Vec<ArrayRef>> {
                Ok(vec![$({
                    let columns: Vec<_> = tables.iter().map(|table| &table.$name).collect();
                    lists::<$arrow>(&columns)?
                },)*])
            }

            /// Table `row` of the persistent form, without a copy and unchecked.
            fn of_row(batch: &RecordBatch, row: usize) -> Result<Self> {
                Ok(Self {
                    $($name: list_row::<$arrow>(batch, stringify!($name), row)?,)*
                })
            }
        }
    };
}

pub(super) use columns;

/// A column that holds one list of numbers per leaf.
pub fn list_field<T: ArrowPrimitiveType>(name: &str) -> Field {
    list_of(name, T::DATA_TYPE)
}

pub(super) fn list_of(name: &str, item: DataType) -> Field {
    let item = Field::new_list_field(item, false);
    Field::new(name, DataType::LargeList(Arc::new(item)), false)
}

/// One list per buffer. A single buffer is not copied.
pub fn lists<T: ArrowPrimitiveType>(buffers: &[&ScalarBuffer<T::Native>]) -> Result<ArrayRef> {
    let values = match buffers {
        [buffer] => (*buffer).clone(),
        _ => buffers
            .iter()
            .flat_map(|buffer| buffer.iter().copied())
            .collect(),
    };
    let lengths = buffers.iter().map(|buffer| buffer.len());
    list_array(Arc::new(PrimitiveArray::<T>::new(values, None)), lengths)
}

pub(super) fn list_array(
    values: ArrayRef,
    lengths: impl Iterator<Item = usize>,
) -> Result<ArrayRef> {
    let item = Field::new_list_field(values.data_type().clone(), false);
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(LargeListArray::try_new(
        Arc::new(item),
        offsets,
        values,
        None,
    )?))
}

/// The list of numbers in `row` of a column, without a copy.
pub fn list_row<T: ArrowPrimitiveType>(
    batch: &RecordBatch,
    name: &str,
    row: usize,
) -> Result<ScalarBuffer<T::Native>> {
    let values = list_values(batch, name, row)?;
    let values = values
        .as_primitive_opt::<T>()
        .ok_or_else(|| unexpected(name))?;
    Ok(values.values().clone())
}

pub(super) fn list_values(batch: &RecordBatch, name: &str, row: usize) -> Result<ArrayRef> {
    let column = batch.column_by_name(name).ok_or_else(|| unexpected(name))?;
    let lists = column
        .as_list_opt::<i64>()
        .ok_or_else(|| unexpected(name))?;
    if row >= lists.len() || lists.null_count() > 0 || lists.values().null_count() > 0 {
        return Err(unexpected(name));
    }
    Ok(lists.value(row))
}

pub(super) fn unexpected(name: &str) -> Error {
    Error::corrupt(format!(
        "the page index lacks column {name:?}, or has it otherwise"
    ))
}
