#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray};

use super::*;
use crate::tokens::{Numbers, PerToken, TokenPage, Tokens, arrange};

fn infilling(rate: f64, with_end: bool) -> Infilling {
    Infilling {
        choice: [11, 12],
        cuts: [13, 14],
        rate: (rate * (1u64 << 32) as f64) as u64,
        spm: 1 << 31,
        tokens: [70_001, 70_002, 70_003, 70_004][..if with_end { 4 } else { 3 }].to_vec(),
        within_sequence: false,
    }
}

/// The document that a row holds, and its parts, by the markers in it.
fn inverted(row: &[i64], with_end: bool) -> Vec<i64> {
    let position_of = |marker: i64| row.iter().position(|&token| token == marker).unwrap();
    let (suffix, middle) = (position_of(70_002), position_of(70_003));
    assert_eq!(row[0], 70_001);
    let end = match with_end {
        true => position_of(70_004),
        false => row.len(),
    };
    assert!(!with_end || end == row.len() - 1);
    let own = |range: std::ops::Range<usize>| row[range].to_vec();
    match suffix {
        1 if own(middle + 1..end).first() == Some(&0) || middle == 2 => {
            [own(middle + 1..end), own(2..middle)].concat()
        }
        _ => [
            own(1..suffix),
            own(middle + 1..end),
            own(suffix + 1..middle),
        ]
        .concat(),
    }
}

#[test]
fn rows_hold_their_document_once_and_every_marker_once() {
    for with_end in [false, true] {
        let infilling = infilling(1.0, with_end);
        for epoch in 0..3 {
            for count in 0u32..40 {
                let [pending] = infilling.pending(u64::from(count), 1, epoch)[..] else {
                    unreachable!()
                };
                let arranged = infilling.arranged(&pending, 0..count);
                let mut row = Vec::new();
                for run in arranged.runs(count) {
                    match run {
                        Run::Marker(marker) => row.push(infilling.tokens[marker as usize]),
                        Run::Own(own) => row.extend(own.map(i64::from)),
                    }
                }
                assert_eq!(row.len(), (count + infilling.num_added()) as usize);
                let all: Vec<i64> = (0..count.into()).collect();
                assert_eq!(inverted(&row, with_end), all, "{row:?}");
                // Where each token lies is what `own` says, whichever part is asked for.
                for start in 0..row.len() as u32 {
                    let asked = start..(start + 7).min(row.len() as u32);
                    for run in arranged.own(count, asked.clone()) {
                        for more in 0..run.num_tokens {
                            let at = (asked.start + run.offset + more) as usize;
                            assert_eq!(row[at], i64::from(run.first_token + more));
                        }
                    }
                }
            }
        }
    }
}

fn page() -> TokenPage {
    let mut numbers = Numbers::new(4, Numbers::default());
    numbers
        .extend((0..100).collect::<Vec<i64>>().into_iter(), 0)
        .unwrap();
    TokenPage {
        tokens: Tokens::U16((0..100).collect()),
        row_offsets: vec![0, 30, 30, 31, 80, 100],
        aligned: vec![numbers],
        ..TokenPage::default()
    }
}

#[test]
fn pages_are_widened_for_markers_and_aligned_numbers_follow() {
    let (infilling, mut plain, mut page) = (infilling(0.5, false), page(), page());
    let per_token = PerToken {
        padding: 7777,
        ..PerToken::default()
    };
    let pending = infilling.pending(1000, 5, 3);
    let offsets = plain.row_offsets.clone();
    let rows = pending.iter().map(|row| {
        let [begin, end] = [0, 1].map(|more| offsets[row.row + more]);
        infilling.arranged(row, 0..end - begin)
    });
    let rows: Vec<Arranged> = rows.collect();
    assert!(!rows.is_empty() && rows.len() < 5);
    arrange(
        &infilling,
        &mut plain,
        rows.clone(),
        &[per_token],
        &mut page,
    )
    .unwrap();
    assert!(matches!(page.tokens, Tokens::I32(_)));
    let added = 3 * rows.len();
    assert_eq!(page.tokens.len(), 100 + added);
    assert_eq!(*page.row_offsets.last().unwrap() as usize, 100 + added);
    let tokens = page.tokens.wide(0..100 + added);
    let numbers = page.aligned[0].whole(0..100 + added);
    for (token, number) in tokens.iter().zip(&numbers) {
        assert_eq!(*number, if *token > 70_000 { 7777 } else { *token });
    }
    let mut own: Vec<i64> = tokens.into_iter().filter(|&token| token < 100).collect();
    own.sort_unstable();
    assert_eq!(own, (0..100).collect::<Vec<i64>>());
}

#[test]
fn markers_of_any_size_are_written_as_they_are() {
    let count = 0..100u32;
    let pages = [
        Tokens::U16(count.clone().map(|token| token as u16).collect()),
        Tokens::I32(count.clone().map(|token| token as i32).collect()),
        Tokens::U32(count.clone().collect()),
        Tokens::I64(count.map(i64::from).collect()),
    ];
    for tokens in &pages {
        for marker in [500, -500, 1 << 31, (1 << 32) + 500, -(1 << 40)] {
            let mut infilling = infilling(1.0, false);
            infilling.tokens = vec![marker; 3];
            let mut plain = TokenPage {
                tokens: tokens.clone(),
                row_offsets: vec![0, 100],
                ..TokenPage::default()
            };
            let rows = infilling.pending(0, 1, 0);
            let rows = rows.iter().map(|row| infilling.arranged(row, 0..100));
            let mut page = TokenPage::default();
            arrange(&infilling, &mut plain, rows.collect(), &[], &mut page).unwrap();
            let written = page.tokens.wide(0..103).into_iter();
            let markers: Vec<i64> = written.filter(|token| !(0..100).contains(token)).collect();
            assert_eq!(markers, [marker; 3], "among {tokens:?}");
        }
    }
}

#[test]
fn lists_are_arranged_as_pages_are() {
    let (infilling, mut plain, mut page) = (infilling(0.5, true), page(), page());
    let pending = infilling.pending(77, 5, 9);
    let offsets = plain.row_offsets.clone();
    let rows = pending.iter().map(|row| {
        let [begin, end] = [0, 1].map(|more| offsets[row.row + more]);
        infilling.arranged(row, 0..end - begin)
    });
    let rows = rows.collect();
    let lists = offsets.windows(2).map(|pair| {
        let tokens = pair[0]..pair[1];
        (pair[0] < pair[1]).then(|| tokens.map(|token| Some(token as i32)).collect::<Vec<_>>())
    });
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    arrange(&infilling, &mut plain, rows, &[], &mut page).unwrap();
    let arranged_lists = arrange_lists(&infilling, &lists, 77, 9, None).unwrap();
    for row in 0..5 {
        let own = page.row_offsets[row] as usize..page.row_offsets[row + 1] as usize;
        let list = arranged_lists.as_list::<i32>().value(row);
        let list = list.as_primitive::<Int32Type>().values().iter();
        let list: Vec<i64> = list.map(|&token| token.into()).collect();
        assert_eq!(list, page.tokens.wide(own));
        assert_eq!(arranged_lists.is_null(row), list.is_empty());
    }
    let filled = arrange_lists(&infilling, &lists, 77, 9, Some(5)).unwrap();
    let filled = filled.as_list::<i32>().values().as_primitive::<Int32Type>();
    let marked = filled
        .values()
        .iter()
        .filter(|&&number| number == 5)
        .count();
    assert_eq!(marked, 4 * pending.len() + 1);
    let narrow = lists_of_i8();
    assert!(arrange_lists(&infilling, &narrow, 77, 9, None).is_err());
    let wide = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)])]);
    let wide: ArrayRef = Arc::new(wide);
    assert_eq!(
        arrange_lists(&infilling, &wide, 0, 0, None).unwrap().len(),
        1
    );
}

fn lists_of_i8() -> ArrayRef {
    let rows = vec![Some(vec![Some(1i8)]); 9];
    Arc::new(ListArray::from_iter_primitive::<
        arrow_array::types::Int8Type,
        _,
        _,
    >(rows))
}

#[test]
fn one_part_of_a_document_is_cut_where_sequences_hold_several() {
    let infilling = infilling(1.0, false);
    let (parts, mut seen) = ([0..2, 2..40, 40..63], [0; 3]);
    for document in 0..2000 {
        let [pending] = infilling.pending(document, 1, 0)[..] else {
            unreachable!()
        };
        let arranged = infilling.arranged_in(&pending, 60, parts.iter().cloned());
        let part = parts
            .iter()
            .position(|part| part.start == arranged.within.start);
        let part = part.unwrap();
        seen[part] += 1;
        assert_eq!(arranged.within.end + 3, parts[part].end);
        let inside = arranged.within;
        assert!(arranged.middle.start >= inside.start && arranged.middle.end <= inside.end);
    }
    assert_eq!(seen[0], 0); // No room for three markers.
    assert!((1150..1350).contains(&seen[1]), "{seen:?}"); // 38 of 61.
}
