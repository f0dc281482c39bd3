//! Tools of the tests: folders, files, and the facts an index must have of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use pagefeed_core::header::PageHeader;
use pagefeed_core::index::{BuildOptions, Index, PageRecord};
use pagefeed_core::store::Store;
use pagefeed_core::{Kind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

/// A folder that is removed with its contents.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pagefeed-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn build_with(paths: &[String], column: &str, use_page_index: bool) -> Result<Index> {
    let options = BuildOptions {
        use_page_index,
        by_row_group: false,
        missing_as_null: false,
        naming: None,
        verify_checksums: true,
        num_threads: 3,
        cancel: Default::default(),
        num_done: Default::default(),
    };
    Index::build(&Store::new(64), paths, column, &options)
}

pub fn records(index: &Index) -> Vec<PageRecord> {
    (0..index.num_pages())
        .map(|page| index.page(page).unwrap())
        .collect()
}

/// Rows `0..count`: lists of 0 to 40 tokens, some null, some tokens null; texts, some
/// null; a struct of both kinds; a number that is always there.
pub fn batch(count: usize) -> RecordBatch {
    let mut tokens = ListBuilder::new(Int32Builder::new());
    let mut nested = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    let (mut text, mut id) = (StringBuilder::new(), Int64Builder::new());
    for row in 0..count {
        for position in 0..row * 7 % 41 {
            tokens
                .values()
                .append_option((position % 11 != 3).then_some((row * 31) as i32));
        }
        tokens.append(row % 13 != 5);
        for inner in 0..row % 4 {
            (0..inner).for_each(|value| nested.values().values().append_value(value as i32));
            nested.values().append(inner != 2);
        }
        nested.append(row % 9 != 0);
        text.append_option((row % 5 != 1).then(|| format!("row {row} ").repeat(row % 17)));
        id.append_value(row as i64);
    }
    let (text, id): (ArrayRef, ArrayRef) = (Arc::new(text.finish()), Arc::new(id.finish()));
    let members = Fields::from(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
    ]);
    let pair = StructArray::new(members, vec![id.clone(), text.clone()], None);
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("tokens", Arc::new(tokens.finish()), true),
        ("nested", Arc::new(nested.finish()), true),
        ("text", text, true),
        ("pair", Arc::new(pair), false),
        ("id", id, false),
    ];
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array, nullable)| Field::new(*name, array.data_type().clone(), *nullable))
        .collect();
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

pub fn write(
    path: &Path,
    batch: &RecordBatch,
    version: WriterVersion,
    offset_index: bool,
    stats: bool,
) {
    let statistics = if stats {
        EnabledStatistics::Page
    } else {
        EnabledStatistics::None
    };
    let properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_offset_index_disabled(!offset_index)
        .set_statistics_enabled(statistics)
        .set_compression(Compression::SNAPPY)
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(64)
        .set_max_row_group_row_count(Some(1500))
        .build();
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Values before each row, and in all.
fn values_before(array: &dyn Array) -> Vec<u64> {
    let values = |row: usize| -> u64 {
        let row = array.slice(row, 1);
        match row.as_any().downcast_ref::<ListArray>() {
            Some(list) if list.is_null(0) => 0,
            Some(list) => *values_before(&*list.value(0)).last().unwrap(),
            None => 1 - row.null_count() as u64,
        }
    };
    let mut sums = vec![0];
    for row in 0..array.len() {
        sums.push(sums[row] + values(row));
    }
    sums
}

/// Every page against the rows that were written; `files` copies of them.
pub fn check_against(index: &Index, array: &dyn Array, files: u64) {
    let before = values_before(array);
    let rows = array.len() as u64;
    assert_eq!(index.num_rows(), files * rows);
    assert_eq!(index.num_values(), files * before[array.len()]);
    let mut next = (0, 0);
    for (number, page) in records(index).into_iter().enumerate() {
        if page.file > next.0 {
            assert_eq!(next.1, rows);
            next = (page.file, 0);
        }
        assert_eq!(page.first_row, next.1, "page {number}");
        next.1 += page.num_rows;
        let span = page.first_row as usize..(page.first_row + page.num_rows) as usize;
        assert_eq!(page.num_values, before[span.end] - before[span.start]);
        assert_eq!(
            page.first_row_in_group,
            page.first_row - 1500 * u64::from(page.row_group)
        );
    }
    assert_eq!(next, (files as u32 - 1, rows));
}

/// Pages of all rows and values, looked up at once.
pub fn check_lookups(index: &Index) {
    let pages = records(index);
    let (mut of_rows, mut of_values) = (Vec::new(), Vec::new());
    for (number, page) in (0i64..).zip(&pages) {
        of_rows.extend(std::iter::repeat_n(number, page.num_rows as usize));
        of_values.extend(std::iter::repeat_n(number, page.num_values as usize));
    }
    let numbers: Vec<i64> = (0..of_rows.len() as i64).collect();
    let mut found = vec![0; numbers.len()];
    index
        .look_up("pages_of_rows", &numbers, &mut found)
        .unwrap();
    assert_eq!(found, of_rows);
    let numbers: Vec<i64> = (0..of_values.len() as i64).collect();
    let mut found = vec![0; numbers.len()];
    index
        .look_up("pages_of_values", &numbers, &mut found)
        .unwrap();
    assert_eq!(found, of_values);
    let numbers: Vec<i64> = (0..=pages.len() as i64).collect();
    let mut first = vec![0; numbers.len()];
    index.look_up("first_rows", &numbers, &mut first).unwrap();
    let lengths: Vec<_> = first
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as u64)
        .collect();
    assert_eq!(
        lengths,
        pages.iter().map(|page| page.num_rows).collect::<Vec<_>>()
    );
    index.look_up("first_values", &numbers, &mut first).unwrap();
    let lengths: Vec<_> = first
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as u64)
        .collect();
    assert_eq!(
        lengths,
        pages.iter().map(|page| page.num_values).collect::<Vec<_>>()
    );
    check_lines(index);
}

/// Ranges of the line of all tokens, cut at the ends of `pages`.
fn check_lines(index: &Index) {
    let pages = records(index);
    for per_row in 0..3 {
        let sizes = pages
            .iter()
            .map(|page| page.num_values + per_row * page.num_rows);
        let line: Vec<(i64, u32)> = (0i64..)
            .zip(sizes)
            .flat_map(|(page, size)| (0..size as u32).map(move |token| (page, token)))
            .collect();
        for length in [1, 7, line.len().max(1)] {
            let starts: Vec<i64> = (0..line.len() as i64).step_by(length).collect();
            let end = |start: &i64| (start + length as i64).min(line.len() as i64);
            let stops: Vec<i64> = starts.iter().map(end).collect();
            let slices = index.cut(&starts, &stops, per_row).unwrap();
            let mut found = Vec::new();
            for slice in 0..slices.range.len() {
                let start = starts[slices.range[slice] as usize];
                assert_eq!(start + i64::from(slices.offset[slice]), found.len() as i64);
                let first = slices.first_token[slice];
                let tokens = first..first + slices.num_tokens[slice];
                found.extend(tokens.map(|token| (slices.page[slice], token)));
            }
            assert_eq!(found, line);
        }
        let end = line.len() as i64;
        for (start, stop) in [(0, 0), (-1, 1), (1, 0), (0, end + 1), (end, end + 1)] {
            let error = index.cut(&[start], &[stop], per_row).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
        }
    }
    assert!(index.cut(&[0], &[], 0).is_err());
}

/// Page headers in a run of stored pages, which they must fill.
pub fn headers(data: &[u8]) -> Vec<PageHeader> {
    let (mut at, mut headers) = (0, Vec::new());
    while at < data.len() {
        let header = PageHeader::parse(&data[at..]).unwrap().unwrap();
        at += header.stored_size();
        headers.push(header);
    }
    assert_eq!(at, data.len());
    headers
}
