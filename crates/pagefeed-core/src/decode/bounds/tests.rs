use std::sync::Arc;

use arrow_schema::{Field, Fields};

use super::*;
use crate::Kind;
use crate::decode::tests::{Random, encode_hybrid, header_v1, leaf, list_leaf};

/// The size of a page of `count` values without levels.
fn size(column: &str, encoding: Encoding, count: usize, values: &[u8]) -> Result<u64> {
    let header = header_v1(count, values.len(), encoding);
    let page = DataPage {
        header: &header,
        repetition: &[],
        definition: &[],
        values,
        is_takeable: false,
    };
    let lengths = [3u32, 1 << 20];
    let is_string = column.contains("binary");
    decoded_size(
        &page,
        &leaf(column, 0),
        count,
        is_string.then_some(&lengths),
    )
}

const INT: &str = "required int32 x;";
const LONG: &str = "required int64 x;";
const TEXT: &str = "required binary x;";
const FIXED: &str = "required fixed_len_byte_array(16) x;";

#[test]
fn sizes_are_those_of_the_values() {
    // Three strings: "", "ab" and "c".
    let plain = [0, 0, 0, 0, 2, 0, 0, 0, 97, 98, 1, 0, 0, 0, 99];
    // 100 times index 1.
    let indices = [1, 100 << 1 & 0x7f | 0x80, 1, 1];
    // 100 equal numbers.
    let deltas = [128, 1, 4, 100, 14, 0, 0, 0, 0, 0];
    let alone = [128, 1, 4, 100, 0, 0, 0, 0, 0, 0];
    let twice = [&alone[..], &deltas, &[0; 700]].concat();
    for (column, encoding, count, values, expected) in [
        (INT, Encoding::PLAIN, 4, &[0; 16][..], 16),
        (LONG, Encoding::BYTE_STREAM_SPLIT, 2, &[0; 16], 16),
        (FIXED, Encoding::PLAIN, 1, &[0; 16], 16),
        ("required boolean x;", Encoding::PLAIN, 100, &[0; 13], 13),
        (TEXT, Encoding::PLAIN, 3, &plain, 3),
        (INT, Encoding::RLE_DICTIONARY, 100, &indices, 400),
        (TEXT, Encoding::RLE_DICTIONARY, 100, &indices, 100 << 20),
        (LONG, Encoding::DELTA_BINARY_PACKED, 100, &deltas, 800),
        (
            TEXT,
            Encoding::DELTA_LENGTH_BYTE_ARRAY,
            100,
            &twice[10..],
            700,
        ),
        (TEXT, Encoding::DELTA_BYTE_ARRAY, 100, &twice, 700),
    ] {
        assert_eq!(size(column, encoding, count, values).unwrap(), expected);
        assert_eq!(size(column, encoding, 0, &[]).unwrap(), 0);
        let more = size(column, encoding, count * 1000, values).unwrap_err();
        assert_eq!(more.kind(), Kind::Corrupt, "{encoding}");
        let cut = values.len() / 2;
        assert!(size(column, encoding, count, &values[..cut]).is_err());
    }
}

#[test]
fn lengths_of_no_strings_are_counted() {
    // A billion lengths in one block, of a page of nulls.
    let block = [128, 128, 128, 128, 8, 1, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0];
    for encoding in [
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY,
    ] {
        let error = size(TEXT, encoding, 0, &block).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{encoding}: {error}");
    }
}

#[test]
fn a_prefix_is_not_longer_than_the_string_before() {
    // Numbers below 128 in one block: the first, and differences of eight bits.
    let deltas = |numbers: [u8; 3]| {
        let mut bytes = vec![128, 1, 4, 3, numbers[0] << 1, 127, 8, 0, 0, 0];
        bytes.extend(numbers.windows(2).map(|pair| 64 + pair[1] - pair[0]));
        bytes.resize(10 + 32, 0);
        bytes
    };
    let page = |prefixes| [&deltas(prefixes)[..], &deltas([3, 4, 5]), &[97; 12]].concat();
    for (prefixes, expected) in [
        ([0, 3, 7], Some(22)),
        ([0, 0, 4], Some(16)),
        ([1, 1, 1], None),
        ([0, 4, 1], None),
        ([0, 3, 8], None),
    ] {
        let size = size(TEXT, Encoding::DELTA_BYTE_ARRAY, 3, &page(prefixes));
        assert_eq!(size.map_err(|error| error.kind()).ok(), expected);
    }
}

#[test]
fn the_bytes_of_split_streams_are_those_of_the_values() {
    for (column, bytes) in [(LONG, 17), (LONG, 24), (FIXED, 33), (FIXED, 48)] {
        let error = size(column, Encoding::BYTE_STREAM_SPLIT, 2, &vec![0; bytes]);
        assert_eq!(error.unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn few_bytes_may_stand_for_too_much() {
    let most = (1 << 31) - 1;
    let run = [1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1];
    let block = [128, 128, 128, 128, 8, 1, 0xff, 0xff, 0xff, 0xff, 7, 2, 0, 0];
    for (column, encoding, values) in [
        (LONG, Encoding::RLE_DICTIONARY, &run[..]),
        (TEXT, Encoding::RLE_DICTIONARY, &run),
        (LONG, Encoding::DELTA_BINARY_PACKED, &block),
    ] {
        let error = size(column, encoding, most, values).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit, "{encoding}: {error}");
    }
}

#[test]
fn lists_of_fixed_size_are_padded_where_they_are_null() {
    let leaf = list_leaf();
    let levels = [0u32, 1, 1, 0, 0, 1];
    let header = header_v1(levels.len(), 0, Encoding::PLAIN);
    let page = DataPage {
        header: &header,
        repetition: &encode_hybrid(&levels, 1, &mut Random(1)),
        definition: &[],
        values: &[],
        is_takeable: false,
    };
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let number = item(DataType::Int32);
    let fixed = DataType::FixedSizeList(number.clone(), 7);
    let slots = |data_type: &DataType, ordinal| padded_slots(&page, &leaf, data_type, ordinal);
    // Three rows, and six elements of lists.
    assert_eq!(slots(&fixed, 0).unwrap(), 3 * 7);
    assert_eq!(slots(&DataType::List(number), 0).unwrap(), 0);
    assert_eq!(
        slots(&DataType::List(item(fixed.clone())), 0).unwrap(),
        6 * 7
    );
    let twice = DataType::FixedSizeList(item(fixed.clone()), 5);
    assert_eq!(slots(&twice, 0).unwrap(), 3 * 5 * 7);
    let fields = [DataType::Int32, fixed].map(|kind| Field::new("a", kind, true));
    let both = DataType::Struct(Fields::from(fields.to_vec()));
    assert_eq!(slots(&both, 0).unwrap(), 0);
    assert_eq!(slots(&both, 1).unwrap(), 3 * 7);
}
