//! Schemas as the `parquet` crate must see them, to read what other readers read.
//!
//! Half a map is a list of structs: the crate only knows whole maps. And INT96 timestamps
//! are read as twelve bytes each and converted by [`timestamps`]: the crate takes their
//! unsigned day as signed, and years that 64 bits do not hold wrap around. Intervals stay
//! twelve bytes, of which the crate would drop the months.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, FixedSizeBinaryArray, Int64Array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields, TimeUnit};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as PhysicalType};
use parquet::schema::types::{Type, TypePtr};

use super::leaf::children;
use crate::error::{Error, Result};

/// Bytes of an INT96 timestamp: nanoseconds of the day, Julian day. And of an interval: months,
/// days, milliseconds.
const INT96_BYTES: i32 = 12;
/// Number of the physical type in the format.
pub const INT96: i32 = 3;
const JULIAN_DAY_OF_1970: i128 = 2_440_588;
const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;
const DAYS_PER_YEAR: f64 = 365.2425;
/// Key under which Spark records its schema; its times are in microseconds.
pub const SPARK_KEY: &str = "org.apache.spark.sql.parquet.row.metadata";

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
            return self.leaf(node, first);
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

    fn leaf(&mut self, node: &TypePtr, ordinal: usize) -> Result<TypePtr> {
        let info = node.get_basic_info();
        let is_bytes = node.get_physical_type() == PhysicalType::INT96
            || info.converted_type() == ConvertedType::INTERVAL;
        if !self.selected.contains(&ordinal) || !is_bytes {
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

/// Whether a leaf is INT96 read as bytes.
pub fn is_int96(physical: PhysicalType, data_type: &DataType) -> bool {
    physical == PhysicalType::INT96 && *data_type == DataType::FixedSizeBinary(INT96_BYTES)
}

/// Returns the type of INT96 timestamps: nanoseconds, which are exact for the years
/// 1677 to 2262, or microseconds if the writer's times are not finer.
///
/// Arguments: whether Spark wrote the file, the Arrow type of the column that the writer
/// had, and whether the file is one of a table, whose times are microseconds of UTC.
pub fn timestamp_type(of_spark: bool, hint: Option<&DataType>, of_table: bool) -> DataType {
    let coarse = |hint| finest_unit(hint).is_some_and(|unit| unit < TimeUnit::Nanosecond);
    match of_table {
        true => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        false if of_spark || hint.is_some_and(coarse) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        false => DataType::Timestamp(TimeUnit::Nanosecond, None),
    }
}

/// The finest unit of the timestamps in a type.
fn finest_unit(data_type: &DataType) -> Option<TimeUnit> {
    match data_type {
        DataType::Timestamp(unit, _) => Some(*unit),
        _ => {
            let inside = children(data_type).iter();
            inside
                .filter_map(|field| finest_unit(field.data_type()))
                .max()
        }
    }
}

/// The Arrow type that a writer had of a column.
pub fn hinted<'a>(hint: &'a Fields, column: &str) -> Option<&'a DataType> {
    hint.find(column).map(|(_, field)| field.data_type())
}

/// Converts INT96 bytes to time since 1970, if `data_type` is a time.
///
/// A time that the type does not hold is refused: none wraps around.
pub fn timestamps(data: ArrayData, data_type: &DataType) -> Result<ArrayData> {
    let DataType::Timestamp(unit, _) = data_type else {
        return Ok(data);
    };
    if *data.data_type() != DataType::FixedSizeBinary(INT96_BYTES) {
        return Ok(data);
    }
    let per_unit = match unit {
        TimeUnit::Nanosecond => 1,
        _ => 1000,
    };
    let bytes = FixedSizeBinaryArray::from(data);
    let since = bytes.iter().map(|value| value.map(since_1970).transpose());
    let since = since.map(|nanoseconds| match nanoseconds? {
        None => Ok(None),
        Some(nanoseconds) => i64::try_from(nanoseconds.div_euclid(per_unit))
            .map(Some)
            .map_err(|_| beyond(nanoseconds, data_type)),
    });
    let values = since.collect::<Result<Int64Array>>()?;
    let builder = values.into_data().into_builder();
    Ok(builder.data_type(data_type.clone()).build()?)
}

/// Nanoseconds since 1970.
fn since_1970(value: &[u8]) -> Result<i128> {
    let split = value.split_first_chunk::<8>();
    let parts = split.and_then(|(first, rest)| Some((*first, <[u8; 4]>::try_from(rest).ok()?)));
    let (of_day, day) =
        parts.ok_or_else(|| Error::corrupt("INT96 values are twelve bytes each"))?;
    let days = i128::from(u32::from_le_bytes(day)) - JULIAN_DAY_OF_1970;
    Ok(days * NANOSECONDS_PER_DAY + i128::from(i64::from_le_bytes(of_day)))
}

fn beyond(nanoseconds: i128, data_type: &DataType) -> Error {
    let years = (nanoseconds / NANOSECONDS_PER_DAY) as f64 / DAYS_PER_YEAR;
    Error::unsupported(format!(
        "an INT96 timestamp of about the year {:.0} does not fit {data_type}; write the \
         column as INT64 microseconds, as spark.sql.parquet.outputTimestampType = \
         TIMESTAMP_MICROS does",
        1970.0 + years.floor()
    ))
}
