//! Types of leaves that the crate does not make: UUID and JSON, which Arrow knows as
//! extension types, and INT96 timestamps.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef};
use parquet::basic::LogicalType;

use super::leaf::{Leaf, children};
use super::rewrite;
use crate::error::Result;

const NAME: &str = "ARROW:extension:name";
const METADATA: &str = "ARROW:extension:metadata";
const UUID_BYTES: i32 = 16;

/// The field, its leaves being `leaves` in order, with the extension types they have, and
/// with `times` where INT96 is read as bytes.
pub fn annotate(field: &FieldRef, leaves: &[Leaf], times: &DataType) -> FieldRef {
    annotated(field, &mut leaves.iter(), times)
}

fn annotated<'a>(
    field: &FieldRef,
    leaves: &mut impl Iterator<Item = &'a Leaf>,
    times: &DataType,
) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(annotated(item, leaves, times)),
        DataType::LargeList(item) => DataType::LargeList(annotated(item, leaves, times)),
        DataType::FixedSizeList(item, size) => {
            DataType::FixedSizeList(annotated(item, leaves, times), *size)
        }
        DataType::Map(entries, sorted) => DataType::Map(annotated(entries, leaves, times), *sorted),
        DataType::Struct(fields) => DataType::Struct(
            fields
                .iter()
                .map(|field| annotated(field, leaves, times))
                .collect(),
        ),
        storage => {
            let Some(leaf) = leaves.next() else {
                return Arc::clone(field);
            };
            if rewrite::is_int96(leaf.physical, storage) {
                return Arc::new(field.as_ref().clone().with_data_type(times.clone()));
            }
            return match extension(leaf, storage) {
                None => Arc::clone(field),
                Some(name) => Arc::new(with_extension(field, name)),
            };
        }
    };
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn extension(leaf: &Leaf, storage: &DataType) -> Option<&'static str> {
    let info = leaf.descriptor.get_basic_info();
    match (info.logical_type_ref()?, storage) {
        (LogicalType::Uuid, DataType::FixedSizeBinary(UUID_BYTES)) => Some("arrow.uuid"),
        (LogicalType::Json, DataType::Utf8 | DataType::LargeUtf8) => Some("arrow.json"),
        _ => None,
    }
}

fn with_extension(field: &Field, name: &str) -> Field {
    let metadata = [(NAME, name), (METADATA, "")];
    let metadata = metadata.map(|(key, value)| (key.to_string(), value.to_string()));
    field.clone().with_metadata(HashMap::from(metadata))
}

/// The array as one of `data_type`, which differs in the metadata of inner fields only,
/// and in timestamps that were read as bytes.
pub fn retyped(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(array);
    }
    Ok(make_array(retyped_data(array.to_data(), data_type)?))
}

fn retyped_data(data: ArrayData, data_type: &DataType) -> Result<ArrayData> {
    let children = children(data_type);
    if children.is_empty() {
        return rewrite::timestamps(data, data_type);
    }
    let inner = data.child_data().to_vec();
    let retyped = inner
        .into_iter()
        .zip(children)
        .map(|(child, field)| retyped_data(child, field.data_type()))
        .collect::<Result<Vec<_>>>()?;
    let builder = data.into_builder().data_type(data_type.clone());
    Ok(builder.child_data(retyped).build()?)
}
