//! Indexes of flat files, which have no pages.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::DataType;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::chunk::{ChunkPages, Page};
use super::files::FilesBuilder;
use super::flat::{Flat, FlatFile, FlatPages, FlatRows, Records};
use super::page_index::{Index, field_of_all};
use super::record::PageRecord;
use super::table::{Table, TableBuilder};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::schema::ColumnSchema;
use crate::storage::{Stamp, Storage};
use crate::tokens::{Continues, NumberType};
use crate::write;

/// Pages that a shuffle of row groups moves as one.
const PAGES_PER_GROUP: usize = 64;

impl Flat {
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
        let schema = ColumnSchema::resolve(&footer(column, records.number)?, column, false)?;
        let index = Self::of_pages(storage, files, column, schema, &pages, |stamp| stamp.size)?;
        let flat = Flat {
            records,
            row_value: pages.row_value.into(),
            row_byte: pages.row_byte.into(),
        };
        flat.check(&index.tables[0])?;
        Ok(Self {
            flat: Some(flat),
            ..index
        })
    }

    /// Indexes rows whose pages a storage makes when they are read: Parquet pages of a
    /// column of this type, or of a field in it. Leaf `n` of a page is read `n` bytes after
    /// its offset.
    pub fn made(
        storage: &dyn Storage,
        files: &[FlatFile],
        column: &str,
        (name, data_type): (&str, &DataType),
        pages: &FlatPages<'_>,
    ) -> Result<Self> {
        let footer = write::footer(name, data_type)?;
        let schema = ColumnSchema::resolve(&footer, column, false)?;
        Self::of_pages(storage, files, column, schema, pages, |_| u64::MAX)
    }

    fn of_pages(
        storage: &dyn Storage,
        files: &[FlatFile],
        column: &str,
        schema: ColumnSchema,
        pages: &FlatPages<'_>,
        end_of: fn(&Stamp) -> u64,
    ) -> Result<Self> {
        let mut all = FilesBuilder::default();
        let mut tables: Vec<_> = schema.leaves.iter().map(|_| TableBuilder::new()).collect();
        let mut first = 0;
        for file in files {
            let stamp = storage.sampled(&file.path)?;
            let range = first..first + file.num_pages;
            first = range.end;
            for (leaf, table) in tables.iter_mut().enumerate() {
                let of_file = table_of(pages, range.clone(), end_of(&stamp), leaf as u64)
                    .map_err(|e| e.in_file(&file.path))?;
                table.append(&of_file, 0..1)?;
            }
            all.push(&file.path, stamp, file.digest, 0)?;
        }
        let (all, schema) = (all.finish(), Arc::new(schema));
        let field = field_of_all(column, false, &all, std::slice::from_ref(&schema))?;
        let tables = tables.into_iter().map(TableBuilder::finish).collect();
        Ok(Self::new(
            (column.to_string(), false),
            field,
            all,
            vec![schema],
            tables,
            0,
        ))
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
    pub fn continues(&self, record: &PageRecord) -> Continues {
        if !self
            .flat
            .as_ref()
            .is_some_and(|flat| flat.records.borderless)
        {
            return Continues::default();
        }
        let table = self.pages();
        let file = record.file as usize;
        let row_at = |file: usize| {
            let span = table.file_first_span.get(file)?;
            table.first_row.get(*span as usize).copied()
        };
        let rows = row_at(file + 1).unwrap_or(0) - row_at(file).unwrap_or(0);
        Continues {
            before: record.first_row > 0,
            after: record.first_row + record.num_rows < rows,
        }
    }
}

/// The pages of one file of `size` bytes.
fn table_of(pages: &FlatPages<'_>, range: Range<usize>, size: u64, leaf: u64) -> Result<Table> {
    let mut table = TableBuilder::new();
    for start in range.clone().step_by(PAGES_PER_GROUP) {
        let group = start..range.end.min(start + PAGES_PER_GROUP);
        let found: Result<Vec<Page>> = group
            .enumerate()
            .map(|(number, index)| {
                let page = page(pages, number, index, size)?;
                let offset = page.offset + leaf;
                Ok(Page { offset, ..page })
            })
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

fn page(pages: &FlatPages<'_>, number: usize, index: usize, file_size: u64) -> Result<Page> {
    let take = |numbers: &[i64]| {
        let found = numbers
            .get(index)
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
