use super::*;
use crate::Kind;
use crate::decode::tests::{LIST, Random, Rows, encode_lists, leaf, list_leaf, random_rows, shred};

const WIDE: &str = "optional group tokens (LIST) { repeated group list {
    optional int64 element; } }";

fn values(tokens: &Tokens) -> Vec<i64> {
    match tokens {
        Tokens::U16(values) => values.iter().map(|&v| v.into()).collect(),
        Tokens::I32(values) => values.iter().map(|&v| v.into()).collect(),
        Tokens::U32(values) => values.iter().map(|&v| v.into()).collect(),
        Tokens::I64(values) => values.clone(),
    }
}

fn rows_of(page: &TokenPage) -> Vec<Vec<i64>> {
    let values = values(&page.tokens);
    let offsets = page.row_offsets.windows(2);
    assert_eq!(page.row_offsets[0], 0);
    assert_eq!(*page.row_offsets.last().unwrap() as usize, values.len());
    offsets
        .map(|row| values[row[0] as usize..row[1] as usize].to_vec())
        .collect()
}

/// The first and the last row of pages `from..to`, the last cut where they end.
fn expected(rows: &Rows, run: &PageRun, levels: usize) -> Vec<Vec<i64>> {
    let mut joined: Vec<Vec<i64>> = rows
        .iter()
        .map(|row| row.iter().flatten().flatten().copied().collect())
        .collect();
    joined.truncate((run.first_row + run.num_rows) as usize);
    // Tokens of the last row that lie after the pages.
    let all: usize = shred(&rows[..joined.len()].to_vec()).2.len();
    let definition = shred(rows).1;
    let before = definition[..levels].iter().filter(|&&level| level == 3);
    if let Some(last) = joined.last_mut() {
        last.truncate(last.len() - (all - before.count().min(all)));
    }
    joined.split_off(run.first_row as usize)
}

#[test]
fn runs_of_any_pages_give_the_rows_that_begin_in_them() {
    let mut random = Random(11);
    let mut opener = PageOpener::default();
    let mut page = TokenPage::default();
    for round in 0..400 {
        let leaf = leaf(if round % 3 == 0 { WIDE } else { LIST }, 0);
        let bias = [0, -5, 70_000][round % 3];
        let entries = 1 + random.below(300) as i64;
        let dictionary: Vec<i64> = (0..entries).map(|i| i * 7 + bias).collect();
        let rows = random_rows(&dictionary, false, &mut random);
        let encoded = encode_lists(&rows, &leaf, &dictionary, &mut random);
        let num_pages = encoded.pages.len() as u64;
        let from = random.below(num_pages) as usize;
        let to = from + 1 + random.below(num_pages - from as u64) as usize;
        let run = encoded.run(&rows, from, to);
        decode_tokens_into(&mut opener, &run, None, &leaf, &mut page).unwrap();
        assert_eq!(rows_of(&page), expected(&rows, &run, encoded.starts[to]));

        // Pages after them, for the end of the last row: it ends where the next begins.
        let end = from + 1 + random.below((to - from) as u64) as usize;
        let mut fewer = run.clone();
        fewer.num_rows = encoded.run(&rows, from, end).num_rows;
        fewer.tail_size = encoded.pages[end..to].iter().map(Vec::len).sum();
        let page = decode_tokens(&mut opener, &fewer, None, &leaf).unwrap();
        let all = expected(&rows, &run, encoded.starts[to]);
        assert_eq!(rows_of(&page), all[..fewer.num_rows as usize]);
        // One row more or less is an error, and so is the wrong kind of beginning.
        for mut wrong in [run.clone(), fewer] {
            wrong.num_rows += 1;
            assert!(decode_tokens(&mut opener, &wrong, None, &leaf).is_err());
            if wrong.num_rows > 2 {
                wrong.num_rows -= 2;
                assert!(decode_tokens(&mut opener, &wrong, None, &leaf).is_err());
            }
        }
        if run.num_rows > 0 {
            let mut other = run.clone();
            other.starts_mid_record ^= true;
            assert!(decode_tokens(&mut opener, &other, None, &leaf).is_err());
        }
    }
}

#[test]
fn a_null_token_is_an_error_that_names_its_row() {
    let rows = vec![
        Some(vec![Some(1)]),
        None,
        Some(vec![Some(1), None, Some(1)]),
        Some(vec![]),
    ];
    let (leaf, mut random) = (list_leaf(), Random(5));
    let encoded = encode_lists(&rows, &leaf, &[1], &mut random);
    let last = encoded.pages.len();
    let run = encoded.run(&rows, 0, last);
    let mut opener = PageOpener::default();
    let error = decode_tokens(&mut opener, &run, None, &leaf).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.message().contains("row 2 "), "{error}");
}

#[test]
fn damaged_pages_never_panic_and_never_pass_for_more_rows() {
    let (leaf, mut random) = (list_leaf(), Random(6));
    let mut opener = PageOpener::default();
    for _ in 0..30 {
        let rows = random_rows(&[3, 4, 5], false, &mut random);
        let encoded = encode_lists(&rows, &leaf, &[3, 4, 5], &mut random);
        let run = encoded.run(&rows, 0, encoded.pages.len());
        for _ in 0..300 {
            let mut run = run.clone();
            let mut bytes = run.data.to_vec();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(bytes.len() - random.below(3) as usize);
            run.data = bytes.into();
            if let Ok(page) = decode_tokens(&mut opener, &run, None, &leaf) {
                assert_eq!(rows_of(&page).len(), rows.len());
            }
        }
    }
}

#[test]
fn dictionaries_are_as_narrow_as_their_entries() {
    let mut opener = PageOpener::default();
    for (entries, narrow) in [
        (vec![0, 65_535], true),
        (vec![0, 65_536], false),
        (vec![-1], false),
    ] {
        let rows = vec![Some(entries.iter().map(|&v| Some(v)).collect())];
        for fields in [LIST, WIDE] {
            let leaf = leaf(fields, 0);
            let encoded = encode_lists(&rows, &leaf, &entries, &mut Random(1));
            let page = &encoded.dictionary;
            let codec = encoded.run(&rows, 0, 1).codec;
            let decoded = crate::decode::decode_dictionary(&mut opener, page, codec, &leaf);
            let is_narrow = matches!(decoded.unwrap().entries(), Tokens::U16(_));
            assert_eq!(is_narrow, narrow);
        }
    }
}

#[test]
fn a_dictionary_of_all_numbers_up_to_one_is_not_kept() {
    let (mut random, mut opener) = (Random(12), PageOpener::default());
    for (bias, are_indices) in [(0, true), (1, false)] {
        for num_entries in [1, 300, 65_536, 70_000] {
            let dictionary: Vec<i64> = (0..num_entries).map(|index| index + bias).collect();
            for fields in [LIST, WIDE] {
                let leaf = leaf(fields, 0);
                let rows = random_rows(&dictionary, false, &mut random);
                let encoded = encode_lists(&rows, &leaf, &dictionary, &mut random);
                let last = encoded.pages.len();
                let run = encoded.run(&rows, 0, last);
                let page = &encoded.dictionary;
                let decoded = crate::decode::decode_dictionary(&mut opener, page, run.codec, &leaf);
                let decoded = decoded.unwrap();
                let num_indices = are_indices.then_some(num_entries as usize);
                assert_eq!(decoded.num_indices(), num_indices);
                assert_eq!(decoded.entries().is_empty(), are_indices);
                let page = decode_tokens(&mut opener, &run, None, &leaf).unwrap();
                assert_eq!(rows_of(&page), expected(&rows, &run, encoded.starts[last]));
            }
        }
    }
}

#[test]
fn columns_that_are_no_tokens_are_refused() {
    for fields in [
        "required binary x;",
        "required double x;",
        "required int32 x (DATE);",
        "required int64 x (TIMESTAMP(MILLIS,true));",
        "required int32 x (DECIMAL(5,2));",
    ] {
        let error = Storage::of(&leaf(fields, 0)).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{fields}");
    }
    for (fields, storage) in [
        ("required int32 x (INTEGER(8,true));", Storage::I32),
        ("required int32 x (UINT_16);", Storage::U32),
        ("required int64 x (INTEGER(64,false));", Storage::U64),
        ("required int64 x;", Storage::I64),
    ] {
        assert_eq!(Storage::of(&leaf(fields, 0)).unwrap(), storage);
    }
}
