#![allow(clippy::unwrap_used)]

use super::*;
use crate::tokens::{TokenPage, Tokens};

fn page(tokens: Tokens) -> TokenPage {
    let num_tokens = tokens.len() as u32;
    TokenPage {
        tokens,
        row_offsets: vec![0, 2, 2, num_tokens],
        ..TokenPage::default()
    }
}

#[test]
fn every_pair_of_types_keeps_values_that_fit() {
    let values: Vec<u16> = (0..1001).map(|i| (i * 65) as u16).collect();
    let wide = values.iter().map(|&v| i64::from(v));
    for tokens in [
        Tokens::U16(values.clone()),
        Tokens::I32(values.iter().map(|&v| i32::from(v)).collect()),
        Tokens::U32(values.iter().map(|&v| u32::from(v)).collect()),
        Tokens::I64(wide.clone().collect()),
    ] {
        let page = page(tokens);
        let (mut a, mut b, mut c) = ([0i64; 900], [0i32; 900], [0u16; 900]);
        copy_segment(&page, 2, 7, &mut a, Ahead::NONE).unwrap();
        copy_segment(&page, 2, 7, &mut b, Ahead::NONE).unwrap();
        copy_segment(&page, 0, 9, &mut c, Ahead::NONE).unwrap();
        let expected: Vec<i64> = wide.clone().skip(9).take(900).collect();
        assert_eq!(a.to_vec(), expected);
        assert_eq!(b.map(i64::from).to_vec(), expected);
        assert_eq!(c.map(i64::from).to_vec(), expected);
    }
}

#[test]
fn any_part_of_a_page_is_widened_to_any_part_of_a_batch() {
    let values: Vec<u16> = (0..200).map(|i| (i * 331) as u16).collect();
    let page = page(Tokens::U16(values.clone()));
    let mut target = [-1i64; 120];
    for start in 0..6 {
        for length in 0..110 {
            for at in 0..9 {
                // Wherever that is.
                let ahead = Ahead::new(&page, start, at as u32 * 1000, 700);
                target.fill(-1);
                let part = &mut target[at..at + length];
                copy_segment(&page, 0, start, part, ahead).unwrap();
                let copied = &values[start as usize..start as usize + length];
                assert!(
                    target[at..at + length].iter().eq(copied
                        .iter()
                        .map(|&v| v as i64)
                        .collect::<Vec<_>>()
                        .iter())
                );
                assert!(
                    target[..at]
                        .iter()
                        .chain(&target[at + length..])
                        .all(|&v| v == -1)
                );
            }
        }
    }
}

#[test]
fn a_value_that_does_not_fit_is_returned() {
    fn first<T: BatchToken + Default>(tokens: Tokens) -> Result<(), Misfit> {
        copy_segment(&page(tokens), 0, 0, &mut [T::default(); 100], Ahead::NONE)
    }
    let at = |position: usize, value: i64| {
        let mut values = vec![7i64; 100];
        values[position] = value;
        values
    };
    for position in [0, 1, 50, 98, 99] {
        for value in [-1i64, 65536, i64::from(i32::MIN), i64::from(i32::MAX)] {
            let narrow = at(position, value).iter().map(|&v| v as i32).collect();
            let misfit = Err(Misfit::Token(value));
            assert_eq!(first::<u16>(Tokens::I32(narrow)), misfit);
            assert_eq!(first::<u16>(Tokens::I64(at(position, value))), misfit);
            assert_eq!(first::<i32>(Tokens::I64(at(position, value))), Ok(()));
        }
        for value in [1i64 << 31, i64::from(u32::MAX)] {
            let unsigned: Vec<u32> = at(position, value).iter().map(|&v| v as u32).collect();
            let misfit = Err(Misfit::Token(value));
            assert_eq!(first::<i32>(Tokens::U32(unsigned.clone())), misfit);
            assert_eq!(first::<u16>(Tokens::U32(unsigned.clone())), misfit);
            assert_eq!(first::<i64>(Tokens::U32(unsigned)), Ok(()));
            assert_eq!(first::<i32>(Tokens::I64(at(position, value))), misfit);
        }
        for value in [i64::MIN, i64::MAX, -(1 << 31) - 1] {
            let tokens = Tokens::I64(at(position, value));
            assert_eq!(first::<i32>(tokens), Err(Misfit::Token(value)));
        }
    }
}

#[test]
fn a_value_outside_the_segment_does_no_harm() {
    let page = page(Tokens::I32(vec![-1, 5, 6, 70000]));
    let mut target = [0u16; 2];
    copy_segment(&page, 0, 1, &mut target, Ahead::NONE).unwrap();
    assert_eq!(target, [5, 6]);
}

#[test]
fn lines_have_separators_also_where_rows_are_empty() {
    let page = page(Tokens::U16(vec![1, 2, 3, 4]));
    for (bos, eos) in [
        (None, None),
        (Some(7), None),
        (None, Some(9)),
        (Some(7), Some(9)),
    ] {
        let separators = Separators {
            bos,
            eos,
            bos_every: 0,
        };
        let per_row = separators.per_row();
        let mut line = Vec::new();
        let mut rows = Vec::new();
        for (row, tokens) in [&[1i64, 2][..], &[], &[3, 4]].into_iter().enumerate() {
            let before = line.len();
            line.extend(bos.into_iter().chain(tokens.iter().copied()).chain(eos));
            rows.extend((0..line.len() - before).map(|place| (row, place as u64)));
        }
        for start in 0..=line.len() {
            for end in start..=line.len() {
                let mut found = vec![0; end - start];
                let mut offset = 0;
                let parts = line_ranges(&page, per_row, 0, start as u32, end - start).unwrap();
                for part in parts {
                    assert_eq!(rows[start + offset], (part.row, part.first_token));
                    let target = &mut found[offset..offset + part.num_tokens];
                    copy_line(&page, part, &separators, target, Ahead::NONE).unwrap();
                    offset += part.num_tokens;
                }
                assert_eq!(found, line[start..end]);
            }
        }
        let beyond = line_ranges(&page, per_row, 0, 1, line.len());
        assert!(matches!(beyond.err(), Some(Misfit::PageTooShort { .. })));
        assert!(line_ranges(&page, per_row, 3, 0, 0).is_err());
    }
}

#[test]
fn a_page_that_is_too_short_is_told() {
    let page = page(Tokens::U16(vec![1, 2, 3, 4]));
    let needed = |row, first_token, count| {
        copy_segment(&page, row, first_token, &mut vec![0i64; count], Ahead::NONE)
    };
    assert_eq!(needed(1, 0, 2), Ok(()));
    let too_short = |needed| Misfit::PageTooShort {
        num_rows: 3,
        num_tokens: 4,
        needed,
    };
    assert_eq!(needed(2, 1, 2), Err(too_short(Some(5))));
    assert_eq!(needed(0, u32::MAX, 1), Err(too_short(Some(1 << 32))));
    assert_eq!(needed(3, 0, 0), Err(too_short(None)));
    let empty = TokenPage {
        tokens: Tokens::U16(vec![]),
        row_offsets: vec![],
        ..TokenPage::default()
    };
    assert!(copy_segment(&empty, 0, 0, &mut [0i64; 0], Ahead::NONE).is_err());
}
