//! Decimals held against the digits of their type.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// Refuses decimals with more digits than their type has, at any depth of an array. The
/// crate hands them out, and other libraries compute with them as if they were valid.
pub(super) fn check(array: &ArrayRef) -> Result<()> {
    macro_rules! fits {
        ($kind:ident, $digits:expr) => {
            array
                .as_primitive::<$kind>()
                .validate_decimal_precision(*$digits)
        };
    }
    let data_type = array.data_type();
    let fits = match data_type {
        DataType::Decimal32(digits, _) => fits!(Decimal32Type, digits),
        DataType::Decimal64(digits, _) => fits!(Decimal64Type, digits),
        DataType::Decimal128(digits, _) => fits!(Decimal128Type, digits),
        DataType::Decimal256(digits, _) => fits!(Decimal256Type, digits),
        _ if data_type.is_nested() => {
            let data = array.to_data();
            let mut inside = data.child_data().iter();
            return inside.try_for_each(|child| check(&make_array(child.clone())));
        }
        _ => Ok(()),
    };
    fits.map_err(|_| Error::corrupt(format!("a number has more digits than {data_type}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::super::decode_array;
    use super::super::tests::schema;
    use crate::codec::Codec;
    use crate::decode::PageRun;
    use crate::decode::tests::{Random, StoredPage};
    use crate::error::Kind;
    use crate::page::PageOpener;
    use arrow_schema::DataType;

    #[test]
    fn decimals_have_the_digits_of_their_type() {
        let stored = StoredPage {
            version_2: true,
            snappy: false,
            dictionary: false,
        };
        let decimal = DataType::Decimal128(5, 2);
        let list = DataType::List(Arc::new(Field::new_list_field(decimal.clone(), true)));
        let bytes = DataType::Decimal128(20, 2);
        for (data_type, number, is_valid) in [
            (decimal.clone(), 99_999_i128, true),
            (decimal, -100_000, false),
            (list.clone(), -99_999, true),
            (list, 100_000, false),
            (bytes.clone(), 10_i128.pow(20) - 1, true),
            (bytes, 10_i128.pow(20), false),
        ] {
            let column = schema(data_type.clone(), true);
            let leaf = &column.leaves[0];
            let size = crate::decode::bounds::plain_bits(leaf) as usize / 8;
            let values = match size {
                4 => number.to_le_bytes()[..4].to_vec(),
                _ => number.to_be_bytes()[16 - size..].to_vec(),
            };
            let definition = [leaf.max_definition.unsigned_abs().into()];
            let run = PageRun {
                data: stored
                    .data(leaf, &[0], &definition, &values, &mut Random(1))
                    .into(),
                dictionary: None,
                codec: Codec::Uncompressed,
                starts_mid_record: false,
                first_row: 0,
                num_rows: 1,
                tail_size: 0,
            };
            let found = decode_array(&mut PageOpener::default(), &column, &[run], 0, 1);
            match is_valid {
                true => assert_eq!(found.unwrap().len(), 1),
                false => assert_eq!(found.unwrap_err().kind(), Kind::Corrupt, "{data_type}"),
            }
        }
    }
}
