//! The parquet crate reads written files back, for values given in any portions.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData,
};
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

/// Rows of numbers, of which few are above `num_values`, if that is not 0.
fn rows_below(num_values: u32) -> Vec<Vec<u32>> {
    let mut rows = rows();
    for row in rows.iter_mut().filter(|row| row.len() != 65) {
        row.iter_mut().for_each(|value| *value %= num_values);
    }
    rows
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
    written_below(0, rows(), codec, at_once, num_threads)
}

fn written_below(
    num_values: u32,
    rows: Vec<Vec<u32>>,
    codec: Codec,
    at_once: usize,
    num_threads: usize,
) -> Bytes {
    let empty = other_file(&format!("{LISTS} {OTHERS}"), None);
    let mut file = ListFile::new(empty, 2, codec, 512, num_values).unwrap();
    let mut bytes = Vec::new();
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

/// Encodings of the data pages of the first list, in each row group.
fn encodings(bytes: &Bytes) -> Vec<Vec<(PageType, Encoding, i32)>> {
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let found = ParquetMetaDataReader::new()
        .with_metadata_options(Some(options))
        .parse_and_finish(bytes)
        .unwrap();
    let of_group = |group: &RowGroupMetaData| {
        let stats = group.column(0).page_encoding_stats().unwrap();
        stats
            .iter()
            .map(|s| (s.page_type, s.encoding, s.count))
            .collect()
    };
    found.row_groups().iter().map(of_group).collect()
}

#[test]
fn values_below_a_number_are_stored_in_fewer_bytes() {
    let expected = rows_below(200);
    for codec in CODECS {
        let write =
            |at_once, threads| written_below(200, expected.clone(), codec, at_once, threads);
        let whole = write(1000, 1);
        for (at_once, num_threads) in [(1, 1), (7, 1), (1000, 3)] {
            assert_eq!(write(at_once, num_threads), whole);
        }
        let indexed = encodings(&whole);
        for stats in &indexed {
            assert_eq!(stats[0], (PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
            let (kind, encoding, count) = stats[1];
            assert_eq!(
                (kind, encoding),
                (PageType::DATA_PAGE, Encoding::RLE_DICTIONARY)
            );
            assert!(count >= 5, "{count}");
            // Those with larger values, and those without any.
            assert_eq!(
                (stats[2].0, stats[2].1),
                (PageType::DATA_PAGE, Encoding::PLAIN)
            );
        }
        let file = SerializedFileReader::new(whole).unwrap();
        let found = [lists(&file, 0, 0), lists(&file, 1, 0)].concat();
        assert_eq!(found, expected, "{codec:?}");
    }
}

#[test]
fn few_values_have_no_dictionary() {
    let whole = written_below(3000, rows_below(3000), Codec::Zstd, 1000, 1);
    for stats in encodings(&whole) {
        assert_eq!(stats.len(), 1);
        assert_eq!(stats[0].1, Encoding::PLAIN);
    }
    let file = SerializedFileReader::new(whole).unwrap();
    assert_eq!(
        [lists(&file, 0, 0), lists(&file, 1, 0)].concat(),
        rows_below(3000)
    );
}

#[test]
fn a_value_takes_two_or_three_bytes() {
    for (num_values, width) in [(0x1_0000, 2), (0x1_0001, 3), (0x1_FFFF, 3)] {
        let count = 16 * num_values;
        let rows = vec![(0..count).map(|n| n * 7 % num_values).collect::<Vec<u32>>()];
        let empty = other_file(LISTS.split("required group labels").next().unwrap(), None);
        let mut file = ListFile::new(empty, 1, Codec::Uncompressed, 1 << 16, num_values).unwrap();
        file.append(0, &rows[0], &[count], 1).unwrap();
        file.end_group(None).unwrap();
        file.end().unwrap();
        let bytes: Bytes = file.take(|some| some.to_vec()).into();
        let dictionary = 4 * num_values as usize;
        let left = bytes.len() - dictionary - width * count as usize;
        assert!(left < 2000, "{left}");
        let file = SerializedFileReader::new(bytes).unwrap();
        assert!(lists(&file, 0, 0) == rows);
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
    assert!(ListFile::new(empty.clone(), 3, Codec::Zstd, 512, 0).is_err());
    assert!(ListFile::new(empty.clone(), 4, Codec::Zstd, 512, 0).is_err());
    let mut file = ListFile::new(empty, 2, Codec::Zstd, 512, 0).unwrap();
    assert!(file.append(0, &[1, 2], &[3], 1).is_err());
    assert!(file.append(1, &[1, 2], &[1], 1).is_err());
    assert!(file.append(2, &[1, 2], &[2], 1).is_err());
    assert!(ListFile::new(Bytes::from_static(b"PAR1"), 1, Codec::Zstd, 512, 0).is_err());
}
