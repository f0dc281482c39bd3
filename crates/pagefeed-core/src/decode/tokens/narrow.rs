//! Integers of 8 and 16 bits: stored in 32, of which other readers keep the lowest.

use std::ops::RangeInclusive;

use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};

use crate::error::{Error, Result};
use crate::schema::Leaf;

/// Range of values that the annotation of an integer of 8 or 16 bits allows.
fn declared(leaf: &Leaf) -> Option<RangeInclusive<i64>> {
    let info = leaf.descriptor.get_basic_info();
    let (bits, is_signed) = match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::Integer(integer)), _) => (integer.bit_width, integer.is_signed),
        (_, ConvertedType::INT_8) => (8, true),
        (_, ConvertedType::INT_16) => (16, true),
        (_, ConvertedType::UINT_8) => (8, false),
        (_, ConvertedType::UINT_16) => (16, false),
        _ => return None,
    };
    match (leaf.physical, bits, is_signed) {
        (PhysicalType::INT32, 8, true) => Some(i8::MIN.into()..=i8::MAX.into()),
        (PhysicalType::INT32, 8, false) => Some(0..=u8::MAX.into()),
        (PhysicalType::INT32, 16, true) => Some(i16::MIN.into()..=i16::MAX.into()),
        (PhysicalType::INT32, 16, false) => Some(0..=u16::MAX.into()),
        _ => None,
    }
}

/// Whether values of the leaf must be checked against the range of its type.
pub(crate) fn is_narrow(leaf: &Leaf) -> bool {
    declared(leaf).is_some()
}

/// Refuses values that the leaf's type cannot hold: other readers cut them.
pub(crate) fn check_declared(
    leaf: &Leaf,
    mut values: impl Iterator<Item = impl Into<i64>>,
) -> Result<()> {
    let Some(range) = declared(leaf) else {
        return Ok(());
    };
    let wrong = values.find_map(|value| {
        let value = value.into();
        (!range.contains(&value)).then_some(value)
    });
    match wrong {
        None => Ok(()),
        Some(value) => Err(Error::corrupt(format!(
            "column {} holds {value}, its type {} to {}: write the file again, with a wider type",
            leaf.path,
            range.start(),
            range.end()
        ))),
    }
}
