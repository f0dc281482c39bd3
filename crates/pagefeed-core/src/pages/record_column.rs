//! Columns of flat files other than the tokens, row by row.

use std::sync::Arc;

use arrow_array::{ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef};

use crate::decode::conform;
use crate::engine::{ExtraReads, Loading, Page, PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::pages::flat::{self, FlatField};
use crate::pages::sizes::entry_of;
use crate::pages::stream_spans::{StreamSpans, spans_type};
use crate::storage::Fetched;
use crate::tokens::{Numbers, TokenPage};

/// The values to read from records.
#[derive(Clone)]
pub enum RecordValues {
    /// A number of each record, as lists.
    Numbers(FlatField),
    /// The spans whose payloads they name.
    Spans(Arc<StreamSpans>),
}

/// Values in the records of an index of flat files, as a column.
#[derive(Clone)]
pub struct RecordColumn {
    /// The index.
    pub column: Indexed,
    /// The values to read.
    pub values: RecordValues,
}

impl RecordColumn {
    /// Returns the field of the column, with a name.
    pub fn field(&self, name: &str) -> FieldRef {
        let data_type = match &self.values {
            RecordValues::Spans(_) => spans_type(),
            RecordValues::Numbers(field) => {
                DataType::List(Arc::new(Field::new("element", item_type(*field), false)))
            }
        };
        Arc::new(Field::new(name, data_type, false))
    }

    /// Bytes that a row takes in memory, about.
    pub fn row_bytes(&self) -> u64 {
        let index = &self.column.index;
        match &self.values {
            RecordValues::Spans(spans) => spans.row_bytes(),
            RecordValues::Numbers(field) => {
                let bytes = (field.end() - field.offset) as u64 * index.num_values();
                bytes / index.num_rows().max(1)
            }
        }
    }

    /// The rows of a page.
    pub fn read(&self, page: u64, fetched: &Fetched) -> Result<ArrayRef> {
        let index = &self.column.index;
        let record = index.page(page)?;
        let read = || {
            let flat = index.as_flat();
            let flat = flat.ok_or_else(|| Error::invalid("numbers of records"))?;
            let field = match &self.values {
                RecordValues::Spans(spans) => spans.field(),
                RecordValues::Numbers(field) => *field,
            };
            let storage = fetched.over(&*self.column.storage);
            let mut found = TokenPage::default();
            flat::load(index, flat, &[field], &storage, page, &record, &mut found)?;
            match &self.values {
                RecordValues::Spans(spans) => {
                    let told = spans.of_pages(&[(record.file, &found)]);
                    told.map_err(|(_, error)| error)
                }
                RecordValues::Numbers(field) => lists(&found, *field),
            }
        };
        read().map_err(|error| self.column.locate(error, &record))
    }
}

/// Returns the numbers of a page's records as lists.
fn lists(page: &TokenPage, field: FlatField) -> Result<ArrayRef> {
    let lacks = || Error::internal("records without a number");
    let numbers = page.aligned.last().and_then(Numbers::to_buffer);
    let values = ArrayData::builder(field.number.data_type())
        .len(page.tokens.len() * field.width)
        .add_buffer(numbers.ok_or_else(lacks)?)
        .build()?;
    let items = match item_type(field) {
        several @ DataType::FixedSizeList(..) => ArrayData::builder(several)
            .len(page.tokens.len())
            .add_child_data(values)
            .build()?,
        _ => values,
    };
    flat::lists_of_elements(&page.row_offsets, make_array(items))
}

/// Type of what a record has in a field: a number, or a list of several.
fn item_type(field: FlatField) -> DataType {
    match (field.width, field.number.data_type()) {
        (1, number) => number,
        (width, number) => {
            let number = Field::new("element", number, false);
            DataType::FixedSizeList(Arc::new(number), width as i32)
        }
    }
}

/// Pages of such a column, converted to a type.
pub(super) struct RecordPages {
    pub column: RecordColumn,
    pub data_type: DataType,
}

impl PageSource for RecordPages {
    fn column(&self) -> Option<&Indexed> {
        Some(&self.column.column)
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        let record = self.column.column.index.page(page)?;
        let decoded = self.column.row_bytes().saturating_mul(record.num_rows);
        Ok(entry_of(&record, record.compressed_size, decoded))
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let rows = self.column.read(page, loading.fetched)?;
        conform(&rows, &self.data_type).map(Page::Rows)
    }

    fn extra_reads(&self) -> ExtraReads {
        match &self.column.values {
            RecordValues::Spans(spans) => spans.extra_reads(),
            RecordValues::Numbers(_) => ExtraReads::default(),
        }
    }
}
