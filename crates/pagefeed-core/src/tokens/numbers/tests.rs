use super::*;
use crate::decode::tests::{Random, encode_hybrid};

fn written(numbers: &Numbers) -> Vec<i64> {
    let mut words = vec![0i64; numbers.len()];
    // SAFETY: any bytes are numbers.
    let bytes = unsafe { words.align_to_mut::<u8>() }.1;
    numbers.write(0, bytes).unwrap();
    words
}

fn size(numbers: &Numbers) -> usize {
    size_of(&numbers.held)
}

#[test]
fn as_many_bytes_are_held_as_the_numbers_take() {
    let parts: [(&[i64], usize); 4] = [
        (&[-100, 0, 65_279, -256], 2),
        (&[65_280, -257, i32::MIN as i64], 4),
        (&[7, -100], 4),
        (&[i64::MAX, 1 << 31, i64::MIN], 8),
    ];
    let mut all = Vec::new();
    let mut numbers = Numbers::new(8, Numbers::default());
    for (part, bytes) in parts {
        numbers.extend(part.iter().copied(), 0).unwrap();
        all.extend(part);
        assert_eq!(written(&numbers), all);
        assert_eq!(size(&numbers), bytes);
    }
    let mut again = Numbers::new(8, numbers.clone());
    assert!(again.is_empty());
    again.extend([1, -1].into_iter(), 0).unwrap();
    assert_eq!(written(&again), [1, -1]);
    for (begin, end) in [(0, 4), (4, 7), (2, 10)] {
        let before = written(&again);
        again.append(&numbers, begin..end, 20).unwrap();
        assert_eq!(written(&again), [&before[..], &all[begin..end]].concat());
    }
    assert!(numbers.write(5, &mut [0; 64]).is_none());
}

#[test]
fn narrow_columns_are_held_as_they_are() {
    let mut numbers = Numbers::new(2, Numbers::default());
    numbers.extend([0, 65_535, 1 << 15].into_iter(), 0).unwrap();
    let mut shorts = [0u16; 3];
    // SAFETY: any bytes are numbers.
    let bytes = unsafe { shorts.align_to_mut::<u8>() }.1;
    numbers.write(0, bytes).unwrap();
    assert_eq!(shorts, [0, 65_535, 1 << 15]);
    numbers.width = 1;
    let mut bytes = [0u8; 2];
    numbers.write(1, &mut bytes).unwrap();
    assert_eq!(bytes, [255, 0]);
}

#[test]
fn any_tables_one_after_the_other() {
    let mut random = Random(9);
    for round in 0..60 {
        let mut numbers = Numbers::new(8, Numbers::default());
        let mut joined = Numbers::default();
        let (mut expected, mut all) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let entries = [2, 3, 200, 400][random.below(1 + round % 4) as usize];
            let shift = random.below(1 + round % 60) as u32;
            let mut table: Vec<i64> = (0..entries)
                .map(|_| (random.next().cast_signed() >> 48) << shift)
                .collect();
            table[0] = -100;
            let mut held = Numbers::new(8, Numbers::default());
            held.extend(table.iter().copied(), 0).unwrap();
            let count = 1 + random.below(1500);
            let indices: Vec<u32> = (0..count).map(|_| random.below(entries) as u32).collect();
            let mut bytes = vec![9];
            bytes.extend(encode_hybrid(&indices, 9, &mut random));
            let begin = random.below(count) as usize;
            let values = begin..count as usize;
            let found = indices[values.clone()].iter();
            expected.extend(found.map(|&index| table[index as usize]));
            numbers.look_up(&bytes, values, &held.into_table()).unwrap();
            assert_eq!(written(&numbers), expected);
            let part = random.below(numbers.len() as u64) as usize..numbers.len();
            joined.append(&numbers, part.clone(), 10).unwrap();
            all.extend(&expected[part]);
            assert_eq!(written(&joined), all);
        }
    }
}
