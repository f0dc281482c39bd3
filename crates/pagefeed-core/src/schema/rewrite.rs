//! Schemas as the `parquet` crate must see them, to read what other readers read.
//!
//! Half a map is a list of structs: the crate only knows whole maps. And the day of an
//! INT96 timestamp is unsigned: the crate takes it as signed, so a column of them is
//! read as twelve bytes each and converted by [`timestamps`].

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::schema::types::{Type, TypePtr};

use crate::error::{Error, Result};

/// Bytes of an INT96 timestamp: nanoseconds of the day, Julian day.
const INT96_BYTES: i32 = 12;
const JULIAN_DAY_OF_1970: u64 = 2_440_588;
const NANOSECONDS_PER_DAY: u64 = 86_400_000_000_000;

/// The schema in which the leaves `selected` are read; `None` if it is `root` itself.
pub fn readable(root: &TypePtr, selected: &Range<usize>) -> Result<Option<TypePtr>> {
    let mut rewriter = Rewriter {
        selected,
        num_leaves: 0,
        has_changed: false,
    };
    let rewritten = rewriter.node(root, 0)?;
    Ok(rewriter.has_changed.then_some(rewritten))
}

struct Rewriter<'a> {
    selected: &'a Range<usize>,
    /// Leaves seen so far.
    num_leaves: usize,
    has_changed: bool,
}

impl Rewriter<'_> {
    fn node(&mut self, node: &TypePtr, depth: usize) -> Result<TypePtr> {
        let first = self.num_leaves;
        if node.is_primitive() {
            self.num_leaves += 1;
            return self.leaf(node, first, depth);
        }
        let children = node
            .get_fields()
            .iter()
            .map(|child| self.node(child, depth + 1))
            .collect::<Result<Vec<_>>>()?;
        let chosen = self.selected.start.max(first)..self.selected.end.min(self.num_leaves);
        let is_part = !chosen.is_empty() && chosen.len() < self.num_leaves - first;
        if is_part && is_map(node) {
            self.has_changed = true;
            return list_of_entries(node, children);
        }
        if depth == 0 && self.has_changed {
            return Ok(Arc::new(
                Type::group_type_builder(node.name())
                    .with_fields(children)
                    .build()?,
            ));
        }
        if children
            .iter()
            .zip(node.get_fields())
            .all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return Ok(Arc::clone(node));
        }
        group_like(node, node.name(), children)
    }

    /// Only a column of its own is converted, so only that is read as bytes.
    fn leaf(&mut self, node: &TypePtr, ordinal: usize, depth: usize) -> Result<TypePtr> {
        let info = node.get_basic_info();
        if !self.selected.contains(&ordinal)
            || depth != 1
            || node.get_physical_type() != PhysicalType::INT96
            || info.repetition() == Repetition::REPEATED
        {
            return Ok(Arc::clone(node));
        }
        self.has_changed = true;
        let bytes = Type::primitive_type_builder(node.name(), PhysicalType::FIXED_LEN_BYTE_ARRAY)
            .with_repetition(info.repetition())
            .with_length(INT96_BYTES)
            .build()?;
        Ok(Arc::new(bytes))
    }
}

fn is_map(node: &Type) -> bool {
    let info = node.get_basic_info();
    // Old writers annotate the entries of a map as a map, too.
    let is_entries = info.has_repetition() && info.repetition() == Repetition::REPEATED;
    let is_annotated = matches!(info.logical_type_ref(), Some(LogicalType::Map))
        || matches!(
            info.converted_type(),
            ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE
        );
    is_annotated && !is_entries
}

/// The map as a list whose repeated group, by its name, is the element itself.
fn list_of_entries(map: &Type, children: Vec<TypePtr>) -> Result<TypePtr> {
    let entries = children
        .into_iter()
        .map(|entry| match entry.is_group() {
            true => group_like(&entry, "array", entry.get_fields().to_vec()),
            false => Err(Error::corrupt("the entries of a map are not a group")),
        })
        .collect::<Result<Vec<_>>>()?;
    let list = Type::group_type_builder(map.name())
        .with_repetition(map.get_basic_info().repetition())
        .with_converted_type(ConvertedType::LIST)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(entries)
        .build()?;
    Ok(Arc::new(list))
}

fn group_like(node: &Type, name: &str, children: Vec<TypePtr>) -> Result<TypePtr> {
    let info = node.get_basic_info();
    let mut group = Type::group_type_builder(name)
        .with_repetition(info.repetition())
        .with_fields(children);
    if name == node.name() {
        group = group
            .with_converted_type(info.converted_type())
            .with_logical_type(info.logical_type_ref().cloned());
    }
    Ok(Arc::new(group.build()?))
}

/// Whether `field` is a column of INT96 read as bytes.
pub fn is_int96(physical: PhysicalType, field: &Field) -> bool {
    physical == PhysicalType::INT96
        && matches!(field.data_type(), DataType::FixedSizeBinary(INT96_BYTES))
}

/// The field of converted timestamps.
pub fn timestamp_field(field: &Field, of_table: bool) -> Field {
    field.clone().with_data_type(match of_table {
        true => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        false => DataType::Timestamp(TimeUnit::Nanosecond, None),
    })
}

/// INT96 as time since 1970, in the unit of a type. In nanoseconds, beyond the years 1677
/// to 2262 they wrap around, as they do in other readers.
pub fn timestamps(bytes: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let per_unit = match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        _ => 1,
    };
    let bytes = bytes
        .as_any()
        .downcast_ref::<FixedSizeBinaryArray>()
        .ok_or_else(|| Error::corrupt("INT96 values are twelve bytes each"))?;
    let convert = |value: &[u8]| -> Option<i64> {
        let nanoseconds = u64::from_le_bytes(value.get(..8)?.try_into().ok()?);
        let day = u64::from(u32::from_le_bytes(value.get(8..)?.try_into().ok()?));
        let days = day.wrapping_sub(JULIAN_DAY_OF_1970);
        let since = days.wrapping_mul(NANOSECONDS_PER_DAY / per_unit);
        Some(since.wrapping_add(nanoseconds / per_unit).cast_signed())
    };
    let values = bytes.iter().map(|value| value.and_then(convert));
    if per_unit == 1 {
        return Ok(Arc::new(values.collect::<TimestampNanosecondArray>()));
    }
    let array = values.collect::<TimestampMicrosecondArray>();
    Ok(Arc::new(array.with_timezone("UTC")))
}
