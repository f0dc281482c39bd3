//! Types of numbers in columns, by their Arrow types.

use arrow_schema::DataType;

/// Returns the type of the items in rows of lists.
pub fn list_item(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        DataType::Struct(fields) if fields.len() == 1 => list_item(fields[0].data_type()),
        _ => None,
    }
}

/// Bytes of the numbers a column or its lists hold.
pub fn width_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            width_of(item.data_type())
        }
        // A path leads through structs of what it names alone.
        DataType::Struct(fields) if fields.len() == 1 => width_of(fields[0].data_type()),
        other => other.primitive_width().unwrap_or(0),
    }
}

/// Returns the number of values of each list, if the type fixes it.
pub fn list_size(data_type: &DataType) -> Option<i32> {
    match data_type {
        DataType::FixedSizeList(_, size) => Some(*size),
        _ => None,
    }
}
