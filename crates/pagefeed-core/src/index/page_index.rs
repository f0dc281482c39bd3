//! The index of one column of some files.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_schema::{DataType, Field};
use twox_hash::XxHash3_128;

use super::files::Files;
use super::flat::Flat;
use super::line::{Line, PageSlices};
use super::record::PageRecord;
use super::table::Table;
use crate::error::{Error, Kind, Result};
use crate::parallel::on_threads;
use crate::schema::ColumnSchema;
use crate::schema::common::common_field;
use crate::schema::naming;
use crate::storage::{FileId, Storage};

/// Files whose states are checked together; their names take memory meanwhile.
const FILES_CHECKED: usize = 1 << 12;

/// The page index of one column. A clone shares what it holds.
#[derive(Clone)]
pub struct Index {
    pub(super) column: String,
    pub(super) files: Files,
    pub(super) schemas: Vec<Arc<ColumnSchema>>,
    /// Type of the column in all files.
    pub(super) field: Arc<Field>,
    /// One table per leaf.
    pub(super) tables: Vec<Table>,
    /// The leaf whose pages are the index's pages.
    pub(super) driving: usize,
    /// Records and rows of pages that are not Parquet pages.
    pub(super) flat: Option<Flat>,
    pub(super) fingerprint: String,
    /// Whether a table names the column: the files may call it otherwise.
    pub(super) of_table: bool,
    /// Whether each file was compared with its footer, if others wrote the index.
    pub(super) compared: Option<Arc<[AtomicBool]>>,
    /// The file from which it is mapped.
    pub(super) mapped: Option<Arc<Mapped>>,
}

/// A file that is mapped.
pub(super) struct Mapped {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) path: String,
}

impl Mapped {
    /// Refuses a file that was cut since: to read what is gone would end the process.
    fn check(&self) -> Result<()> {
        let now = self.file.metadata()?.len();
        if now >= self.size {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "the index had {} bytes, and has {now} now: it was cut while it is mapped; replace \
             such a file by a rename, and remove this one",
            self.size
        ))
        .in_file(&self.path))
    }
}

impl Index {
    pub(super) fn new(
        (column, of_table): (String, bool),
        field: Arc<Field>,
        files: Files,
        schemas: Vec<Arc<ColumnSchema>>,
        tables: Vec<Table>,
        driving: usize,
    ) -> Self {
        let of_column = identity(&column, of_table, &schemas);
        let fingerprint = fingerprint(&of_column, &files, &tables[driving]);
        Self {
            column,
            field,
            files,
            schemas,
            tables,
            driving,
            flat: None,
            fingerprint,
            of_table,
            compared: None,
            mapped: None,
        }
    }

    /// The same index, whose values have the type that a table gives them. With a dotted
    /// path it is that of a field in its structs, which files may lack.
    pub fn with_type(&self, table: &DataType, inside: Option<&str>) -> Self {
        let (column, field) = match inside {
            Some(path) => (path.into(), naming::narrowed(&self.field, table)),
            None => (self.column.clone(), naming::typed(&self.field, table)),
        };
        Self {
            column,
            field,
            ..self.clone()
        }
    }

    /// Records and rows of the pages, if they are not Parquet pages.
    pub fn as_flat(&self) -> Option<&Flat> {
        self.flat.as_ref()
    }

    /// Refuses, by name, the first file that is not in the state it was indexed in.
    pub fn check_files(&self, store: &dyn Storage) -> Result<()> {
        let numbers = (0..self.num_files()).step_by(FILES_CHECKED);
        numbers.into_iter().try_for_each(|first| {
            let some = first..self.num_files().min(first + FILES_CHECKED);
            store.check(&some.map(|file| self.file(file)).collect::<Vec<_>>())
        })
    }

    /// Returns the files among these that changed since they were indexed. With `by_footers`
    /// the footers of the others are read, and must have the pages of the index.
    pub fn changed_files(
        &self,
        store: &dyn Storage,
        files: &[usize],
        by_footers: bool,
    ) -> Result<Vec<usize>> {
        let threads = store.num_in_flight().clamp(1, 64);
        let changed = on_threads(threads, files.len(), || {
            |number: usize| {
                let file = files[number];
                if file >= self.num_files() {
                    return Err(Error::invalid("there is no such file"));
                }
                let checked = match by_footers {
                    true => self.compare(store, file),
                    false => store.check_one(&self.file(file)),
                };
                match checked {
                    Ok(()) => Ok(false),
                    Err(error) if error.kind() == Kind::Stale => Ok(true),
                    Err(error) if error.kind() == Kind::Io(ErrorKind::NotFound) => Ok(true),
                    Err(error) => Err(error.in_file(self.path(file))),
                }
            }
        })?;
        let numbers = files.iter().zip(changed);
        Ok(numbers.filter(|each| each.1).map(|each| *each.0).collect())
    }

    /// Name of the column, as it was asked for.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// Number of pages.
    pub fn num_pages(&self) -> u64 {
        self.pages().num_pages()
    }

    /// Number of rows.
    pub fn num_rows(&self) -> u64 {
        self.pages().num_rows()
    }

    /// Number of values that are not null.
    pub fn num_values(&self) -> u64 {
        self.pages().num_values()
    }

    /// Number of files.
    pub fn num_files(&self) -> usize {
        self.files.len()
    }

    /// A file and the state it was indexed in, by its number in the order given.
    pub fn file(&self, file: usize) -> FileId {
        self.files.id(file)
    }

    /// Path of a file.
    pub fn path(&self, file: usize) -> &str {
        self.files.path(file)
    }

    /// Digest of the contents: schema, row groups, sizes and offsets of every file,
    /// not their names or times.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Digest of the states of all files: other than the fingerprint, it changes with any
    /// rewriting of a file.
    pub fn states(&self) -> String {
        let mut hasher = XxHash3_128::new();
        for stamp in (0..self.num_files()).map(|file| self.files.stamp(file)) {
            hasher.write(&stamp.size.to_le_bytes());
            hasher.write(&stamp.modified_ns.to_le_bytes());
            hasher.write(&stamp.inode.to_le_bytes());
            hasher.write(&stamp.sample.to_le_bytes());
        }
        format!("{:032x}", hasher.finish_128())
    }

    /// First page of each file and one past the last: `[files + 1]`.
    pub fn file_first_page(&self) -> Vec<u64> {
        self.pages().at_files(&self.pages().first_page)
    }

    /// Rows before each file and in all: `[files + 1]`.
    pub fn file_first_row(&self) -> Vec<u64> {
        self.pages().at_files(&self.pages().first_row)
    }

    /// Pages of a column of lists in which a list holds a null.
    pub fn null_pages(&self) -> Vec<u64> {
        self.pages().null_pages()
    }

    /// Cuts ranges of all tokens at the ends of pages; each row has `per_row`
    /// separators.
    pub fn cut(&self, starts: &[i64], stops: &[i64], per_row: u64) -> Result<PageSlices> {
        self.check_mapped()?;
        Line::new(self.pages(), per_row).cut(starts, stops)
    }

    /// Lists the pages of ranges, from `first` up to `end`, with their rows.
    pub fn list_pages(&self, first: &[i64], end: &[i64]) -> Result<RangePages> {
        self.check_mapped()?;
        let mut pages = RangePages {
            offsets: vec![0],
            ..RangePages::default()
        };
        if first.len() != end.len() {
            let (begin, end) = (first.len(), end.len());
            return Err(Error::invalid(format!("{begin} ranges begin, {end} end")));
        }
        for (&first, &end) in first.iter().zip(end) {
            if first < 0 || end < first || end.cast_unsigned() > self.pages().num_pages() {
                let count = self.pages().num_pages();
                return Err(Error::invalid(format!(
                    "pages {first} to {end} are out of range: there are {count}"
                )));
            }
            let range = first.cast_unsigned()..end.cast_unsigned();
            pages.page.extend(first..end);
            self.pages().append_rows(range, &mut pages.num_rows)?;
            pages.offsets.push(pages.page.len() as u32);
        }
        Ok(pages)
    }

    /// Files that lack the column, by their numbers.
    pub fn lacking_files(&self) -> Result<Vec<usize>> {
        let first = self.file_first_page();
        let lacks = |file: &usize| match first[*file] < first[*file + 1] {
            true => self.page(first[*file]).map(|page| page.is_missing()),
            false => Ok(false),
        };
        let files = 0..self.num_files();
        files
            .map(|file| Ok(lacks(&file)?.then_some(file)))
            .filter_map(Result::transpose)
            .collect()
    }

    /// Returns the location of `page`.
    pub fn page(&self, page: u64) -> Result<PageRecord> {
        self.check_mapped()?;
        self.pages().record(page)
    }

    /// Returns the rows of a page, numbered among the rows of all files.
    pub fn rows_of_page(&self, page: u64) -> Result<Range<u64>> {
        self.check_mapped()?;
        let first = self.pages().first_row_of_page(page)?;
        Ok(first..self.pages().first_row_of_page(page.saturating_add(1))?)
    }

    /// The column with a type that takes the values of all files.
    pub fn field(&self) -> &Arc<Field> {
        &self.field
    }

    /// The column in the schema of `page`'s file.
    pub fn schema(&self, file: u32) -> &Arc<ColumnSchema> {
        &self.schemas[self.files.numbers.schema_id[file as usize] as usize]
    }

    /// The page in which a row begins.
    pub fn page_of_row(&self, row: u64) -> Result<u64> {
        self.pages().page_of_row(row)
    }

    /// Looks up `numbers` in `table`: the stored bytes of pages, rows or values before
    /// pages, or the pages of rows or values.
    pub fn look_up(&self, table: &str, numbers: &[i64], found: &mut [i64]) -> Result<()> {
        self.check_mapped()?;
        let pages = self.pages();
        match table {
            "stored_bytes" => each(numbers, found, |page| pages.bytes_of_page(page)),
            "first_rows" => each(numbers, found, |page| pages.first_row_of_page(page)),
            "first_values" => each(numbers, found, |page| pages.first_value_of_page(page)),
            "pages_of_rows" => each(numbers, found, |row| pages.page_of_row(row)),
            "pages_of_values" => each(numbers, found, |value| pages.page_of_value(value)),
            _ => Err(Error::invalid(format!("there is no table {table}"))),
        }
    }

    /// Refuses an index whose file was cut while it is mapped.
    pub(super) fn check_mapped(&self) -> Result<()> {
        self.mapped.as_ref().map_or(Ok(()), |mapped| mapped.check())
    }

    /// The driving leaf's table.
    pub(super) fn pages(&self) -> &Table {
        &self.tables[self.driving]
    }
}

/// Pages of some ranges, one range after another.
#[derive(Debug, Default)]
pub struct RangePages {
    /// First page of each range among these, and their number: `[ranges + 1]`.
    pub offsets: Vec<u32>,
    /// Number of each page.
    pub page: Vec<i64>,
    /// Its rows.
    pub num_rows: Vec<u32>,
}

/// Writes `answer` for each number of `input` into `output`.
fn each(input: &[i64], output: &mut [i64], answer: impl Fn(u64) -> Result<u64>) -> Result<()> {
    if input.len() != output.len() {
        return Err(Error::invalid(format!(
            "{} numbers asked for, room for {}",
            input.len(),
            output.len()
        )));
    }
    for (input, output) in input.iter().zip(output) {
        let number =
            u64::try_from(*input).map_err(|_| Error::invalid(format!("{input} is negative")))?;
        // Counts of a file set stay far below 2^63.
        *output = answer(number)?.cast_signed();
    }
    Ok(())
}

/// A type for the columns of all files, or the first two that have none in common.
pub(super) fn field_of_all(
    column: &str,
    of_table: bool,
    files: &Files,
    schemas: &[Arc<ColumnSchema>],
) -> Result<Arc<Field>> {
    let in_table = |field: &Arc<Field>| match of_table {
        true => naming::known(field),
        false => Arc::clone(field),
    };
    let mut schemas = schemas.iter().enumerate();
    let (_, first) = schemas
        .next()
        .ok_or_else(|| Error::invalid("an index needs a file"))?;
    let mut all = in_table(&first.field);
    for (number, schema) in schemas {
        let mut field = in_table(&schema.field);
        if of_table {
            (all, field) = (naming::widened(&all, &field), naming::widened(&field, &all));
        }
        all = common_field(&all, &field).ok_or_else(|| {
            let file = files
                .numbers
                .schema_id
                .iter()
                .position(|id| *id as usize == number);
            let file = files.path(file.unwrap_or(0));
            Error::unsupported(format!(
                "column {column:?} has type {}, and {} in {} and the files like it: the two \
                 have no type in common, so make a dataset of each kind of files",
                schema.field.data_type(),
                all.data_type(),
                files.path(0)
            ))
            .in_file(file)
        })?;
    }
    Ok(all)
}

/// Text that identifies a column: its name, or its field in files of a table, where it
/// may be renamed.
fn identity(column: &str, of_table: bool, schemas: &[Arc<ColumnSchema>]) -> String {
    if !of_table {
        return column.to_string();
    }
    let leaves = schemas.iter().map(|schema| {
        let first = schema.leaves.first().map_or(0, |leaf| leaf.ordinal);
        format!("{first}+{}", schema.leaves.len())
    });
    leaves.collect::<Vec<_>>().join(" ")
}

/// Digest of all that an order of the pages depends on: contents of files, and borders
/// of pages.
fn fingerprint(column: &str, files: &Files, pages: &Table) -> String {
    let mut hasher = XxHash3_128::new();
    hasher.write(&(column.len() as u64).to_le_bytes());
    hasher.write(column.as_bytes());
    for file in 0..files.len() {
        hasher.write(&files.stamp(file).size.to_le_bytes());
        hasher.write(&files.digest(file).to_le_bytes());
    }
    hasher.write(pages.page_row.inner());
    hasher.write(pages.page_value.inner());
    hasher.write(&pages.page_flags);
    format!("{:032x}", hasher.finish_128())
}
