//! Files without pages of their own: records of one size behind each other, of which
//! one member is the token. Their pages are runs of records that an index names.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Field;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::chunk::{ChunkPages, Page};
use super::files::FilesBuilder;
use super::segment::{list_field, list_row, lists};
use super::table::{Table, TableBuilder};
use super::{Index, PageRecord, field_of_all};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::schema::ColumnSchema;
use crate::storage::Storage;
use crate::tokens::{Joins, NumberType};

/// Pages that a shuffle of row groups moves as one.
const PAGES_PER_GROUP: usize = 64;

/// Records of a file, one for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// Type of the tokens.
    pub number: NumberType,
    /// Bytes of a record.
    pub size: usize,
    /// Bytes of a record before its token.
    pub offset: usize,
    /// Whether documents are unknown: a file is one row, and each page of it is a part
    /// that counts as a row.
    pub joined: bool,
}

impl Records {
    /// Refuses records that do not hold their token.
    fn check(&self) -> Result<()> {
        if !self.number.data_type().is_integer() {
            let name = self.number.name();
            return Err(Error::invalid(format!("{name:?} is no type of tokens")));
        }
        let end = self.offset.checked_add(self.number.num_bytes());
        if end.is_none_or(|end| end > self.size) {
            return Err(Error::invalid(format!(
                "records of {} bytes do not hold a token of {} at {}",
                self.size,
                self.number.name(),
                self.offset
            )));
        }
        Ok(())
    }

    pub(super) fn to_text(self) -> String {
        let joined = u8::from(self.joined);
        let name = self.number.name();
        format!("{name} {} {} {joined}", self.size, self.offset)
    }

    fn from_text(text: &str) -> Result<Self> {
        let bad = || Error::corrupt(format!("{text:?} says nothing of records"));
        let parts: Vec<&str> = text.split(' ').collect();
        let [name, size, offset, joined] = parts[..] else {
            return Err(bad());
        };
        let records = Self {
            number: NumberType::from_name(name).ok_or_else(bad)?,
            size: size.parse().map_err(|_| bad())?,
            offset: offset.parse().map_err(|_| bad())?,
            joined: joined == "1",
        };
        records.check().map_err(|_| bad())?;
        Ok(records)
    }
}

/// One file.
pub struct FlatFile {
    /// Path.
    pub path: String,
    /// Digest of the contents, as far as it identifies them.
    pub digest: u128,
    /// Number of its pages.
    pub num_pages: usize,
}

/// The pages of all files, in order; arrays with a number for each page.
pub struct FlatPages<'a> {
    /// Offset in its file.
    pub offset: &'a [i64],
    /// Bytes of the page.
    pub size: &'a [i64],
    /// Rows that begin in it.
    pub num_rows: &'a [i64],
    /// Tokens of each page.
    pub num_values: &'a [i64],
    /// Per row, the tokens of its page before it; none where every page is one row.
    pub row_value: Vec<u32>,
    /// Bytes of the page before each row; empty where rows follow each other closely.
    pub row_byte: Vec<u32>,
}

/// The records and rows of the pages of an index of flat files.
#[derive(Debug)]
pub struct Flat {
    /// Records of the files.
    pub records: Records,
    row_value: ScalarBuffer<u32>,
    row_byte: ScalarBuffer<u32>,
}

/// Rows of a page, by where they begin in it.
pub struct FlatRows<'a> {
    /// Tokens before each row; empty for one row.
    pub values: &'a [u32],
    /// Bytes before each row; empty where rows follow each other closely.
    pub bytes: &'a [u32],
}

impl Flat {
    pub(super) fn fields() -> [Field; 2] {
        ["row_value", "row_byte"].map(list_field::<UInt32Type>)
    }

    pub(super) fn to_arrays(&self) -> Result<[ArrayRef; 2]> {
        Ok([
            lists::<UInt32Type>(&[&self.row_value])?,
            lists::<UInt32Type>(&[&self.row_byte])?,
        ])
    }

    pub(super) fn from_batch(batch: &RecordBatch, records: &str, pages: &Table) -> Result<Self> {
        let flat = Self {
            records: Records::from_text(records)?,
            row_value: list_row::<UInt32Type>(batch, "row_value", 0)?,
            row_byte: list_row::<UInt32Type>(batch, "row_byte", 0)?,
        };
        flat.check(pages)?;
        Ok(flat)
    }

    fn check(&self, pages: &Table) -> Result<()> {
        let fits = |rows: &[u32]| rows.is_empty() || rows.len() as u64 == pages.num_rows();
        let is_one = !self.row_value.is_empty() || pages.num_rows() == pages.num_pages();
        if fits(&self.row_value) && fits(&self.row_byte) && is_one {
            return Ok(());
        }
        Err(Error::corrupt("rows of flat pages do not fit the pages"))
    }

    /// Returns the rows of a page of `index`.
    pub fn rows(&self, index: &Index, page: u64) -> Result<FlatRows<'_>> {
        let is_one = self.row_value.is_empty() && self.row_byte.is_empty();
        let rows = if is_one {
            0..0
        } else {
            index.rows_of_page(page)?
        };
        let range = rows.start as usize..rows.end as usize;
        Ok(FlatRows {
            values: self.row_value.get(range.clone()).unwrap_or_default(),
            bytes: self.row_byte.get(range).unwrap_or_default(),
        })
    }
}

impl Index {
    /// Indexes files without pages as runs of records.
    pub fn flat(
        storage: &dyn Storage,
        files: &[FlatFile],
        column: &str,
        records: Records,
        pages: FlatPages<'_>,
    ) -> Result<Self> {
        records.check()?;
        let schema = Arc::new(ColumnSchema::resolve(
            &footer(column, records.number)?,
            column,
            false,
        )?);
        let mut all = FilesBuilder::default();
        let (mut table, mut first) = (TableBuilder::new(), 0);
        for file in files {
            let stamp = storage.stamp(&file.path)?;
            let range = first..first + file.num_pages;
            first = range.end;
            let of_file = table_of(&pages, range, stamp.size).map_err(|e| e.in_file(&file.path))?;
            table.append(&of_file, 0..1)?;
            all.push(&file.path, stamp, file.digest, 0)?;
        }
        let table = table.finish();
        let flat = Flat {
            records,
            row_value: pages.row_value.into(),
            row_byte: pages.row_byte.into(),
        };
        flat.check(&table)?;
        let all = all.finish();
        let field = field_of_all(column, false, &all, std::slice::from_ref(&schema))?;
        let index = Self::new(
            (column.to_string(), false),
            field,
            all,
            vec![schema],
            vec![table],
            0,
        );
        Ok(Self {
            flat: Some(flat),
            ..index
        })
    }

    /// Returns where the rows of a page of a flat file begin, and their end, counted in
    /// its tokens; nothing is read. `None` for other files.
    pub fn flat_row_offsets(&self, page: u64) -> Result<Option<Vec<u32>>> {
        let Some(flat) = &self.flat else {
            return Ok(None);
        };
        let count = u32::try_from(self.page(page)?.num_values)
            .map_err(|_| Error::limit("a page of more than 2^32 tokens"))?;
        let begins = flat.rows(self, page)?.values;
        let begins = if begins.is_empty() { &[0] } else { begins };
        Ok(Some([begins, &[count]].concat()))
    }

    /// Whether the row that is a page of a flat file continues in its neighbours.
    pub fn joins(&self, record: &PageRecord) -> Joins {
        if !self.flat.as_ref().is_some_and(|flat| flat.records.joined) {
            return Joins::default();
        }
        let table = self.pages();
        let file = record.file as usize;
        let row_at = |file: usize| {
            let span = table.file_first_span.get(file)?;
            table.first_row.get(*span as usize).copied()
        };
        let rows = row_at(file + 1).unwrap_or(0) - row_at(file).unwrap_or(0);
        Joins {
            before: record.first_row > 0,
            after: record.first_row + record.num_rows < rows,
        }
    }
}

/// The pages of one file of `size` bytes.
fn table_of(pages: &FlatPages<'_>, range: Range<usize>, size: u64) -> Result<Table> {
    let mut table = TableBuilder::new();
    for start in range.clone().step_by(PAGES_PER_GROUP) {
        let group = start..range.end.min(start + PAGES_PER_GROUP);
        let found: Result<Vec<Page>> = group
            .enumerate()
            .map(|(number, place)| page(pages, number, place, size))
            .collect();
        let chunk = ChunkPages {
            dictionary: None,
            pages: found?,
        };
        let row_group = (start - range.start) / PAGES_PER_GROUP;
        table.push_chunk(row_group as u32, Codec::Uncompressed, &chunk)?;
    }
    table.end_file();
    Ok(table.finish())
}

fn page(pages: &FlatPages<'_>, number: usize, place: usize, file_size: u64) -> Result<Page> {
    let take = |numbers: &[i64]| {
        let found = numbers
            .get(place)
            .copied()
            .and_then(|n| u64::try_from(n).ok());
        found.ok_or_else(|| Error::invalid("pages lack a number, or have one below 0"))
    };
    let (offset, size) = (take(pages.offset)?, take(pages.size)?);
    if offset.checked_add(size).is_none_or(|end| end > file_size) {
        return Err(Error::corrupt(format!(
            "tokens are expected in bytes {offset}..{}, the file has {file_size}: it is \
             truncated, or belongs to another index",
            offset.saturating_add(size)
        )));
    }
    Ok(Page {
        number: number as u64,
        offset,
        size,
        num_rows: take(pages.num_rows)?,
        num_values: take(pages.num_values)?,
        flags: 0,
    })
}

/// Returns the footer of an empty Parquet file with a list of such numbers, as the
/// schema of an index.
fn footer(column: &str, number: NumberType) -> Result<Vec<u8>> {
    // As the tokens are held in memory.
    let (physical, bit_width, is_signed) = match number {
        NumberType::U8 | NumberType::U16 => (PhysicalType::INT32, 16, false),
        NumberType::I8 | NumberType::I16 | NumberType::I32 => (PhysicalType::INT32, 32, true),
        NumberType::U32 => (PhysicalType::INT32, 32, false),
        _ => (PhysicalType::INT64, 64, true),
    };
    let item = Type::primitive_type_builder("element", physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::integer(bit_width, is_signed)))
        .build()?;
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(item)])
        .build()?;
    let field = Type::group_type_builder(column)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(list)])
        .build()?;
    let schema = Type::group_type_builder("schema")
        .with_fields(vec![Arc::new(field)])
        .build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    let file = writer.into_inner()?;
    // PAR1, the footer, its length, PAR1.
    let end = file.len().saturating_sub(8);
    Ok(file.get(4..end).unwrap_or_default().to_vec())
}
