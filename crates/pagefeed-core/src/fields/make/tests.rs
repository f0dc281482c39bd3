//! Fields by hand; `tests/property` holds them against a model for random documents.

use super::*;
use crate::decode::Joins;
use crate::fields::Sections;

const ALL: [Field; 8] = Field::ALL;

/// Two rows of six: documents of 2 and 3 tokens and padding; padding, then 4 tokens.
fn made(names: &[Field], shifted: bool, across: bool) -> (Sections, Vec<i64>, Made) {
    let fields = Fields::new(names, shifted, across);
    let sections = Sections::new(&fields, 12, 2);
    // Memory of batches is aligned, and was used before.
    let mut memory = vec![-1i64; sections.num_bytes().div_ceil(8)];
    // SAFETY: numbers are any bytes.
    let bytes = unsafe { memory.align_to_mut::<u8>() }.1;
    let bytes = &mut bytes[..sections.num_bytes()];
    let tokens = sections.split(bytes).take::<u16>(Field::InputIds);
    for (token, value) in tokens.iter_mut().zip(1..) {
        *token = value;
    }
    let mut borders = Borders::default();
    borders.reset(12);
    for (begin, end) in [(8, 12), (0, 2), (2, 5)] {
        borders.add(begin, end, Joins::default());
    }
    let mut parts = sections.split(bytes);
    let tokens = parts.take::<u16>(Field::InputIds);
    let mut maker = Maker::new(&fields, 6, &mut parts);
    maker.make_before(5, tokens, &borders);
    maker.make_before(7, tokens, &borders);
    let result = maker.finish(tokens, &borders);
    (sections, memory, result)
}

fn field<T: Number + Into<i64>>(sections: &Sections, memory: &mut [i64], name: Field) -> Vec<i64> {
    // SAFETY: numbers are any bytes.
    let bytes = unsafe { memory.align_to_mut::<u8>() }.1;
    let bytes = &mut bytes[..sections.num_bytes()];
    let values = sections.split(bytes).take::<T>(name);
    values.iter().map(|&value| value.into()).collect()
}

#[test]
fn fields_are_those_of_segments() {
    let (sections, mut memory, result) = made(&ALL, false, false);
    let memory = &mut memory;
    let expected = Made {
        num_borders: 6,
        max_seqlen: 4,
    };
    assert_eq!(result, expected);
    assert_eq!(
        field::<i32>(&sections, memory, Field::CuSeqlens)[..6],
        [0, 2, 5, 6, 8, 12]
    );
    assert_eq!(
        field::<i64>(&sections, memory, Field::PositionIds),
        [0, 1, 0, 1, 2, 0, 0, 1, 0, 1, 2, 3]
    );
    assert_eq!(
        field::<i32>(&sections, memory, Field::DocumentIds),
        [0, 0, 1, 1, 1, -1, -1, -1, 0, 0, 0, 0]
    );
    assert_eq!(
        field::<u8>(&sections, memory, Field::AttentionMask),
        [1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1]
    );
}

#[test]
fn labels_stand_where_they_are_asked_for() {
    const NO: i64 = IGNORED;
    for (shifted, across, expected) in [
        (false, false, [NO, 2, NO, 4, 5, NO, NO, NO, NO, 10, 11, 12]),
        (true, false, [2, NO, 4, 5, NO, NO, NO, NO, 10, 11, 12, NO]),
        (false, true, [NO, 2, 3, 4, 5, NO, NO, NO, 9, 10, 11, 12]),
        (true, true, [2, 3, 4, 5, NO, NO, NO, 9, 10, 11, 12, NO]),
    ] {
        let (sections, mut memory, _) = made(&ALL, shifted, across);
        let labels = field::<i64>(&sections, &mut memory, Field::Labels);
        assert_eq!(labels, expected);
        let mask = field::<u8>(&sections, &mut memory, Field::LossMask);
        assert_eq!(mask, expected.map(|label| i64::from(label != NO)));
    }
}

#[test]
fn each_field_may_be_made_alone() {
    let (every, mut all, result) = made(&ALL, false, false);
    for name in [Field::PositionIds, Field::Labels] {
        let (sections, mut memory, alone) = made(&[name], false, false);
        assert_eq!(alone, result);
        assert_eq!(
            field::<i64>(&sections, &mut memory, name),
            field::<i64>(&every, &mut all, name)
        );
    }
}
