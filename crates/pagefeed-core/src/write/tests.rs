//! What is written is read back by the parquet crate, whatever it was given at once.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::ListFile;
use crate::codec::Codec;

const LISTS: &str = "
    required group input_ids (LIST) {
        repeated group list { required int32 element (INTEGER(16, false)); }
    }
    required group labels (LIST) { repeated group list { required int32 element; } }";
const OTHERS: &str = "required binary url (STRING);";
const CODECS: [Codec; 4] = [
    Codec::Uncompressed,
    Codec::Snappy,
    Codec::Zstd,
    Codec::Lz4Raw,
];

/// A file with a column of texts, if `rows` are given, else one without rows.
fn other_file(fields: &str, rows: Option<&[ByteArray]>) -> Bytes {
    let schema = parse_message_type(&format!("message schema {{ {fields} }}")).unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let (schema, properties) = (Arc::new(schema), Arc::new(properties.build()));
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    if let Some(rows) = rows {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<ByteArrayType>();
        typed.write_batch(rows, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap().into()
}

fn rows() -> Vec<Vec<u32>> {
    let counts = [0, 0, 1, 700, 2, 0, 3, 64, 65, 1, 0].repeat(9);
    let row = |(number, count): (usize, usize)| {
        (0..count)
            .map(|n| ((number * 131 + n * 7919) % 65_536) as u32)
            .collect()
    };
    counts.into_iter().enumerate().map(row).collect()
}

/// Writes rows in two row groups, some at once.
fn written(codec: Codec, at_once: usize, num_threads: usize) -> Bytes {
    let empty = other_file(&format!("{LISTS} {OTHERS}"), None);
    let mut file = ListFile::new(empty, 2, codec, 512).unwrap();
    let (mut bytes, rows) = (Vec::new(), rows());
    for group in rows.chunks(rows.len().div_ceil(2)) {
        for some in group.chunks(at_once) {
            let (values, counts) = (some.concat(), some.iter().map(|row| row.len() as u32));
            let counts: Vec<u32> = counts.collect();
            let turned: Vec<u32> = values.iter().map(|value| !value).collect();
            file.append(0, &values, &counts, num_threads).unwrap();
            file.append(1, &turned, &counts, num_threads).unwrap();
            file.take(|some| bytes.extend_from_slice(some));
        }
        assert!(file.num_levels() > 2 * group.len());
        let urls: Vec<_> = group
            .iter()
            .map(|row| format!("{}", row.len()).as_str().into())
            .collect();
        file.end_group(Some(other_file(OTHERS, Some(&urls))))
            .unwrap();
        assert_eq!(file.num_levels(), 0);
    }
    file.end().unwrap();
    file.take(|some| bytes.extend_from_slice(some));
    bytes.into()
}

/// The lists of a column of a row group.
fn lists(file: &SerializedFileReader<Bytes>, group: usize, column: usize) -> Vec<Vec<u32>> {
    let ColumnReader::Int32ColumnReader(mut reader) = file
        .get_row_group(group)
        .unwrap()
        .get_column_reader(column)
        .unwrap()
    else {
        panic!("no column of integers");
    };
    let (mut values, mut repetitions, mut definitions) = (vec![], vec![], vec![]);
    reader
        .read_records(
            1 << 20,
            Some(&mut definitions),
            Some(&mut repetitions),
            &mut values,
        )
        .unwrap();
    let (mut found, mut values): (Vec<Vec<u32>>, _) = (vec![], values.into_iter());
    for (repetition, definition) in repetitions.into_iter().zip(definitions) {
        if repetition == 0 {
            found.push(vec![]);
        }
        if definition == 1 {
            let value = values.next().unwrap();
            found.last_mut().unwrap().push(value.cast_unsigned());
        }
    }
    found
}

#[test]
fn rows_come_back_whatever_was_given_at_once() {
    let expected = rows();
    for codec in CODECS {
        let whole = written(codec, 1000, 1);
        for (at_once, num_threads) in [(1, 1), (7, 1), (1000, 3)] {
            assert_eq!(written(codec, at_once, num_threads), whole);
        }
        let file = SerializedFileReader::new(whole).unwrap();
        let found = [lists(&file, 0, 0), lists(&file, 1, 0)].concat();
        assert_eq!(found, expected, "{codec:?}");
        let turned = [lists(&file, 0, 1), lists(&file, 1, 1)].concat();
        assert!(
            turned.iter().flatten().eq(expected
                .iter()
                .flatten()
                .map(|v| !v)
                .collect::<Vec<_>>()
                .iter())
        );
        let urls = file.get_row_iter(None).unwrap().map(|row| {
            let row = row.unwrap();
            let (_, url) = row.get_column_iter().nth(2).unwrap();
            url.to_string()
        });
        let lengths = expected.iter().map(|row| format!("\"{}\"", row.len()));
        assert!(urls.eq(lengths));
    }
}

#[test]
fn footers_tell_of_every_page() {
    let bytes = written(Codec::Zstd, 1000, 1);
    let found = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&bytes)
        .unwrap();
    let created_by = found.file_metadata().created_by().unwrap();
    assert!(created_by.starts_with("pagefeed version "));
    let group = found.row_group(0);
    let pages = found.page_index_for_row_group(0);
    let (offsets, index) = (
        pages.offset_index(0).unwrap(),
        pages.column_index(0).unwrap(),
    );
    assert!(offsets.page_locations.len() > 5);
    assert!(pages.offset_index(2).is_some());
    for (number, location) in offsets.page_locations.iter().enumerate() {
        let end = location.offset as usize + location.compressed_page_size as usize;
        let header = crate::header::PageHeader::parse(&bytes[location.offset as usize..end]);
        let header = header.unwrap().unwrap();
        let page = &bytes[location.offset as usize + header.header_size..end];
        assert_eq!(header.crc, Some(crc32fast::hash(page)), "page {number}");
    }
    let levels = |histogram: Option<&[i64]>| histogram.unwrap().to_vec();
    let repetitions = levels(index.repetition_level_histogram(1));
    let next = &offsets.page_locations[1..=2];
    assert_eq!(
        repetitions[0],
        next[1].first_row_index - next[0].first_row_index
    );
    let half = rows().len().div_ceil(2);
    let values: usize = rows()[..half].iter().map(Vec::len).sum();
    let empty = rows()[..half].iter().filter(|row| row.is_empty()).count();
    let column = group.column(0);
    let definitions = column.definition_level_histogram().unwrap();
    assert_eq!(definitions.values(), [empty as i64, values as i64]);
    assert_eq!(column.num_values(), (values + empty) as i64);
    // Without a sign in the one, with a sign in the other.
    let least = |column: usize| {
        let statistics = group.column(column).statistics().unwrap();
        let bytes = statistics.min_bytes_opt().unwrap();
        i32::from_le_bytes(bytes.try_into().unwrap())
    };
    let all = rows()[..half].concat();
    assert_eq!(least(0), *all.iter().min().unwrap() as i32);
    assert_eq!(least(1), !(*all.iter().max().unwrap() as i32));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let empty = other_file(&format!("{LISTS} {OTHERS}"), None);
    assert!(ListFile::new(empty.clone(), 3, Codec::Zstd, 512).is_err());
    assert!(ListFile::new(empty.clone(), 4, Codec::Zstd, 512).is_err());
    let mut file = ListFile::new(empty, 2, Codec::Zstd, 512).unwrap();
    assert!(file.append(0, &[1, 2], &[3], 1).is_err());
    assert!(file.append(1, &[1, 2], &[1], 1).is_err());
    assert!(file.append(2, &[1, 2], &[2], 1).is_err());
    assert!(ListFile::new(Bytes::from_static(b"PAR1"), 1, Codec::Zstd, 512).is_err());
}
