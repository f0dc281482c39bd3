//! Every kind of column, written by the `parquet` crate's writer in many ways, read
//! back page by page: each page must be the slice of the whole column.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure must be loud")]

mod columns;
mod files;

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use columns::{ROWS, Random, columns};
use files::{open, properties, write};
use pagefeed_core::Kind;
use pagefeed_core::decode::{Paths, decode_array_by, decode_tokens};
use pagefeed_core::page::PageOpener;
use pagefeed_core::tokens::Tokens;

/// Views and dictionaries of text, which may be read as plain text.
fn as_read(array: &ArrayRef, data_type: &DataType) -> ArrayRef {
    use arrow_array::cast::AsArray;
    if array.data_type() == data_type {
        return array.clone();
    }
    let text: StringArray = match array.data_type() {
        DataType::Utf8View => array.as_string_view().iter().collect(),
        _ => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let values = dictionary.downcast_dict::<StringArray>().unwrap();
            values.into_iter().collect()
        }
    };
    Arc::new(text)
}

#[test]
fn every_page_is_the_slice_of_the_column() {
    let mut opener = PageOpener::new(true);
    for round in 0..12 {
        for (name, array) in columns(&mut Random(round as u64)) {
            let file = write(&array, properties(round, array.data_type()));
            let (schema, leaves) = open(&file);
            assert!(leaves.iter().any(|leaf| leaf.pages.len() > 2), "{name}");
            for (first, rows, _) in &leaves[0].pages {
                // The page alone, and a stretch that begins and ends inside of pages.
                let within = (
                    first + rows / 3,
                    (rows + 20).min(ROWS as u64 - first - rows / 3),
                );
                for (first, rows) in [(*first, *rows), within] {
                    let runs: Vec<_> = leaves
                        .iter()
                        .map(|leaf| leaf.run(first, first + rows))
                        .collect();
                    let expected = as_read(&array, schema.field.data_type());
                    let expected = expected.slice(first as usize, rows as usize);
                    for paths in [Paths::All, Paths::FallbackOnly] {
                        let found =
                            decode_array_by(&mut opener, &schema, &runs, first, rows, paths)
                                .unwrap_or_else(|error| panic!("{name}, {paths:?}: {error}"));
                        found.to_data().validate_full().unwrap();
                        assert_eq!(&*found, &*expected, "{name}, round {round}, {paths:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn tokens_are_what_arrays_hold() {
    let mut opener = PageOpener::default();
    for round in 0..12 {
        for (name, array) in columns(&mut Random(round as u64)) {
            let file = write(&array, properties(round, array.data_type()));
            let (_schema, leaves) = open(&file);
            let leaf = &_schema.leaves[0];
            for (first, rows, _) in &leaves[0].pages {
                let run = leaves[0].run(*first, first + rows);
                let tokens = decode_tokens(&mut opener, &run, None, leaf);
                let rows = array.slice(*first as usize, *rows as usize);
                match name {
                    "list"
                    | "list with null rows"
                    | "large list"
                    | "fixed-size list"
                    | "int32"
                    | "int32 with nulls"
                    | "int8"
                    | "uint16"
                    | "uint32"
                    | "int64" => {
                        assert_eq!(rows_of(&tokens.unwrap()), expected_rows(&rows), "{name}");
                    }
                    "uint64" => assert_eq!(tokens.unwrap_err().kind(), Kind::TokenRange),
                    "fixed-size list with nulls" | "list with null items" | "map" | "struct" => {}
                    _ => assert_eq!(tokens.unwrap_err().kind(), Kind::Unsupported, "{name}"),
                }
            }
        }
    }
}

fn rows_of(page: &pagefeed_core::tokens::TokenPage) -> Vec<Vec<i64>> {
    let values: Vec<i64> = match &page.tokens {
        Tokens::U16(values) => values.iter().map(|v| i64::from(*v)).collect(),
        Tokens::I32(values) => values.iter().map(|v| i64::from(*v)).collect(),
        Tokens::U32(values) => values.iter().map(|v| i64::from(*v)).collect(),
        Tokens::I64(values) => values.clone(),
    };
    let offsets = page.row_offsets.windows(2);
    offsets
        .map(|row| values[row[0] as usize..row[1] as usize].to_vec())
        .collect()
}

fn expected_rows(array: &ArrayRef) -> Vec<Vec<i64>> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    let integers = |array: &ArrayRef| -> Vec<i64> {
        match array.data_type() {
            DataType::Int8 => array
                .as_primitive::<Int8Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            DataType::UInt16 => array
                .as_primitive::<UInt16Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            DataType::Int32 => array
                .as_primitive::<Int32Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            DataType::UInt32 => array
                .as_primitive::<UInt32Type>()
                .iter()
                .flatten()
                .map(i64::from)
                .collect(),
            _ => array.as_primitive::<Int64Type>().iter().flatten().collect(),
        }
    };
    (0..array.len())
        .map(|row| match array.data_type() {
            _ if array.is_null(row) => Vec::new(),
            DataType::List(_) => integers(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => integers(&array.as_list::<i64>().value(row)),
            DataType::FixedSizeList(..) => integers(&array.as_fixed_size_list().value(row)),
            _ => integers(&array.slice(row, 1)),
        })
        .collect()
}

#[test]
fn damaged_files_give_errors_or_arrays_of_the_right_length_and_never_panic() {
    let mut opener = PageOpener::default();
    let mut random = Random(77);
    for (round, (name, array)) in columns(&mut Random(7)).into_iter().enumerate() {
        let file = write(&array, properties(round * 5, array.data_type()));
        let (schema, leaves) = open(&file);
        let rows = leaves[0].pages[0].1;
        let runs: Vec<_> = leaves.iter().map(|leaf| leaf.run(0, rows)).collect();
        for _ in 0..60 {
            let mut runs = runs.clone();
            let which = random.below(runs.len() as u64) as usize;
            let run = &mut runs[which];
            let dictionary = run.dictionary.clone().filter(|_| random.below(4) == 0);
            let mut bytes = dictionary.as_ref().unwrap_or(&run.data).to_vec();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            bytes.truncate(bytes.len() - (random.below(4) / 2) as usize);
            match dictionary {
                Some(_) => run.dictionary = Some(bytes.into()),
                None => run.data = bytes.into(),
            }
            for paths in [Paths::All, Paths::FallbackOnly] {
                if let Ok(array) = decode_array_by(&mut opener, &schema, &runs, 0, rows, paths) {
                    assert_eq!(array.len() as u64, rows, "{name}");
                }
            }
            let _ = decode_tokens(&mut opener, &runs[0], None, &schema.leaves[0]);
        }
    }
}
