//! Schemas without annotations that the crate does not take: numbers that the format does not
//! define, which some old writers left, and those that contradict a physical or a logical type.
//! They say nothing about the values. The logical type of a list or a map stands, as the format
//! has it.

use std::borrow::Cow;

use crate::error::Result;
use crate::thrift::{Reader, Wire, put_varint, read_fields};

/// Fields of a schema element.
const REPETITION: i16 = 3;
const CONVERTED_TYPE: i16 = 6;
const SCALE: i16 = 7;
/// A union.
const LOGICAL_TYPE: i16 = 10;
/// Logical types of groups.
const MAP: i16 = 2;
const LIST: i16 = 3;
/// Converted types.
const DECIMAL: i32 = 5;
/// The last logical type that the crate knows.
const LAST_KNOWN: i16 = 18;

/// Facts of an element about its values.
#[derive(Default)]
struct Annotations {
    is_leaf: bool,
    has_repetition: bool,
    converted: Option<i32>,
    has_scale: bool,
    /// Member of the union that is the logical type.
    logical: Option<i16>,
}

/// Returns the list of schema elements without types that are not known yet, and with what is left
/// out where it is 0: the scale of a decimal, and the repetition of a required leaf.
pub fn known_only(list: &[u8]) -> Result<Cow<'_, [u8]>> {
    rewritten(list, |own| {
        let is_known = |converted| is_known(converted, own.logical);
        [
            own.converted.is_none_or(is_known),
            own.logical.is_none_or(|logical| logical <= LAST_KNOWN),
        ]
    })
}

/// Returns a footer without the annotations of leaves that `keeps` denies.
pub fn of_leaves(footer: &[u8], keeps: impl Fn(usize) -> bool) -> Result<Vec<u8>> {
    let (mut at, mut leaf) = (0..0, 0);
    let mut reader = Reader::new(footer);
    read_fields!(reader, {
        (2, Wire::List) => {
            let start = reader.position();
            reader.skip(Wire::List)?;
            at = start..reader.position();
        },
    })?;
    let list = rewritten(&footer[at.clone()], |own| {
        leaf += usize::from(own.is_leaf);
        [!own.is_leaf || keeps(leaf - 1); 2]
    })?;
    Ok([&footer[..at.start], &list, &footer[at.end..]].concat())
}

/// Returns the list of schema elements, of which `keeps` tells whether converted and logical
/// type stay.
fn rewritten(
    list: &[u8],
    mut keeps: impl FnMut(&Annotations) -> [bool; 2],
) -> Result<Cow<'_, [u8]>> {
    let mut reader = Reader::new(list);
    let count = reader.list_of(Wire::Struct)?;
    let mut stripped = list[..reader.position()].to_vec();
    let mut has_changed = false;
    for _ in 0..count {
        let own = annotations(&list[reader.position()..])?;
        let [keeps_converted, keeps_logical] = keeps(&own);
        let mut lacks_scale = own.converted == Some(DECIMAL) && !own.has_scale;
        let mut lacks_repetition = own.is_leaf && !own.has_repetition;
        let mut last = 0i16;
        reader.fields(|id, wire, reader| {
            let start = reader.position();
            reader.skip(wire)?;
            if id == CONVERTED_TYPE && !keeps_converted || id == LOGICAL_TYPE && !keeps_logical {
                has_changed = true;
                return Ok(());
            }
            if id > REPETITION && std::mem::take(&mut lacks_repetition) {
                push_field(&mut stripped, last, REPETITION, Wire::I32);
                stripped.push(0);
                (last, has_changed) = (REPETITION, true);
            }
            push_field(&mut stripped, last, id, wire);
            stripped.extend_from_slice(&list[start..reader.position()]);
            last = id;
            if id == CONVERTED_TYPE && std::mem::take(&mut lacks_scale) {
                push_field(&mut stripped, last, SCALE, Wire::I32);
                stripped.push(0);
                (last, has_changed) = (SCALE, true);
            }
            Ok(())
        })?;
        stripped.push(0);
    }
    Ok(match has_changed {
        true => Cow::Owned(stripped),
        false => Cow::Borrowed(list),
    })
}

fn annotations(element: &[u8]) -> Result<Annotations> {
    let mut own = Annotations::default();
    let mut reader = Reader::new(element);
    read_fields!(reader, {
        (1, Wire::I32) => {
            own.is_leaf = true;
            reader.i32()?;
        },
        (REPETITION, Wire::I32) => {
            own.has_repetition = true;
            reader.i32()?;
        },
        (CONVERTED_TYPE, Wire::I32) => own.converted = Some(reader.i32()?),
        (SCALE, Wire::I32) => {
            own.has_scale = true;
            reader.i32()?;
        },
        (LOGICAL_TYPE, Wire::Struct) => reader.fields(|member, wire, reader| {
            own.logical = Some(member);
            reader.skip(wire)
        })?,
    })?;
    Ok(own)
}

/// Whether the format has this converted type together with the logical type.
fn is_known(converted: i32, logical: Option<i16>) -> bool {
    match logical {
        Some(LIST) => converted == 3,
        Some(MAP) => matches!(converted, 1 | 2),
        _ => (0..=21).contains(&converted), // The last is INTERVAL.
    }
}

/// The header of a field that follows field `last`.
fn push_field(bytes: &mut Vec<u8>, last: i16, id: i16, wire: Wire) {
    if let Ok(delta @ 1..=15) = u8::try_from(i32::from(id) - i32::from(last)) {
        bytes.push(delta << 4 | wire.code());
        return;
    }
    bytes.push(wire.code());
    // Zigzag, of 16 bits and so of three bytes at most.
    put_varint(bytes, ((id << 1) ^ (id >> 15)).cast_unsigned().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_ones_are_left_out() {
        // Two leaves called "a": INT32, required, converted type, logical type of field 10.
        let element = |converted: u8| {
            let head = [0x15, 2, 0x25, 0, 0x18, 1, b'a', 0x25, converted];
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
                vec![0x15, 2, 0x25, 0, 0x18, 1, b'a', 0x6c, 0, 0],
            ];
            assert_eq!(&*known_only(&changed).unwrap(), expected.concat());
        }
        let without_repetition = [0x1c, 0x15, 2, 0x38, 1, b'a', 0x25, 12, 0x4c, 0, 0];
        let expected = [vec![0x1c], element(12)].concat();
        assert_eq!(&*known_only(&without_repetition).unwrap(), expected);
    }

    #[test]
    fn of_lists_and_maps_the_logical_type_stands() {
        // A group "a" of one child: converted type in zigzag, logical type.
        let element = |converted: u8, logical: u8| {
            let head = [0x48, 1, b'a', 0x15, 2, 0x15, converted];
            [&head[..], &[0x4c, logical << 4 | 0xc, 0, 0, 0]].concat()
        };
        let list = |converted: u8, logical: u8| [vec![0x1c], element(converted, logical)].concat();
        for (converted, logical) in [(6, 3), (2, 2), (4, 2), (0, 1)] {
            let same = list(converted, logical);
            assert!(matches!(known_only(&same).unwrap(), Cow::Borrowed(_)));
        }
        for (converted, logical) in [(2, 3), (0, 3), (6, 2)] {
            let changed = known_only(&list(converted, logical)).unwrap().into_owned();
            let head = [0x1c, 0x48, 1, b'a', 0x15, 2, 0x5c];
            assert_eq!(
                changed,
                [&head[..], &[logical << 4 | 0xc, 0, 0, 0]].concat()
            );
        }
    }

    #[test]
    fn far_and_falling_numbers_are_written_in_full() {
        for (last, id) in [(0, 1), (0, 15), (3, 19), (9, 2), (0, -3), (0, 30_000)] {
            let mut bytes = Vec::new();
            push_field(&mut bytes, 0, last, Wire::True);
            push_field(&mut bytes, last, id, Wire::True);
            bytes.push(0);
            let mut ids = Vec::new();
            let mut reader = Reader::new(&bytes);
            reader
                .fields(|id, _, _| {
                    ids.push(id);
                    Ok(())
                })
                .unwrap();
            assert_eq!(ids, [last, id]);
        }
    }
}
