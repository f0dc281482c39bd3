//! Files of the `parquet` crate's writer: pages, rows and values are those written.

use std::fs;

use pagefeed_core::Kind;
use pagefeed_core::header::PageHeader;
use pagefeed_core::store::Store;
use parquet::file::properties::WriterVersion;

use crate::common::{
    Folder, batch, build_with, check_against, check_lookups, headers, records, write,
};
use crate::handmade::{HandMade, Part};

#[test]
fn every_way_of_writing_gives_the_rows_and_values_written() {
    let folder = Folder::new("ways");
    let batch = batch(4000);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for (offset_index, stats) in [(true, true), (true, false), (false, true)] {
            let path = folder.0.join("a.parquet");
            write(&path, &batch, version, offset_index, stats);
            let paths = vec![path.to_str().unwrap().to_string(); 2];
            for column in ["tokens", "nested", "text", "id"] {
                let indexed = build_with(&paths, column, true).unwrap();
                let walked = build_with(&paths, column, false).unwrap();
                let pages = records(&indexed);
                assert_eq!(
                    pages,
                    records(&walked),
                    "{column} {version:?} {offset_index}"
                );
                assert_eq!(indexed.fingerprint(), walked.fingerprint());
                assert!(pages.len() > 60, "{} pages", pages.len());
                check_against(&indexed, batch.column_by_name(column).unwrap(), 2);
                check_lookups(&indexed);
            }
        }
    }
}

#[test]
fn runs_hold_the_pages_and_the_dictionary() {
    let folder = Folder::new("runs");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(4000), WriterVersion::PARQUET_1_0, true, true);
    let store = Store::new(4);
    let index = build_with(&[path.to_str().unwrap().to_string()], "tokens", true).unwrap();
    let bytes = fs::read(&path).unwrap();
    for (number, page) in (0..).zip(records(&index)) {
        let [run] = &index.read_runs(&store, number, true).unwrap()[..] else {
            panic!("one leaf, one run");
        };
        let range = page.offset as usize..(page.offset + page.compressed_size) as usize;
        assert_eq!(run.data, bytes[range]);
        assert_eq!(
            (run.first_row, run.num_rows),
            (page.first_row_in_group, page.num_rows)
        );
        let dictionary = page.dictionary.expect("the writer's default");
        let range = dictionary.start as usize..dictionary.end as usize;
        assert_eq!(run.dictionary.as_ref().unwrap(), &bytes[range]);
        let runs = index.read_runs(&store, number, false).unwrap();
        assert!(runs[0].dictionary.is_none());
        assert_eq!(runs[0].data, run.data);
    }
}

#[test]
fn a_struct_is_read_by_the_rows_of_its_largest_leaf() {
    let folder = Folder::new("structs");
    let path = folder.0.join("a.parquet");
    let batch = batch(4000);
    write(&path, &batch, WriterVersion::PARQUET_1_0, true, true);
    let paths = [path.to_str().unwrap().to_string()];
    let index = build_with(&paths, "pair", true).unwrap();
    assert_eq!(index.schema(0).leaves.len(), 2);
    assert_eq!(
        records(&index),
        records(&build_with(&paths, "pair.text", true).unwrap())
    );
    let store = Store::new(4);
    for (number, page) in (0..).zip(records(&index)) {
        let runs = index.read_runs(&store, number, true).unwrap();
        for run in &runs {
            assert!(run.first_row <= page.first_row_in_group);
            assert!(run.first_row + run.num_rows >= page.first_row_in_group + page.num_rows);
            let levels: usize = headers(&run.data)
                .iter()
                .filter_map(PageHeader::num_levels)
                .sum();
            assert_eq!(
                levels as u64, run.num_rows,
                "flat leaves have a level per row"
            );
        }
    }
}

#[test]
fn lookups_out_of_range_are_refused() {
    let folder = Folder::new("range");
    let path = folder.file("a", &HandMade::new(1, vec![Part::V1(vec![0, 1])]).bytes());
    let index = build_with(&[path], "tokens", true).unwrap();
    let mut out = [0];
    for result in [
        index.look_up("pages_of_rows", &[1], &mut out),
        index.look_up("pages_of_rows", &[-1], &mut out),
        index.look_up("pages_of_values", &[2], &mut out),
        index.look_up("first_rows", &[2], &mut out),
        index.look_up("first_rows", &[0, 1], &mut out),
        index.page(1).map(drop),
        index.read_runs(&Store::new(1), 1, true).map(drop),
    ] {
        assert_eq!(result.unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn the_fingerprint_is_of_the_contents() {
    let folder = Folder::new("fingerprint");
    let bytes = |levels: Vec<u8>| HandMade::new(1, vec![Part::V1(levels)]).bytes();
    let one = folder.file("one", &bytes(vec![0, 1]));
    let two = folder.file("two", &bytes(vec![0, 1, 1]));
    let copy = folder.file("copy", &bytes(vec![0, 1]));
    let print = |paths: &[&String]| {
        let paths: Vec<_> = paths.iter().map(|path| path.to_string()).collect();
        build_with(&paths, "tokens", true).unwrap().fingerprint()
    };
    assert_eq!(print(&[&one, &two]), print(&[&copy, &two]));
    assert_ne!(print(&[&one, &two]), print(&[&two, &one]));
    assert_ne!(print(&[&one]), print(&[&one, &two]));
    assert_eq!(print(&[&one]).len(), 32);
}
