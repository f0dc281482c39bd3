//! Metadata of the rows in a batch: a table with a row for each part of a document.
//!
//! [`table`] puts it together, [`spans`] cuts lists of ranges of tokens to the parts.

mod document_part;
pub mod spans;
pub mod table;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};

use crate::decode::conform;
use crate::error::Result;
pub use document_part::DocumentPart;
pub use table::TableSchema;

/// Returns columns of rows as columns of a table: the fields that their paths lead to,
/// and spans.
pub fn span_fields(
    named: &[(&str, &ArrayRef, &Field)],
    are_spans: &[bool],
) -> Result<(Vec<FieldRef>, Vec<ArrayRef>)> {
    let column = |(&(name, array, field), &are_spans): (&(&str, &ArrayRef, &Field), &bool)| {
        let array = unwrapped(Arc::clone(array), field, name)?;
        let mut own = Field::new(name, array.data_type().clone(), true);
        if are_spans {
            own = spans::span_field(&own)?;
        }
        let array = conform(&array, own.data_type())?;
        Ok((Arc::new(own), array))
    };
    let columns: Result<Vec<(FieldRef, ArrayRef)>> =
        named.iter().zip(are_spans).map(column).collect();
    Ok(columns?.into_iter().unzip())
}

/// Returns the field that a path leads to, through structs with one field each.
pub fn inner<'a>(field: &'a Field, path: &str) -> &'a Field {
    match (field.data_type(), rest_of(field, path)) {
        (DataType::Struct(fields), Some(rest)) if fields.len() == 1 => inner(&fields[0], rest),
        _ => field,
    }
}

fn rest_of<'a>(field: &Field, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(field.name().as_str())?.strip_prefix('.')
}

/// Returns the array that the path of a field leads to.
pub fn unwrapped(array: ArrayRef, field: &Field, path: &str) -> Result<ArrayRef> {
    let (DataType::Struct(fields), Some(rest)) = (field.data_type(), rest_of(field, path)) else {
        return Ok(array);
    };
    if fields.len() != 1 {
        return Ok(array);
    }
    let outer = array.as_struct();
    let child = outer.column(0);
    let nulls = NullBuffer::union(outer.nulls(), child.nulls());
    let child = match child.data_type() {
        DataType::Null => Arc::clone(child),
        _ => make_array(child.to_data().into_builder().nulls(nulls).build()?),
    };
    unwrapped(child, &fields[0], rest)
}
