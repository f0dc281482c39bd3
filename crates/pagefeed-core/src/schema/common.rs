//! Types that files of one dataset may differ in, and what all of them become.
//!
//! Writers disagree about what means the same: `string` or `large_string`, items called
//! `item` or `element`, tokens of 32 or 64 bits, `null` for columns without a value.

use std::sync::Arc;

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, Fields};

/// Returns the field that takes the values of both; `None` if there is none.
pub fn common_field(first: &Field, second: &Field) -> Option<FieldRef> {
    let data_type = common_type(first.data_type(), second.data_type())?;
    let nullable = first.is_nullable() || second.is_nullable();
    let field = Field::new(first.name(), data_type, nullable);
    Some(Arc::new(match first.metadata() == second.metadata() {
        true => field.with_metadata(first.metadata().clone()),
        false => field,
    }))
}

/// The type that takes the values of both; `None` if there is none.
pub(super) fn common_type(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType as T;
    if first == second {
        return Some(first.clone());
    }
    Some(match (first, second) {
        (T::Null, other) | (other, T::Null) => other.clone(),
        (T::Utf8 | T::LargeUtf8, T::Utf8 | T::LargeUtf8) => T::LargeUtf8,
        (T::Binary | T::LargeBinary, T::Binary | T::LargeBinary) => T::LargeBinary,
        (T::Struct(first), T::Struct(second)) => T::Struct(common_fields(first, second)?),
        // Images of the hub, whose paths were left out, with plain ones.
        (T::Struct(fields), plain) | (plain, T::Struct(fields))
            if matches!(plain, T::Binary | T::LargeBinary) && fields.len() == 1 =>
        {
            common_type(fields.first()?.data_type(), plain)?
        }
        (T::Map(first, sorted), T::Map(second, also)) => {
            T::Map(common_field(first, second)?, *sorted && *also)
        }
        // INT96 of different writers above all.
        (T::Timestamp(first, zone), T::Timestamp(second, other)) if zone == other => {
            T::Timestamp(*first.max(second), zone.clone())
        }
        (T::Decimal128(first, its_scale), T::Decimal128(second, other)) => {
            let scale = *its_scale.max(other);
            let whole = |digits: &u8, scale: &i8| i16::from(*digits) - i16::from(*scale);
            let digits = whole(first, its_scale).max(whole(second, other)) + i16::from(scale);
            let digits = u8::try_from(digits).ok()?;
            (digits <= DECIMAL128_MAX_PRECISION).then_some(T::Decimal128(digits, scale))?
        }
        (T::Date32, time @ T::Timestamp(_, None)) | (time @ T::Timestamp(_, None), T::Date32) => {
            time.clone()
        }
        (T::Decimal128(digits, scale), whole) | (whole, T::Decimal128(digits, scale))
            if whole.is_integer() && *scale >= 0 =>
        {
            let digits = (*digits).max(digits_of(whole) + scale.unsigned_abs());
            (digits <= DECIMAL128_MAX_PRECISION).then_some(T::Decimal128(digits, *scale))?
        }
        _ if first.is_integer() && second.is_integer() => common_integer(first, second),
        _ if first.is_numeric() && second.is_numeric() => common_number(first, second)?,
        _ => common_list(first, second)?,
    })
}

/// Digits that an integer may have.
fn digits_of(whole: &DataType) -> u8 {
    match whole.primitive_width() {
        Some(1) => 3,
        Some(2) => 5,
        Some(4) => 10,
        _ => 20,
    }
}

/// By name, in the order of the first.
fn common_fields(first: &Fields, second: &Fields) -> Option<Fields> {
    if first.len() != second.len() {
        return None;
    }
    let common = |field: &FieldRef| common_field(field, second.find(field.name())?.1);
    first.iter().map(common).collect()
}

/// Returns the common type of integers. Unsigned 64-bit numbers go with signed ones if
/// they fit 63 bits.
fn common_integer(first: &DataType, second: &DataType) -> DataType {
    let widths = [first, second].map(|kind| kind.primitive_width().unwrap_or(8));
    let width = widths[0].max(widths[1]);
    let unsigned = [first, second].map(DataType::is_unsigned_integer);
    let width = match unsigned {
        [true, true] => {
            return match width {
                2 => DataType::UInt16,
                4 => DataType::UInt32,
                _ => DataType::UInt64,
            };
        }
        // One more bit for the sign, if the unsigned one is as wide.
        [true, false] if widths[0] == width => width * 2,
        [false, true] if widths[1] == width => width * 2,
        _ => width,
    };
    match width {
        2 => DataType::Int16,
        4 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// Floats, or one and an integer.
fn common_number(first: &DataType, second: &DataType) -> Option<DataType> {
    let binary = |data_type: &DataType| data_type.is_integer() || data_type.is_floating();
    let narrow = |data_type: &DataType| matches!(data_type, DataType::Float16 | DataType::Float32);
    if !binary(first) || !binary(second) {
        return None; // Decimals.
    }
    Some(match narrow(first) && narrow(second) {
        true => DataType::Float32,
        false => DataType::Float64,
    })
}

fn common_list(first: &DataType, second: &DataType) -> Option<DataType> {
    let item = |data_type: &DataType| match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.clone())
        }
        _ => None,
    };
    let item = common_field(&*item(first)?, &*item(second)?)?;
    Some(match (first, second) {
        (DataType::FixedSizeList(_, size), DataType::FixedSizeList(_, other)) if size == other => {
            DataType::FixedSizeList(item, *size)
        }
        (DataType::LargeList(_), _) | (_, DataType::LargeList(_)) => DataType::LargeList(item),
        _ => DataType::List(item),
    })
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    fn common(first: &DataType, second: &DataType) -> Option<DataType> {
        let field = |data_type: &DataType| Field::new("x", data_type.clone(), true);
        let merged = common_field(&field(first), &field(second))?;
        Some(merged.data_type().clone())
    }

    fn list(item: &DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", item.clone(), true)))
    }

    #[test]
    fn integers_keep_their_values() {
        use DataType as T;
        for (first, second, expected) in [
            (T::Int8, T::UInt8, T::Int16),
            (T::UInt8, T::Int16, T::Int16),
            (T::UInt16, T::Int16, T::Int32),
            (T::UInt32, T::Int8, T::Int64),
            (T::UInt64, T::Int64, T::Int64),
            (T::UInt8, T::UInt32, T::UInt32),
            (T::Int32, T::Float32, T::Float64),
        ] {
            assert_eq!(common(&first, &second), Some(expected.clone()));
            assert_eq!(common(&second, &first), Some(expected.clone()));
            assert_eq!(common(&list(&first), &list(&second)), Some(list(&expected)));
        }
    }

    #[test]
    fn bytes_alone_in_a_struct_go_with_plain_ones() {
        use DataType as T;
        let of = |fields: Vec<Field>| T::Struct(Fields::from(fields));
        let bytes = Field::new("bytes", T::Binary, true);
        let alone = of(vec![bytes.clone()]);
        assert_eq!(common(&alone, &T::LargeBinary), Some(T::LargeBinary));
        assert_eq!(
            common(&list(&T::Binary), &list(&alone)),
            Some(list(&T::Binary))
        );
        let named = of(vec![bytes, Field::new("path", T::Utf8, true)]);
        assert_eq!(common(&named, &T::Binary), None);
    }

    #[test]
    fn what_has_nothing_in_common_is_told() {
        use DataType as T;
        let kinds = [
            T::Utf8,
            T::Binary,
            T::Int32,
            T::Boolean,
            T::Date32,
            T::Timestamp(TimeUnit::Second, Some("UTC".into())),
            list(&T::Int32),
            list(&T::Utf8),
            T::Struct(Fields::from(vec![Field::new("a", T::Int32, true)])),
            T::Struct(Fields::from(vec![Field::new("b", T::Int32, true)])),
        ];
        for (index, first) in kinds.iter().enumerate() {
            for (other, second) in kinds.iter().enumerate() {
                let expected = (index == other).then(|| first.clone());
                assert_eq!(common(first, second), expected, "{first} and {second}");
            }
            assert_eq!(common(first, &T::Null), Some(first.clone()));
        }
    }

    #[test]
    fn times_have_the_finest_unit() {
        use DataType as T;
        let time = |unit| T::Timestamp(unit, None);
        let (coarse, fine) = (time(TimeUnit::Microsecond), time(TimeUnit::Nanosecond));
        assert_eq!(common(&coarse, &fine), Some(fine.clone()));
        assert_eq!(common(&fine, &coarse), Some(fine));
    }

    #[test]
    fn dates_and_integers_become_what_a_table_widens_them_to() {
        use DataType as T;
        let time = T::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(common(&T::Date32, &time), Some(time));
        for (whole, decimal, expected) in [
            (T::Int32, T::Decimal128(12, 2), Some(T::Decimal128(12, 2))),
            (T::Int16, T::Decimal128(3, 1), Some(T::Decimal128(6, 1))),
            (T::Int64, T::Decimal128(38, 20), None),
        ] {
            assert_eq!(common(&whole, &decimal), expected);
            assert_eq!(common(&decimal, &whole), expected);
        }
    }

    #[test]
    fn decimals_keep_all_digits() {
        use DataType as T;
        for (first, second, expected) in [
            (
                T::Decimal128(5, 2),
                T::Decimal128(9, 2),
                Some(T::Decimal128(9, 2)),
            ),
            (
                T::Decimal128(5, 4),
                T::Decimal128(5, 0),
                Some(T::Decimal128(9, 4)),
            ),
            (T::Decimal128(38, 0), T::Decimal128(38, 9), None),
        ] {
            assert_eq!(common(&first, &second), expected);
            assert_eq!(common(&second, &first), expected);
        }
    }

    #[test]
    fn names_are_of_the_first_and_nulls_of_both() {
        let field = |name: &str, nullable| {
            let item = Arc::new(Field::new(name, DataType::Int32, nullable));
            Field::new("x", DataType::List(item), nullable)
        };
        let merged = common_field(&field("item", false), &field("element", true)).unwrap();
        assert_eq!(*merged, field("item", true));
    }
}
