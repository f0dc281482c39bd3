use crate::error::Kind;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;

use super::*;
use crate::codec::Codec;
use crate::decode::tests::{Random, Rows, StoredPage, encode_hybrid, encode_lists, random_rows};
use crate::schema::Leaf;

/// The schema of a column as the crate's writer stores it.
pub(super) fn schema(data_type: DataType, nullable: bool) -> ColumnSchema {
    let field = Field::new("column", data_type, nullable);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::new_empty(schema.clone());
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.into_inner().unwrap();
    let end = file.len() - 8;
    let size = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    ColumnSchema::resolve(&file[end - size..end], "column", false).unwrap()
}

fn list_array(rows: &Rows) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for row in rows {
        for item in row.iter().flatten() {
            builder.values().append_option(item.map(|v| v as i32));
        }
        builder.append(row.is_some());
    }
    Arc::new(builder.finish())
}

#[test]
fn records_that_are_split_across_pages_are_joined() {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let schema = schema(DataType::List(item), true);
    let leaf = &schema.leaves[0];
    assert_eq!((leaf.max_repetition, leaf.max_definition), (1, 3));
    let mut random = Random(21);
    let mut opener = PageOpener::default();
    let dictionary: Vec<i64> = (0..40).map(|i| i * 3 - 20).collect();
    for round in 0..200 {
        let rows = random_rows(&dictionary, round % 2 == 0, &mut random);
        let expected = list_array(&rows);
        let encoded = encode_lists(&rows, leaf, &dictionary, &mut random);
        let last = encoded.pages.len();
        let from = random.below(last as u64) as usize;
        // To the end of the last page: its record is complete.
        let run = encoded.run(&rows, from, last);
        if run.num_rows == 0 {
            continue;
        }
        let skip = random.below(run.num_rows);
        let (first, num_rows) = (run.first_row + skip, run.num_rows - skip);
        for paths in [Paths::All, Paths::FallbackOnly] {
            let runs = std::slice::from_ref(&run);
            let found = decode_array_by(&mut opener, &schema, runs, first, num_rows, paths);
            let expected = expected.slice(first as usize, num_rows as usize);
            assert_eq!(&*found.unwrap(), &*expected, "{paths:?}");
        }
        let mut other = run.clone();
        other.starts_mid_record ^= true;
        for paths in [Paths::All, Paths::FallbackOnly] {
            let runs = std::slice::from_ref(&other);
            let found = decode_array_by(&mut opener, &schema, runs, first, num_rows, paths);
            assert_eq!(found.unwrap_err().kind(), Kind::Corrupt);
        }
    }
}

fn plain(strings: &[&[u8]]) -> Vec<u8> {
    let stored = strings.iter().map(|string| {
        let length = string.len() as u32;
        [&length.to_le_bytes()[..], string].concat()
    });
    stored.collect::<Vec<_>>().concat()
}

/// A run of one page of required strings, PLAIN or by indices of 8 bits.
fn strings_run(leaf: &Leaf, strings: &[&[u8]], indices: Option<&[u8]>) -> PageRun {
    let page = StoredPage {
        version_2: false,
        snappy: true,
        dictionary: indices.is_some(),
    };
    let (count, values) = match indices {
        Some(indices) => {
            // One group of eight is enough for the tests.
            let mut group = vec![8, 1 << 1 | 1];
            group.extend(indices);
            (indices.len(), group)
        }
        None => (strings.len(), plain(strings)),
    };
    let levels = vec![0; count];
    PageRun {
        data: page
            .data(leaf, &levels, &levels, &values, &mut Random(0))
            .into(),
        dictionary: Some(page.dictionary(strings.len(), &plain(strings)).into()),
        codec: Codec::Snappy,
        starts_mid_record: false,
        first_row: 0,
        num_rows: count as u64,
        tail_size: 0,
    }
}

#[test]
fn lists_of_texts_hold_the_rows_they_should() {
    let item = Arc::new(Field::new_list_field(DataType::Utf8, false));
    let schema = schema(DataType::List(item), false);
    let leaf = &schema.leaves[0];
    let stored = StoredPage {
        version_2: true,
        snappy: true,
        dictionary: false,
    };
    let page = |repetition: &[u32], texts: &[&[u8]]| {
        let definition = vec![1; repetition.len()];
        stored.data(leaf, repetition, &definition, &plain(texts), &mut Random(0))
    };
    // Two rows, and after them the end of the second.
    let body = page(&[0, 1, 0], &[b"a", b"b", b"c"]);
    let tail = page(&[1, 0], &[b"d", b"e"]);
    let mut opener = PageOpener::default();
    let mut decode = |num_rows, wanted, paths| {
        let run = PageRun {
            data: [body.clone(), tail.clone()].concat().into(),
            dictionary: None,
            codec: Codec::Snappy,
            starts_mid_record: false,
            first_row: 0,
            num_rows,
            tail_size: tail.len(),
        };
        decode_array_by(&mut opener, &schema, &[run], 0, wanted, paths)
    };
    for paths in [Paths::All, Paths::FallbackOnly] {
        for wanted in [1, 2] {
            let found = decode(2, wanted, paths).unwrap();
            assert_eq!(found.len() as u64, wanted);
            for wrong in [1, 3] {
                let error = decode(wrong, wanted, paths).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{wrong} rows, {paths:?}");
            }
        }
    }
}

#[test]
fn texts_must_be_utf_8_one_by_one() {
    let schema = schema(DataType::Utf8, false);
    let leaf = &schema.leaves[0];
    let whole = "\u{4e16}".as_bytes();
    let halves: [&[u8]; 2] = [&whole[..1], &whole[1..]];
    let mut opener = PageOpener::default();
    let mut decode = |strings: &[&[u8]], indices, paths| {
        let run = strings_run(leaf, strings, indices);
        let rows = run.num_rows;
        decode_array_by(&mut opener, &schema, &[run], 0, rows, paths)
    };
    for paths in [Paths::All, Paths::FallbackOnly] {
        for indices in [None, Some(&[1u8, 0][..])] {
            // Both halves joined are UTF-8, neither is.
            let error = decode(&halves, indices, paths).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(decode(&[b"\xff", b"a"], indices, paths).is_err());
            assert!(decode(&[whole, b"a"], indices, paths).is_ok());
        }
    }
}

#[test]
fn dictionary_entries_in_sequence_are_taken_as_they_are() {
    let schema = schema(DataType::Utf8, false);
    let entries: [&[u8]; 4] = [b"a", b"", b"ccc", b"dd"];
    let mut opener = PageOpener::default();
    for indices in [
        &[0, 1, 2, 3][..],
        &[1, 2, 3],
        &[1, 2],
        &[3, 2, 1, 0],
        &[2, 2],
        &[0],
    ] {
        let run = strings_run(&schema.leaves[0], &entries, Some(indices));
        let rows = indices.len() as u64;
        let found = decode_array(&mut opener, &schema, &[run], 0, rows).unwrap();
        let texts = indices
            .iter()
            .map(|&i| std::str::from_utf8(entries[usize::from(i)]).unwrap());
        let expected: StringArray = texts.map(Some).collect();
        found.to_data().validate_full().unwrap();
        assert_eq!(&*found, &expected as &dyn Array);
    }
    for indices in [&[1, 2, 3, 4][..], &[4], &[0, 200]] {
        let run = strings_run(&schema.leaves[0], &entries, Some(indices));
        let rows = indices.len() as u64;
        for paths in [Paths::All, Paths::FallbackOnly] {
            let runs = std::slice::from_ref(&run);
            assert!(decode_array_by(&mut opener, &schema, runs, 0, rows, paths).is_err());
        }
    }
}

#[test]
fn a_missing_dictionary_is_an_error() {
    let schema = schema(DataType::Utf8, false);
    let mut run = strings_run(&schema.leaves[0], &[b"a"], Some(&[0]));
    run.dictionary = None;
    for paths in [Paths::All, Paths::FallbackOnly] {
        let runs = std::slice::from_ref(&run);
        let error = decode_array_by(&mut PageOpener::default(), &schema, runs, 0, 1, paths);
        assert_eq!(error.unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn few_bytes_that_claim_to_be_a_great_many_texts_are_refused() {
    let schema = schema(DataType::LargeUtf8, false);
    let leaf = &schema.leaves[0];
    let long = vec![b'a'; 1 << 20];
    let mut run = strings_run(leaf, &[&long], Some(&[0]));
    // 100 million times the same text of one mebibyte, by one run of indices.
    let page = StoredPage {
        version_2: false,
        snappy: false,
        dictionary: true,
    };
    let count = 100_000_000usize;
    run.codec = Codec::Uncompressed;
    run.num_rows = count as u64;
    run.dictionary = Some(page.dictionary(1, &plain(&[&long])).into());
    let indices = [0, 0x80, 0x84, 0xaf, 0x5f];
    run.data = page.claim(leaf, count, &indices).into();
    for paths in [Paths::All, Paths::FallbackOnly] {
        let runs = std::slice::from_ref(&run);
        let rows = count as u64;
        let error = decode_array_by(&mut PageOpener::default(), &schema, runs, 0, rows, paths);
        assert_eq!(error.unwrap_err().kind(), Kind::Limit, "{paths:?}");
    }
}

/// Strings large enough that their page's memory becomes the array's.
fn large_strings(random: &mut Random) -> Vec<Vec<u8>> {
    let mut string = || match 30 + random.below(6000) as usize {
        length if length % 3 == 0 => "\u{4e16}\u{754c} ".repeat(length / 7).into_bytes(),
        length if length % 3 == 1 => vec![b'a'; length / 2],
        length => (0..length).map(|_| b' ' + random.below(90) as u8).collect(),
    };
    (0..150).map(|_| string()).collect()
}

/// Decodes all rows of a page by every path, which must agree; the error if there is
/// one.
fn decode_all(schema: &ColumnSchema, run: &PageRun) -> Result<ArrayRef> {
    let mut opener = PageOpener::default();
    let mut decode = |paths| {
        let runs = std::slice::from_ref(run);
        decode_array_by(&mut opener, schema, runs, 0, run.num_rows, paths)
    };
    let expected = decode(Paths::FallbackOnly);
    for _ in 0..2 {
        let found = decode(Paths::All);
        assert_eq!(found.is_ok(), expected.is_ok());
        if let (Ok(found), Ok(expected)) = (&found, &expected) {
            found.to_data().validate_full().unwrap();
            assert_eq!(found, expected);
        }
    }
    decode(Paths::All)
}

#[test]
fn large_texts_become_the_same_arrays_where_they_lie() {
    let mut random = Random(5);
    let strings = large_strings(&mut random);
    let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
    let count = strings.len() as u32;
    for (nullable, version_2, snappy) in [
        (false, false, true),
        (true, false, true),
        (true, true, true),
        (false, true, false),
        (true, false, false),
    ] {
        let schema = schema(DataType::Utf8, nullable);
        let leaf = &schema.leaves[0];
        let mut check = |indices: Option<Vec<u32>>, null: Option<usize>| {
            let page = StoredPage {
                version_2,
                snappy,
                dictionary: indices.is_some(),
            };
            let values = match &indices {
                Some(indices) => [vec![8], encode_hybrid(indices, 8, &mut random)].concat(),
                None => plain(&slices),
            };
            let num_values = indices.map_or(slices.len(), |indices| indices.len());
            let mut definition = vec![u32::from(nullable); num_values];
            if let Some(at) = null.filter(|_| nullable) {
                definition.insert(at, 0);
            }
            let repetition = vec![0; definition.len()];
            let data = page.data(leaf, &repetition, &definition, &values, &mut random);
            let run = PageRun {
                data: data.into(),
                dictionary: Some(page.dictionary(slices.len(), &plain(&slices)).into()),
                codec: if snappy {
                    Codec::Snappy
                } else {
                    Codec::Uncompressed
                },
                starts_mid_record: false,
                first_row: 0,
                num_rows: definition.len() as u64,
                tail_size: 0,
            };
            let array = decode_all(&schema, &run).unwrap();
            assert_eq!(array.len(), definition.len());
            let mut opener = PageOpener::default();
            let fewer = run.num_rows - 1;
            decode_array(&mut opener, &schema, std::slice::from_ref(&run), 0, fewer).unwrap();
            for num_rows in [run.num_rows.max(2) - 1, run.num_rows + 1] {
                if num_rows == run.num_rows {
                    continue;
                }
                let wrong = PageRun {
                    num_rows,
                    ..run.clone()
                };
                let error = decode_all(&schema, &wrong).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt);
            }
        };
        for null in [None, Some(0), Some(70)] {
            check(None, null);
            check(Some((0..count).collect()), null);
        }
        for sequence in [1..count, 50..count, 0..count - 9, 120..count, 7..8] {
            check(Some(sequence.collect()), None);
        }
        check(Some((0..count).rev().collect()), None);
        check(Some((0..count).chain(0..5).collect()), None);
        check(
            Some((0..count).map(|i| i ^ u32::from(i == 149)).collect()),
            None,
        );
    }
}

#[test]
fn large_texts_that_are_damaged_are_refused() {
    let mut random = Random(6);
    let schema = schema(DataType::Utf8, false);
    let leaf = &schema.leaves[0];
    let strings = large_strings(&mut random);
    let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
    let whole = plain(&slices);
    let decode = |values: &[u8], in_dictionary: bool| {
        let page = StoredPage {
            version_2: false,
            snappy: true,
            dictionary: in_dictionary,
        };
        let levels = vec![0; slices.len()];
        let mut random = Random(7);
        let indices = (0..slices.len() as u32).collect::<Vec<_>>();
        let indices = [vec![8], encode_hybrid(&indices, 8, &mut random)].concat();
        let data = if in_dictionary { &indices } else { values };
        let run = PageRun {
            data: page.data(leaf, &levels, &levels, data, &mut random).into(),
            dictionary: Some(page.dictionary(slices.len(), values).into()),
            codec: Codec::Snappy,
            starts_mid_record: false,
            first_row: 0,
            num_rows: slices.len() as u64,
            tail_size: 0,
        };
        decode_all(&schema, &run)
    };
    for in_dictionary in [false, true] {
        assert!(decode(&whole, in_dictionary).is_ok());
        let error = decode(&whole[..whole.len() - 1], in_dictionary).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        for at in [4, 5 + slices[0].len() + 4, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] = 0xff; // Never in UTF-8.
            let error = decode(&damaged, in_dictionary).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "byte {at}");
        }
        let mut damaged = whole.clone();
        damaged[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(decode(&damaged, in_dictionary).is_err());
    }
}
