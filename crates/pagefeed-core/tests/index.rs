//! The page index over files of the `parquet` crate's writer and hand-made ones.

mod handmade;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use handmade::{HandMade, Part};
use pagefeed_core::header::PageHeader;
use pagefeed_core::index::{BuildOptions, Index, PageRecord};
use pagefeed_core::store::{FileId, Store};
use pagefeed_core::{Kind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

/// A folder that is removed with its contents.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pagefeed-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> String {
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

fn build_with(paths: &[String], column: &str, use_page_index: bool) -> Result<Index> {
    let options = BuildOptions {
        use_page_index,
        verify_checksums: true,
        num_threads: 3,
    };
    Index::build(&Store::new(64), paths, column, &options)
}

fn records(index: &Index) -> Vec<PageRecord> {
    (0..index.num_pages())
        .map(|page| index.page(page).unwrap())
        .collect()
}

/// Rows `0..count`: lists of 0 to 40 tokens, some null, some tokens null; texts, some
/// null; a struct of both kinds; a number that is always there.
fn batch(count: usize) -> RecordBatch {
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

fn write(
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
fn check_against(index: &Index, array: &dyn Array, files: u64) {
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
fn check_lookups(index: &Index) {
    let pages = records(index);
    let (mut of_rows, mut of_values) = (Vec::new(), Vec::new());
    for (number, page) in (0i64..).zip(&pages) {
        of_rows.extend(std::iter::repeat_n(number, page.num_rows as usize));
        of_values.extend(std::iter::repeat_n(number, page.num_values as usize));
    }
    let numbers: Vec<i64> = (0..of_rows.len() as i64).collect();
    let mut found = vec![0; numbers.len()];
    index.pages_of_rows(&numbers, &mut found).unwrap();
    assert_eq!(found, of_rows);
    let numbers: Vec<i64> = (0..of_values.len() as i64).collect();
    let mut found = vec![0; numbers.len()];
    index.pages_of_values(&numbers, &mut found).unwrap();
    assert_eq!(found, of_values);
    let numbers: Vec<i64> = (0..=pages.len() as i64).collect();
    let mut first = vec![0; numbers.len()];
    index.first_rows(&numbers, &mut first).unwrap();
    let lengths: Vec<_> = first
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as u64)
        .collect();
    assert_eq!(
        lengths,
        pages.iter().map(|page| page.num_rows).collect::<Vec<_>>()
    );
    index.first_values(&numbers, &mut first).unwrap();
    let lengths: Vec<_> = first
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as u64)
        .collect();
    assert_eq!(
        lengths,
        pages.iter().map(|page| page.num_values).collect::<Vec<_>>()
    );
}

/// Page headers in a run of stored pages, which they must fill.
fn headers(data: &[u8]) -> Vec<PageHeader> {
    let (mut at, mut headers) = (0, Vec::new());
    while at < data.len() {
        let header = PageHeader::parse(&data[at..]).unwrap().unwrap();
        at += header.stored_size();
        headers.push(header);
    }
    assert_eq!(at, data.len());
    headers
}

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
fn a_saved_index_opens_to_the_same_pages() {
    let folder = Folder::new("segments");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(4000), WriterVersion::PARQUET_1_0, true, true);
    let paths = vec![path.to_str().unwrap().to_string(); 3];
    for column in ["tokens", "pair"] {
        let index = build_with(&paths, column, true).unwrap();
        let segment = folder.0.join("segment.arrow");
        index.save(&segment).unwrap();
        let opened = Index::open(&segment).unwrap();
        assert_eq!(records(&opened), records(&index));
        assert_eq!(opened.fingerprint(), index.fingerprint());
        assert_eq!(opened.column(), column);
        assert_eq!(opened.file_first_page(), index.file_first_page());
        assert_eq!(opened.file_first_row(), [0, 4000, 8000, 12000]);
        assert_eq!(opened.file_first_value(), index.file_first_value());
        assert_eq!(opened.schema(1).field, index.schema(1).field);
        opened.check_files(&Store::new(4)).unwrap();
        let store = Store::new(4);
        let runs = |index: &Index| format!("{:?}", index.read_runs(&store, 17, true).unwrap());
        assert_eq!(runs(&opened), runs(&index));
    }
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 2, "no temporary file stays: {left:?}");
}

#[test]
fn a_damaged_segment_is_refused_and_never_panics() {
    let folder = Folder::new("damaged");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(1000), WriterVersion::PARQUET_1_0, true, true);
    let index = build_with(&[path.to_str().unwrap().to_string()], "tokens", true).unwrap();
    let segment = folder.0.join("segment.arrow");
    index.save(&segment).unwrap();
    let bytes = fs::read(&segment).unwrap();
    let damaged = folder.0.join("damaged.arrow");
    for cut in [0, 5, 10, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&damaged, &bytes[..cut]).unwrap();
        let error = Index::open(&damaged).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{cut} bytes: {error}");
    }
    assert_eq!(Index::open(&path).err().unwrap().kind(), Kind::Corrupt);
    for position in (0..bytes.len()).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[position] ^= 0xff;
        fs::remove_file(&damaged).unwrap(); // earlier mappings stay as they are
        fs::write(&damaged, &bytes).unwrap();
        if let Ok(index) = Index::open(&damaged) {
            for page in 0..index.num_pages().min(100) {
                let _ = index.page(page);
            }
            let mut found = [0; 2];
            let _ = index.pages_of_rows(&[0, 999], &mut found);
            let _ = index.pages_of_values(&[0, 999], &mut found);
        }
    }
}

#[test]
fn a_file_that_changed_is_refused_by_name() {
    let folder = Folder::new("stale");
    let rows: Vec<u8> = (0..40).map(|level| u8::from(level % 4 != 0)).collect();
    let bytes = HandMade::new(10, vec![Part::V1(rows)]).bytes();
    for (name, change) in [
        (
            "appended",
            (|path| fs::write(path, [0; 5000]).unwrap()) as fn(&str),
        ),
        ("truncated", |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(20).unwrap();
        }),
        ("touched", |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        }),
        ("replaced", |path| {
            let copy = format!("{path}.copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        }),
    ] {
        let path = folder.file(name, &bytes);
        let index = build_with(std::slice::from_ref(&path), "tokens", true).unwrap();
        let store = Store::new(4);
        index.read_runs(&store, 0, true).unwrap();
        change(&path);
        for error in [
            index.check_files(&store).unwrap_err(),
            index.read_runs(&store, 0, true).unwrap_err(),
            index.read_runs(&Store::new(4), 0, true).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Stale, "{name}: {error}");
            assert_eq!(error.location().file.as_deref(), Some(&*path));
        }
    }
    let path = folder.file("deleted", &bytes);
    let index = build_with(std::slice::from_ref(&path), "tokens", true).unwrap();
    let store = Store::new(4);
    index.read_runs(&store, 0, true).unwrap();
    fs::remove_file(&path).unwrap();
    let error = index.read_runs(&store, 0, true).unwrap_err();
    assert_eq!(error.kind(), Kind::Stale, "{error}");
    let error = index.check_files(&store).unwrap_err();
    assert_eq!(error.kind(), Kind::Io(std::io::ErrorKind::NotFound));
    assert_eq!(error.location().file.as_deref(), Some(&*path));
}

#[test]
fn an_index_built_again_reads_the_new_file_with_the_old_store() {
    let folder = Folder::new("rebuilt");
    let store = Store::new(4);
    let path = folder.file("a", &HandMade::new(1, vec![Part::V1(vec![0])]).bytes());
    let options = BuildOptions {
        use_page_index: true,
        verify_checksums: true,
        num_threads: 1,
    };
    let build = || Index::build(&store, std::slice::from_ref(&path), "tokens", &options).unwrap();
    build().read_runs(&store, 0, true).unwrap();
    let new = folder.file("b", &HandMade::new(2, vec![Part::V1(vec![0, 0])]).bytes());
    fs::rename(new, &path).unwrap();
    assert_eq!(build().num_rows(), 2);
    assert_eq!(build().read_runs(&store, 0, true).unwrap()[0].num_rows, 2);
}

/// Records of 3, 9 and 2 values over pages of 5, 4, 4 and 1 levels.
fn split_records() -> Vec<Vec<u8>> {
    let levels = [0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1];
    [0..5, 5..9, 9..13, 13..14]
        .map(|range| levels[range].to_vec())
        .to_vec()
}

fn numbers(page: &PageRecord) -> (u32, u64, u64, bool) {
    (
        page.page,
        page.num_rows,
        page.num_values,
        page.starts_mid_record,
    )
}

#[test]
fn records_that_span_pages_belong_to_the_page_they_begin_in() {
    let folder = Folder::new("mid");
    let v1 = split_records().into_iter().map(Part::V1).collect();
    // Writers that split records also claim a row per level.
    let v2 = split_records().into_iter().map(|levels| {
        let claimed = levels.len() as i64;
        Part::V2(levels, claimed)
    });
    for parts in [v1, v2.collect::<Vec<_>>()] {
        let path = folder.file("a", &HandMade::new(3, parts).bytes());
        let index = build_with(&[path], "tokens", true).unwrap();
        let pages = records(&index);
        let found: Vec<_> = pages.iter().map(numbers).collect();
        assert_eq!(found, [(0, 2, 12, false), (2, 1, 2, true)]);
        // The second record ends in the page after the one that has none of its own.
        assert_eq!(pages[0].offset + pages[0].compressed_size, pages[1].offset);
        assert_eq!(pages[0].tail_size, pages[1].compressed_size);
        assert_eq!(pages[1].tail_size, 0);
        check_lookups(&index);
        let store = Store::new(4);
        let levels = |page| {
            let run = index.read_runs(&store, page, true).unwrap().remove(0);
            let levels = headers(&run.data)
                .iter()
                .filter_map(PageHeader::num_levels)
                .collect();
            (levels, run.first_row, run.num_rows, run.starts_mid_record)
        };
        assert_eq!(levels(0), (vec![5, 4, 4, 1], 0, 2, false));
        assert_eq!(levels(1), (vec![4, 1], 2, 1, true));
    }
}

#[test]
fn odd_parts_are_left_out() {
    let folder = Folder::new("odd");
    let mut file = HandMade::new(
        4,
        vec![
            Part::Dictionary(3),
            Part::Index,
            Part::V1(vec![0, 0]),
            Part::V1(vec![]),
            Part::V2(vec![0, 1, 0], 2),
            Part::V1(vec![]),
        ],
    );
    for offset in [None, Some(0), Some(4)] {
        file.dictionary_page_offset = offset;
        let path = folder.file("a", &file.bytes());
        let index = build_with(&[path], "tokens", true).unwrap();
        let found: Vec<_> = records(&index).iter().map(numbers).collect();
        assert_eq!(found, [(0, 2, 2, false), (2, 2, 3, false)]);
        // PLAIN pages need no dictionary.
        assert_eq!(index.page(0).unwrap().dictionary, None);
    }
    // Without an end behind the last value, and with the size too small (PARQUET-816).
    file.parts.push(Part::Gap(40));
    file.extra_size = -60;
    let path = folder.file("b", &file.bytes());
    assert_eq!(build_with(&[path], "tokens", true).unwrap().num_pages(), 2);
}

#[test]
fn counts_that_do_not_add_up_are_refused() {
    let folder = Folder::new("lies");
    let parts = || vec![Part::V1(vec![0, 1, 0]), Part::V1(vec![0, 1])];
    let good = HandMade::new(3, parts());
    assert!(build_with(&[folder.file("good", &good.bytes())], "tokens", true).is_ok());
    let mut few_rows = HandMade::new(2, parts());
    few_rows.extra_values = 0;
    let mut more_values = HandMade::new(3, parts());
    more_values.extra_values = 1;
    let mut fewer_values = HandMade::new(3, parts());
    fewer_values.extra_values = -1;
    let mut behind_footer = HandMade::new(3, parts());
    behind_footer.extra_size = 1_000_000;
    let mid = HandMade::new(1, vec![Part::V1(vec![1, 1, 0])]);
    let late = HandMade::new(
        2,
        vec![Part::V1(vec![0]), Part::Dictionary(1), Part::V1(vec![0])],
    );
    for (name, file) in [
        ("few rows", few_rows),
        ("more values", more_values),
        ("fewer values", fewer_values),
        ("behind the footer", behind_footer),
        ("first page mid-record", mid),
        ("late dictionary", late),
    ] {
        let path = folder.file("bad", &file.bytes());
        let error = build_with(std::slice::from_ref(&path), "tokens", true)
            .err()
            .unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{name}: {error}");
        assert_eq!(error.location().file.as_deref(), Some(&*path), "{name}");
        assert_eq!(error.location().row_group, Some(0), "{name}");
    }
}

#[test]
fn wrong_offset_indexes_are_refused_and_say_what_to_do() {
    let folder = Folder::new("wrong");
    let parts = || vec![Part::V1(vec![0, 1, 0]), Part::V1(vec![0, 1])];
    let with = |rows: &[i64], parts| {
        let mut file = HandMade::new(3, parts);
        file.first_rows = Some(rows.to_vec());
        folder.file("a", &file.bytes())
    };
    assert_eq!(
        build_with(&[with(&[0, 2], parts())], "tokens", true)
            .unwrap()
            .num_pages(),
        2
    );
    let mid = || vec![Part::V1(vec![0, 1, 0, 0]), Part::V1(vec![1])];
    for path in [
        with(&[0, 1], parts()),
        with(&[1, 2], parts()),
        with(&[0, 9], parts()),
        with(&[0], parts()),
        with(&[0, 3], mid()),
        with(&[0, 2], mid()),
    ] {
        let file = fs::read(&path).unwrap();
        let error = build_with(&[path], "tokens", true).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.message().contains("page_index=False"), "{error}");
        let path = folder.file("b", &file);
        assert_eq!(build_with(&[path], "tokens", false).unwrap().num_rows(), 3);
    }
}

#[test]
fn histograms_stand_for_levels_unless_they_contradict_the_pages() {
    let folder = Folder::new("histograms");
    let with = |repetition: &[i64], definition: &[i64], first_rows: &[i64]| {
        let mut file = HandMade::new(
            5,
            vec![
                Part::V1(vec![0, 1, 0]),
                Part::V1(vec![0, 1]),
                Part::V1(vec![0, 1, 0, 1]),
            ],
        );
        file.first_rows = Some(first_rows.to_vec());
        file.histograms = Some((repetition.to_vec(), definition.to_vec()));
        let built = build_with(&[folder.file("a", &file.bytes())], "tokens", true)?;
        Ok(records(&built)
            .iter()
            .map(|page| page.num_values)
            .collect::<Vec<_>>())
    };
    let same = |found: Result<Vec<u64>>| found.is_ok_and(|values| values == [3, 2, 4]);
    assert!(same(with(
        &[2, 1, 1, 1, 2, 2],
        &[0, 3, 0, 2, 0, 4],
        &[0, 2, 3]
    )));
    // Believed: nothing else is read (a wrong count here shows it).
    let believed = with(&[2, 1, 1, 1, 2, 2], &[1, 2, 0, 2, 0, 4], &[0, 2, 3]);
    assert_eq!(believed.unwrap(), [2, 2, 4]);
    // Records counted more than once: the pages prove the offset index right.
    assert!(same(with(
        &[2, 1, 2, 0, 4, 0],
        &[0, 3, 0, 2, 0, 4],
        &[0, 2, 3]
    )));
    // The offset index is wrong, and the pages prove it.
    assert!(with(&[2, 1, 1, 1, 2, 2], &[0, 3, 0, 2, 0, 4], &[0, 2, 4]).is_err());
    // Levels missing, too many pages, two counts of one page.
    assert!(with(&[2, 0, 1, 1, 2, 2], &[0, 2, 0, 2, 0, 4], &[0, 2, 3]).is_err());
    assert!(with(&[2, 1, 1, 1, 2, 2, 1, 0], &[0, 3, 0, 2, 0, 4], &[0, 2, 3]).is_err());
    assert!(with(&[2, 1, 1, 1, 2, 2], &[0, 2, 0, 2, 0, 4], &[0, 2, 3]).is_err());
}

#[test]
fn files_that_are_not_parquet_say_what_was_found() {
    let folder = Folder::new("garbage");
    let good = HandMade::new(1, vec![Part::V1(vec![0])]).bytes();
    let ending = |end: &[u8]| [&good[..good.len() - end.len()], end].concat();
    for (bytes, kind, found) in [
        (vec![], Kind::Corrupt, "0 bytes"),
        (good[..good.len() - 3].to_vec(), Kind::Corrupt, "PAR1"),
        (ending(b"PARE"), Kind::Encrypted, "encrypted"),
        (ending(b"\xff\xff\xff\x7fPAR1"), Kind::Limit, "2147483647"),
        (ending(b"\xff\xff\x00\x00PAR1"), Kind::Corrupt, "65535"),
    ] {
        let path = folder.file("a", &bytes);
        let error = build_with(std::slice::from_ref(&path), "tokens", true)
            .err()
            .unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(found), "{error}");
        assert_eq!(error.location().file.as_deref(), Some(&*path));
    }
    let good = folder.file("good", &good);
    let error = build_with(std::slice::from_ref(&good), "token", true)
        .err()
        .unwrap();
    assert_eq!(error.kind(), Kind::ColumnNotFound);
    assert!(
        error.message().contains("did you mean \"tokens\"?"),
        "{error}"
    );
    let folder = folder.0.to_str().unwrap().to_string();
    let error = build_with(&[good, folder], "tokens", true).err().unwrap();
    assert_eq!(error.kind(), Kind::Io(std::io::ErrorKind::IsADirectory));
    let error = build_with(&[], "tokens", true).err().unwrap();
    assert_eq!(error.kind(), Kind::Invalid);
}

#[test]
fn any_flipped_bit_gives_an_error_or_an_index() {
    let folder = Folder::new("flips");
    let mut file = HandMade::new(3, split_records().into_iter().map(Part::V1).collect());
    file.parts.insert(0, Part::Dictionary(3));
    let bytes = file.bytes();
    for position in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[position] ^= 1 << bit;
            let path = folder.file("a", &bytes);
            match build_with(&[path], "tokens", true) {
                Err(error) => assert_ne!(error.kind(), Kind::Internal, "{error}"),
                Ok(index) => assert_eq!(index.num_rows(), 3),
            }
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
        index.pages_of_rows(&[1], &mut out),
        index.pages_of_rows(&[-1], &mut out),
        index.pages_of_values(&[2], &mut out),
        index.first_rows(&[2], &mut out),
        index.first_rows(&[0, 1], &mut out),
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

#[test]
fn descriptors_stay_within_the_limit() {
    let folder = Folder::new("descriptors");
    let store = Store::new(16);
    let bytes = HandMade::new(1, vec![Part::V1(vec![0])]).bytes();
    let files: Vec<FileId> = (0..100)
        .map(|number| {
            let path = folder.file(&format!("{number}"), &bytes);
            let stamp = store.stamp(&path).unwrap();
            let path = path.into();
            FileId { path, stamp }
        })
        .collect();
    for file in files.iter().chain(&files) {
        assert_eq!(&store.read(file, 0..4).unwrap()[..], b"PAR1");
        store.will_need(file, 0..4);
    }
    let prefix = folder.0.to_str().unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let target = fs::read_link(entry.unwrap().path()).ok()?;
        target.to_str()?.starts_with(prefix).then_some(())
    });
    assert!(open.count() <= 16);
    assert!(store.read(&files[0], 5..bytes.len() as u64 + 1).is_err());
}
