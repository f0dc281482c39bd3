//! Nulls of structs inside of structs.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::NullBuffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use crate::error::Result;
use crate::schema::children;

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
