//! Pages of any columns, as the engine loads them for batches of rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};

use crate::decode::conform;
use crate::engine::{PageEntry, PageSource, RowPage};
use crate::error::{Error, Result};
use crate::index::{Index, PageRecord};
use crate::page::PageOpener;
use crate::pages::numbering::{Indexed, NumberedPages, saturated};
use crate::pages::reader::{locate, read_array};
use crate::pages::source::encode;
use crate::pages::text;
use crate::pages::token_ids::TokenIds;
use crate::schema::common::common_field;

/// How much larger than stored a page of strings is taken to be at least, before it is
/// loaded: what text compresses to.
const EXPANSION: u64 = 4;
/// And at most, lest one page of repeated strings make all look giant.
const MAX_EXPANSION: u64 = 16;

/// Pages of several columns, numbered through: those of indexes first, then one of each
/// array that is already there.
pub struct RowSource {
    pages: NumberedPages,
    /// What the pages of each index become: one type in all datasets.
    types: Vec<DataType>,
    /// By index, how much larger than stored a page was at most so far.
    expansions: Vec<AtomicU64>,
    arrays: Vec<ArrayRef>,
    /// By index, whether it is of the first column of a dataset.
    is_first: Vec<bool>,
    /// Which numbers the first columns may hold, if those are tokens.
    token_ids: Option<TokenIds>,
}

/// Where a column of one dataset comes from.
pub enum Column {
    /// From the pages of an index.
    Pages(Indexed),
    /// It has few values, each in many rows: rows of this array.
    Values(ArrayRef),
}

impl Column {
    fn field(&self, name: &str) -> FieldRef {
        match self {
            Self::Pages(pages) => match &pages.text {
                None => Arc::clone(pages.index.field()),
                Some(_) => text::token_field(pages.index.field()),
            },
            Self::Values(array) => Arc::new(Field::new(name, array.data_type().clone(), true)),
        }
    }
}

impl RowSource {
    /// Numbers the pages of the columns of several datasets, `names.len()` for each;
    /// returns the columns as they are in all of them.
    pub fn new(columns: Vec<Column>, names: &[String]) -> Result<(Self, Vec<FieldRef>)> {
        let mut fields = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let in_all = columns.iter().skip(number).step_by(names.len());
            fields.push(field_of_all(name, in_all)?);
        }
        let (mut indexes, mut targets, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_first = Vec::new();
        let fields_of_all = fields.iter().enumerate().cycle();
        for (column, (number, field)) in columns.into_iter().zip(fields_of_all) {
            match column {
                Column::Pages(indexed) => {
                    indexes.push(indexed);
                    targets.push(field.data_type().clone());
                    is_first.push(number == 0);
                }
                Column::Values(array) => arrays.push(conform(&array, field.data_type())?),
            }
        }
        let source = Self {
            expansions: indexes.iter().map(|_| AtomicU64::new(EXPANSION)).collect(),
            pages: NumberedPages::new(indexes),
            types: targets,
            arrays,
            is_first,
            token_ids: None,
        };
        Ok((source, fields))
    }

    /// Refuses pages with other numbers in the first column of each dataset.
    pub fn only(mut self, token_ids: TokenIds) -> Self {
        self.token_ids = Some(token_ids);
        self
    }

    /// The array that is a page, if it is one.
    fn array(&self, page: u64) -> Option<&ArrayRef> {
        let number = page.checked_sub(self.pages.num_pages())?;
        self.arrays.get(usize::try_from(number).ok()?)
    }
}

/// A column as it is in all datasets.
fn field_of_all<'a>(name: &str, columns: impl Iterator<Item = &'a Column>) -> Result<FieldRef> {
    let mut all: Option<FieldRef> = None;
    for column in columns {
        let field = column.field(name);
        all = Some(match &all {
            None => field,
            Some(all) => common_field(all, &field).ok_or_else(|| {
                let error = Error::unsupported(format!(
                    "column {name:?} has type {}, and {} in the datasets before it: the two \
                     have no type in common",
                    field.data_type(),
                    all.data_type()
                ));
                match column {
                    Column::Pages(pages) => error.in_file(&pages.index.files()[0].path),
                    Column::Values(_) => error,
                }
            })?,
        });
    }
    all.ok_or_else(|| Error::invalid("columns of no dataset"))
}

/// Bytes that a row of a column takes in memory, about: from the sizes of some pages.
pub fn mean_row_bytes(index: &Index) -> Result<u64> {
    const SAMPLED: u64 = 256;
    let step = (index.num_pages() / SAMPLED).max(1);
    let (mut bytes, mut rows) = (0u64, 0u64);
    for page in (0..index.num_pages()).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let record = index.page(page)?;
        let strings = stored_size(&record).saturating_mul(EXPANSION);
        bytes = bytes.saturating_add(strings.saturating_add(numbers_size(&record)));
        rows += record.num_rows;
    }
    Ok(bytes / rows.max(1))
}

/// Estimate of a decoded page's bytes, those of strings left out.
fn numbers_size(record: &PageRecord) -> u64 {
    const BYTES_PER_VALUE: u64 = 8;
    let values = record.num_values.saturating_add(record.num_rows);
    values.saturating_mul(BYTES_PER_VALUE)
}

/// Bytes that are read for a page: its dictionary is read with each page.
fn stored_size(record: &PageRecord) -> u64 {
    let dictionary = record.dictionary.as_ref();
    let dictionary = dictionary.map_or(0, |range| range.end.saturating_sub(range.start));
    record.compressed_size.saturating_add(dictionary)
}

impl PageSource<RowPage> for RowSource {
    fn load(&self, opener: &mut PageOpener, page: u64, _: Option<RowPage>) -> Result<RowPage> {
        if let Some(array) = self.array(page) {
            return Ok(RowPage(Arc::clone(array)));
        }
        let (part, page) = self.pages.find(page)?;
        let data_type = &self.types[part.number];
        opener.verify_checksums = part.verify_checksums;
        if let Some(text) = &part.text {
            let tokens = encode(opener, part, text, page, None)?;
            return Ok(RowPage(conform(&text::as_lists(tokens)?, data_type)?));
        }
        let array = read_array(&part.index, &part.store, opener, page, data_type)?;
        let record = part.index.page(page)?;
        if let Some(token_ids) = self.token_ids.filter(|_| self.is_first[part.number]) {
            token_ids
                .check_lists(&array, record.first_row_in_group)
                .map_err(|error| locate(&part.index, &record, error))?;
        }
        let stored = stored_size(&record);
        let expansion = (array.get_array_memory_size() as u64).div_ceil(stored.max(1));
        let expansion = expansion.min(MAX_EXPANSION);
        self.expansions[part.number].fetch_max(expansion, Ordering::Relaxed);
        Ok(RowPage(array))
    }

    fn entry(&self, page: u64) -> PageEntry {
        if let Some(array) = self.array(page) {
            return PageEntry::new(0, array.get_array_memory_size());
        }
        let found = self.pages.find(page);
        let record = found.and_then(|(part, page)| Ok((part.number, part.index.page(page)?)));
        record.map_or_else(
            |_| PageEntry::default(),
            |(kind, record)| PageEntry {
                kind,
                ..PageEntry::new(
                    saturated(stored_size(&record)),
                    saturated(numbers_size(&record)),
                )
            },
        )
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        let expansion = self.expansions.get(entry.kind);
        let expansion = expansion.map_or(0, |most| most.load(Ordering::Relaxed));
        let strings = entry.stored_size.saturating_mul(saturated(expansion));
        strings.saturating_add(entry.decoded_size)
    }

    fn will_need(&self, page: u64) {
        self.pages.will_need(page);
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        self.pages.locate(error, page)
    }
}
