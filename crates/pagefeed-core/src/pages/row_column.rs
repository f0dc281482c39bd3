//! Pages of any column, as Arrow arrays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};

use crate::decode::conform;
use crate::engine::{Loading, Page, PageEntry, PageSource};
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::index::{Index, PageRecord};
use crate::infill::{Infilling, infilled_field};
use crate::page::PageOpener;
use crate::pages::infilled::InfilledPages;
use crate::pages::reader::read_array;
use crate::pages::record_column::{RecordColumn, RecordPages};
use crate::pages::sizes::{entry_of, saturated};
use crate::pages::text::Tokenization;
use crate::pages::text_column::TextColumn;
use crate::pages::token_ids::TokenIds;
use crate::schema::common::common_field;
use crate::storage::Fetched;

/// Least assumed ratio of decoded to stored bytes of a page of strings before it is
/// loaded.
const EXPANSION: u64 = 4;
/// Greatest assumed ratio, so that one page of repeated strings does not decide for all.
const MAX_EXPANSION: u64 = 16;

/// Source of a column of one dataset.
pub enum Column {
    /// From the pages of an index.
    Pages(Indexed),
    /// From the pages of an index of texts, as lists of tokens.
    Texts(Indexed, Tokenization),
    /// From the records of flat files.
    Records(RecordColumn),
    /// Few values, each in many rows: rows of this array.
    Values(ArrayRef),
    /// Lists of tokens, or of a number for each token, whose documents are infilled.
    Infilled(Box<Self>, InfilledRows),
}

/// Infilling of the rows of a column.
pub struct InfilledRows {
    /// Numbers the rows.
    pub rows: Indexed,
    /// Settings of infilling.
    pub infilling: Arc<Infilling>,
    /// Bits of the number that markers get, unless the column holds tokens.
    pub filling: Option<u64>,
}

impl Column {
    fn field(&self, name: &str) -> Result<FieldRef> {
        Ok(match self {
            Self::Pages(pages) => Arc::clone(pages.index.field()),
            Self::Texts(pages, how) => how.field(pages.index.field()),
            Self::Records(records) => records.field(name),
            Self::Values(array) => Arc::new(Field::new(name, array.data_type().clone(), true)),
            Self::Infilled(column, _) => infilled_field(&column.field(name)?)?,
        })
    }

    /// Returns the path of the first file, if the column comes from files.
    fn first_file(&self) -> Option<&str> {
        let index = match self {
            Self::Pages(pages) | Self::Texts(pages, _) => &pages.index,
            Self::Records(records) => &records.column.index,
            Self::Infilled(column, _) => return column.first_file(),
            Self::Values(_) => return None,
        };
        (index.num_files() > 0).then(|| index.path(0))
    }

    /// Returns the pages of the column as `data_type`.
    fn source(self, data_type: &DataType, token_ids: Option<TokenIds>) -> Result<Source> {
        Ok(match self {
            Self::Pages(column) => Arc::new(RowColumn {
                column,
                data_type: data_type.clone(),
                expansion: AtomicU64::new(EXPANSION),
                token_ids,
            }),
            Self::Texts(column, tokenization) => {
                Arc::new(TextColumn::new(column, tokenization, token_ids)?.as_lists(data_type))
            }
            Self::Records(column) => Arc::new(RecordPages {
                column,
                data_type: data_type.clone(),
            }),
            Self::Values(array) => Arc::new(Values(conform(&array, data_type)?)),
            Self::Infilled(column, how) => {
                let own = column.field("")?;
                let plain = column.source(own.data_type(), token_ids)?;
                let pages = InfilledPages::new(plain, how.rows, how.infilling, Vec::new());
                Arc::new(pages.as_lists(data_type, how.filling))
            }
        })
    }
}

/// Pages of one column.
type Source = Arc<dyn PageSource>;

/// Returns the columns of several datasets, `names.len()` for each, and their types in
/// all. `token_ids` belong to the first column of each dataset.
pub fn row_columns(
    columns: Vec<Column>,
    names: &[String],
    token_ids: Option<TokenIds>,
) -> Result<(Vec<Source>, Vec<FieldRef>)> {
    let mut fields = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let in_all = columns.iter().skip(number).step_by(names.len());
        fields.push(field_of_all(name, in_all)?);
    }
    let of_columns = fields.iter().enumerate().cycle();
    let numbered = columns.into_iter().zip(of_columns);
    let sources = numbered.map(|(column, (number, field))| {
        column.source(field.data_type(), token_ids.filter(|_| number == 0))
    });
    Ok((sources.collect::<Result<_>>()?, fields))
}

/// Returns the field of a column that fits all datasets.
fn field_of_all<'a>(name: &str, columns: impl Iterator<Item = &'a Column>) -> Result<FieldRef> {
    let mut all: Option<FieldRef> = None;
    for column in columns {
        let field = column.field(name)?;
        all = Some(match &all {
            None => field,
            Some(all) => common_field(all, &field).ok_or_else(|| {
                let error = Error::unsupported(format!(
                    "column {name:?} has type {}, and {} in the datasets before it: the two \
                     have no type in common",
                    field.data_type(),
                    all.data_type()
                ));
                match column.first_file() {
                    Some(file) => error.in_file(file),
                    None => error,
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
        let strings = record.stored_size().saturating_mul(EXPANSION);
        bytes = bytes.saturating_add(strings.saturating_add(numbers_size(&record)));
        rows += record.num_rows;
    }
    Ok(bytes / rows.max(1))
}

/// Estimates the decoded bytes of a page, without strings.
fn numbers_size(record: &PageRecord) -> u64 {
    const BYTES_PER_VALUE: u64 = 8;
    let values = record.num_values.saturating_add(record.num_rows);
    values.saturating_mul(BYTES_PER_VALUE)
}

/// Pages of a column of files.
struct RowColumn {
    column: Indexed,
    /// Type of its pages: the same in all datasets.
    data_type: DataType,
    /// Greatest ratio of decoded to stored bytes so far.
    expansion: AtomicU64,
    /// Ids that it may hold, if it holds tokens.
    token_ids: Option<TokenIds>,
}

impl RowColumn {
    fn read(&self, opener: &mut PageOpener, page: u64, fetched: &Fetched) -> Result<ArrayRef> {
        let array = read_array(&self.column, opener, page, fetched, &self.data_type)?;
        let record = self.column.index.page(page)?;
        if let Some(token_ids) = self.token_ids {
            token_ids
                .check_lists(&array, record.first_row_in_group)
                .map_err(|error| self.column.locate(error, &record))?;
        }
        let stored = record.stored_size();
        let expansion = (array.get_array_memory_size() as u64).div_ceil(stored.max(1));
        let expansion = expansion.min(MAX_EXPANSION);
        self.expansion.fetch_max(expansion, Ordering::Relaxed);
        Ok(array)
    }
}

impl PageSource for RowColumn {
    fn column(&self) -> Option<&Indexed> {
        Some(&self.column)
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        let record = self.column.index.page(page)?;
        Ok(entry_of(
            &record,
            record.stored_size(),
            numbers_size(&record),
        ))
    }

    fn decoded_size(&self, entry: &PageEntry) -> usize {
        let expansion = self.expansion.load(Ordering::Relaxed);
        let strings = entry.stored_size.saturating_mul(saturated(expansion));
        strings.saturating_add(entry.decoded_size)
    }

    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        self.read(loading.opener, page, loading.fetched)
            .map(Page::Rows)
    }
}

/// An array in memory, as a single page.
struct Values(ArrayRef);

impl PageSource for Values {
    fn column(&self) -> Option<&Indexed> {
        None
    }

    fn entry(&self, _: u64) -> Result<PageEntry> {
        Ok(PageEntry::new(0, self.0.get_array_memory_size()))
    }

    fn decode(&self, _: u64, _: Loading<'_>) -> Result<Page> {
        Ok(Page::Rows(Arc::clone(&self.0)))
    }
}
