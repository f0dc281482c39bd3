//! Schemas without annotations that nobody knows: some old writers left numbers that
//! the format does not define, which say nothing about the values.

use std::borrow::Cow;

use crate::error::Result;
use crate::thrift::{Reader, Wire};

/// `converted_type` of a schema element.
const CONVERTED_TYPE: i16 = 6;
/// The last that the format defines, INTERVAL.
const LAST_CONVERTED_TYPE: i32 = 21;

/// The list of schema elements without unknown converted types.
pub fn known_only(list: &[u8]) -> Result<Cow<'_, [u8]>> {
    let mut reader = Reader::new(list);
    let count = reader.list_of(Wire::Struct)?;
    let mut known = list[..reader.position()].to_vec();
    let mut has_unknown = false;
    for _ in 0..count {
        let mut last = 0i16;
        reader.fields(|id, wire, reader| {
            let start = reader.position();
            if (id, wire) == (CONVERTED_TYPE, Wire::I32) {
                if !(0..=LAST_CONVERTED_TYPE).contains(&reader.i32()?) {
                    has_unknown = true;
                    return Ok(());
                }
            } else {
                reader.skip(wire)?;
            }
            push_field(&mut known, last, id, wire);
            known.extend_from_slice(&list[start..reader.position()]);
            last = id;
            Ok(())
        })?;
        known.push(0);
    }
    Ok(match has_unknown {
        true => Cow::Owned(known),
        false => Cow::Borrowed(list),
    })
}

/// The header of a field that follows field `last`.
fn push_field(bytes: &mut Vec<u8>, last: i16, id: i16, wire: Wire) {
    if let Ok(delta @ 1..=15) = u8::try_from(i32::from(id) - i32::from(last)) {
        bytes.push(delta << 4 | wire.code());
        return;
    }
    bytes.push(wire.code());
    // Zigzag, of 16 bits and so of three bytes at most.
    let mut number = ((id << 1) ^ (id >> 15)).cast_unsigned();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_ones_are_left_out() {
        // Two leaves called "a": INT32, converted type, logical type of field 10.
        let element = |converted: u8| {
            let head = [0x15, 2, 0x38, 1, b'a', 0x25, converted];
            [&head[..], &[0x4c, 0, 0]].concat()
        };
        let list = |first: u8, second: u8| [vec![0x2c], element(first), element(second)].concat();
        for converted in [0, 12, 42] {
            let same = list(converted, 12);
            assert!(matches!(known_only(&same).unwrap(), Cow::Borrowed(_)));
        }
        for converted in [44, 100, 1] {
            let changed = list(12, converted);
            let expected = [
                vec![0x2c],
                element(12),
                vec![0x15, 2, 0x38, 1, b'a', 0x6c, 0, 0],
            ];
            assert_eq!(&*known_only(&changed).unwrap(), expected.concat());
        }
    }

    #[test]
    fn far_and_falling_numbers_are_written_in_full() {
        for (last, id) in [(0, 1), (0, 15), (3, 19), (9, 2), (0, -3), (0, 30_000)] {
            let mut bytes = Vec::new();
            push_field(&mut bytes, 0, last, Wire::True);
            push_field(&mut bytes, last, id, Wire::True);
            bytes.push(0);
            let mut found = Vec::new();
            let mut reader = Reader::new(&bytes);
            reader
                .fields(|id, _, _| {
                    found.push(id);
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, [last, id]);
        }
    }
}
