//! Fields by hand; `tests/property` holds them against a model for random documents.

use super::*;
use crate::fields::{FieldType, IGNORED, Sections};
use crate::tokens::Continues;

const ALL: [Field; Field::ALL.len()] = Field::ALL;

/// Two rows of six: documents of 2 and 3 tokens and padding; padding, then 4 tokens.
fn made(names: &[Field], shifted: bool, across: bool) -> (Sections, Vec<i64>, Made) {
    made_of(&Fields::new(names, shifted, across))
}

fn made_of(fields: &Fields) -> (Sections, Vec<i64>, Made) {
    let sections = Sections::new(fields, 12, 2);
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
        borders.add(begin, end, Continues::default());
    }
    let mut parts = sections.split(bytes);
    let tokens = parts.take::<u16>(Field::InputIds);
    let mut maker = Maker::new(fields, 6, &mut parts);
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
        most_segments: 3,
        max_doc_lens: vec![3, 4],
    };
    assert_eq!(result, expected);
    assert_eq!(
        field::<i32>(&sections, memory, Field::CuSeqlensPadded)[..6],
        [0, 2, 5, 6, 8, 12]
    );
    // Next to those, these count the tokens of documents alone.
    assert_eq!(
        field::<i32>(&sections, memory, Field::CuSeqlens)[..6],
        [0, 2, 5, 5, 5, 9]
    );
    assert_eq!(
        field::<i32>(&sections, memory, Field::DocLens)[..6],
        [2, 3, 1, 2, 4, 0]
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
        field::<i32>(&sections, memory, Field::SeqIdx),
        [0, 0, 1, 1, 1, 2, 3, 3, 4, 4, 4, 4]
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
        (false, true, [NO, 2, 3, 4, 5, NO, NO, NO, NO, 10, 11, 12]),
        (true, true, [2, 3, 4, 5, NO, NO, NO, NO, 10, 11, 12, NO]),
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
        assert_eq!(alone.num_borders, result.num_borders);
        assert_eq!(alone.max_seqlen, result.max_seqlen);
        assert_eq!((alone.most_segments, alone.max_doc_lens.len()), (0, 0));
        assert_eq!(
            field::<i64>(&sections, &mut memory, name),
            field::<i64>(&every, &mut all, name)
        );
    }
}

#[test]
fn fields_come_in_other_types() {
    let mut fields = Fields::new(&ALL, true, false);
    for (name, field_type) in [
        (Field::Labels, FieldType::I32),
        (Field::PositionIds, FieldType::I32),
        (Field::DocumentIds, FieldType::I64),
        (Field::AttentionMask, FieldType::I64),
        (Field::LossMask, FieldType::F32),
    ] {
        fields = fields.with_type(name, field_type).unwrap();
    }
    fields.ignored = -1;
    fields.check(12).unwrap();
    let (sections, mut memory, _) = made_of(&fields);
    let memory = &mut memory;
    assert_eq!(sections.range(Field::LossMask).len(), 12 * 4);
    let labels = [2, -1, 4, 5, -1, -1, -1, -1, 10, 11, 12, -1];
    assert_eq!(field::<i32>(&sections, memory, Field::Labels), labels);
    assert_eq!(
        field::<i32>(&sections, memory, Field::PositionIds)[..6],
        [0, 1, 0, 1, 2, 0]
    );
    assert_eq!(
        field::<i64>(&sections, memory, Field::DocumentIds)[..6],
        [0, 0, 1, 1, 1, -1]
    );
    assert_eq!(
        field::<i64>(&sections, memory, Field::AttentionMask)[..6],
        [1, 1, 1, 1, 1, 0]
    );
    // As bits: 0 and 1 of floats.
    let one = i64::from(1f32.to_bits());
    assert_eq!(
        field::<i32>(&sections, memory, Field::LossMask),
        labels.map(|label| if label == -1 { 0 } else { one })
    );
}

#[test]
fn types_that_do_not_hold_a_field_are_refused() {
    let fields = Fields::new(&ALL, false, false);
    assert!(fields.with_type(Field::Labels, FieldType::Bool).is_err());
    assert!(fields.with_type(Field::CuSeqlens, FieldType::I64).is_err());
    assert!(fields.with_type(Field::InputIds, FieldType::I64).is_err());
    let mut narrow = fields.with_type(Field::Labels, FieldType::I32).unwrap();
    narrow.ignored = 1 << 31;
    assert!(narrow.check(1).is_err());
    assert!(FieldType::from_name("float16").is_err());
}

#[test]
fn borders_with_padding_and_without_are_of_the_same_segments() {
    let wanted = [Field::CuSeqlens, Field::CuSeqlensPadded];
    let fields = Fields::new(&wanted, false, false).with_multiple_of(2);
    let sections = Sections::new(&fields, 16, 2);
    let mut memory = vec![0i64; sections.num_bytes().div_ceil(8)];
    // SAFETY: numbers are any bytes.
    let bytes = unsafe { memory.align_to_mut::<u8>() }.1;
    let bytes = &mut bytes[..sections.num_bytes()];
    let mut borders = Borders::default();
    borders.reset(16);
    // A row with documents of 3, 1 and 2 tokens; one of 2 and 4 of padding, and 2 more.
    for (begin, end) in [(0, 3), (4, 5), (6, 8), (8, 10), (14, 16)] {
        borders.add(begin, end, Continues::default());
    }
    let mut parts = sections.split(bytes);
    let tokens = parts.take::<u16>(Field::InputIds);
    let made = Maker::new(&fields, 8, &mut parts).finish(tokens, &borders);
    assert_eq!((made.num_borders, made.max_seqlen), (7, 4));
    let memory = &mut memory;
    let padded = field::<i32>(&sections, memory, Field::CuSeqlensPadded);
    assert_eq!(padded[..7], [0, 4, 6, 8, 10, 14, 16]);
    let own = field::<i32>(&sections, memory, Field::CuSeqlens);
    assert_eq!(own[..7], [0, 3, 4, 6, 8, 8, 10]);
}
