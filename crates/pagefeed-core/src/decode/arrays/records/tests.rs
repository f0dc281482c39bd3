use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Fields};

use super::super::tests::schema;
use crate::codec::Codec;
use crate::decode::tests::{Random, StoredPage};
use crate::decode::{PageRun, Paths, decode_array_by};
use crate::error::{Kind, Result};
use crate::page::PageOpener;
use crate::schema::{ColumnSchema, Leaf};

/// Repetition and definition levels of a page.
type Levels<'a> = (&'a [u32], &'a [u32]);

fn run(leaf: &Leaf, pages: &[Levels<'_>]) -> PageRun {
    let stored = StoredPage {
        version_2: true,
        snappy: false,
        dictionary: false,
    };
    // A text of one letter, or a number.
    let value: &[u8] = match leaf.physical {
        parquet::basic::Type::BYTE_ARRAY => &[1, 0, 0, 0, 97],
        _ => &[7, 0, 0, 0],
    };
    let page = |(repetition, definition): &Levels<'_>| {
        let most = u32::from(leaf.max_definition.unsigned_abs());
        let count = definition.iter().filter(|&&level| level == most).count();
        let values = value.repeat(count);
        stored.data(leaf, repetition, definition, &values, &mut Random(1))
    };
    let begun = pages.iter().flat_map(|(repetition, _)| *repetition);
    PageRun {
        data: pages.iter().map(page).collect::<Vec<_>>().concat().into(),
        dictionary: None,
        codec: Codec::Uncompressed,
        starts_mid_record: false,
        first_row: 0,
        num_rows: begun.filter(|&&level| level == 0).count() as u64,
        tail_size: 0,
    }
}

/// Results of both ways to decode a column whose leaves have these pages.
fn decoded(schema: &ColumnSchema, leaves: &[&[Levels<'_>]]) -> [Result<ArrayRef>; 2] {
    let runs = schema.leaves.iter().zip(leaves);
    let runs: Vec<_> = runs.map(|(leaf, pages)| run(leaf, pages)).collect();
    [Paths::All, Paths::FallbackOnly].map(|paths| {
        let mut opener = PageOpener::default();
        decode_array_by(&mut opener, schema, &runs, 0, runs[0].num_rows, paths)
    })
}

fn assert_refused(schema: &ColumnSchema, leaves: &[&[Levels<'_>]]) {
    for found in decoded(schema, leaves) {
        let data_type = schema.field.data_type();
        let error = found.expect_err(&format!("{data_type}: {leaves:?}"));
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

fn assert_read(schema: &ColumnSchema, leaves: &[&[Levels<'_>]]) {
    let [first, second] = decoded(schema, leaves).map(Result::unwrap);
    first.to_data().validate_full().unwrap();
    second.to_data().validate_full().unwrap();
    assert_eq!(&first, &second);
}

const VALUES: [DataType; 3] = [DataType::Int32, DataType::Float32, DataType::Utf8];

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn fields<const N: usize>(fields: [(&str, DataType, bool); N]) -> DataType {
    let fields = fields.map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    DataType::Struct(Fields::from(fields.to_vec()))
}

#[test]
fn a_list_without_elements_does_not_go_on() {
    for data_type in VALUES {
        let schema = schema(list(data_type), true);
        assert_read(&schema, &[&[(&[0, 1, 0, 0], &[3, 2, 1, 0])]]);
        assert_read(&schema, &[&[(&[0, 0], &[3, 3]), (&[1, 0, 0], &[3, 1, 3])]]);
        for pages in [
            &[(&[0, 1, 0][..], &[3, 0, 3][..])][..],
            &[(&[0, 1, 0], &[3, 1, 3])],
            &[(&[0, 1, 0], &[1, 3, 3])],
            &[(&[0, 1, 0], &[0, 3, 3])],
            &[(&[0, 0], &[3, 1]), (&[1, 0], &[3, 3])],
            &[(&[0, 0], &[3, 0]), (&[1, 0], &[2, 3])],
            &[(&[0, 0], &[3, 3]), (&[1, 0], &[1, 3])],
        ] {
            assert_refused(&schema, &[pages]);
        }
    }
}

#[test]
fn an_inner_list_without_elements_does_not_go_on() {
    for data_type in VALUES {
        let schema = schema(list(list(data_type)), true);
        let pages: &[Levels<'_>] = &[(&[0, 1, 2, 0], &[3, 5, 5, 1]), (&[0, 1, 0], &[2, 4, 0])];
        assert_read(&schema, &[pages]);
        for pages in [
            &[(&[0, 2][..], &[3, 5][..])][..],
            &[(&[0, 2], &[5, 3])],
            &[(&[0, 2], &[2, 5])],
            &[(&[0, 1], &[1, 5])],
            &[(&[0, 1], &[5, 0])],
            &[(&[0, 0], &[5, 3]), (&[2, 0], &[5, 5])],
            &[(&[0, 0], &[5, 1]), (&[1, 0], &[5, 5])],
        ] {
            assert_refused(&schema, &[pages]);
        }
    }
}

#[test]
fn leaves_agree_about_the_structs_and_lists_they_share() {
    for data_type in VALUES {
        let both = fields([("a", data_type.clone(), true), ("b", data_type, true)]);
        let flat = schema(both.clone(), true);
        let rows: &[u32] = &[0, 0, 0];
        assert_read(&flat, &[&[(rows, &[2, 0, 1])], &[(rows, &[1, 0, 2])]]);
        for other in [&[2, 1, 2], &[2, 2, 2], &[0, 0, 2]] {
            assert_refused(&flat, &[&[(rows, &[2, 0, 2])], &[(rows, other)]]);
        }
        let lists = schema(list(both), true);
        let first: &[Levels<'_>] = &[(&[0, 1, 0, 0], &[4, 2, 4, 1])];
        assert_read(&lists, &[first, &[(&[0, 1, 0, 0], &[3, 2, 4, 1])]]);
        for other in [
            (&[0, 0, 1, 0], &[4, 2, 4, 1]),
            (&[0, 1, 0, 0], &[4, 2, 4, 0]),
            (&[0, 1, 0, 0], &[4, 4, 4, 1]),
        ] {
            assert_refused(&lists, &[first, &[(&other.0[..], &other.1[..])]]);
        }
    }
}

#[test]
fn a_required_struct_is_null_with_the_one_around_it() {
    for data_type in VALUES {
        let inner = fields([("leaf", data_type.clone(), false)]);
        let middle = fields([("c", inner, false)]);
        let schema = schema(fields([("b", middle, false)]), true);
        assert_read(&schema, &[&[(&[0, 0, 0], &[1, 0, 1])]]);
    }
}
