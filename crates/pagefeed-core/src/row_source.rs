//! Pages of any columns, as the engine loads them for batches of rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::Array;

use crate::engine::{PageSource, RowPage};
use crate::error::{Error, Result};
use crate::index::{Index, PageRecord};
use crate::numbering::NumberedPages;
use crate::page::PageOpener;
use crate::reader::{locate, read_array};
use crate::store::Store;
use crate::token_ids::TokenIds;

/// How much larger than stored a page of strings is taken to be at least, before it is
/// loaded: what text compresses to.
const EXPANSION: u64 = 4;
/// And at most, lest one page of repeated strings make all look giant.
const MAX_EXPANSION: u64 = 16;

/// Pages of several columns, numbered through in the order of the columns.
pub struct RowSource {
    pages: NumberedPages,
    /// By column, how much larger than stored a page was at most so far.
    expansions: Vec<AtomicU64>,
    /// Of how many columns the first holds tokens, and which numbers these may be.
    token_ids: Option<(usize, TokenIds)>,
}

impl RowSource {
    /// Numbers the pages of `columns`.
    pub fn new(columns: Vec<(Arc<Index>, Arc<Store>)>) -> Self {
        Self {
            expansions: columns.iter().map(|_| AtomicU64::new(EXPANSION)).collect(),
            pages: NumberedPages::new(columns),
            token_ids: None,
        }
    }

    /// Refuses pages with other numbers in the first of every `num_columns` columns.
    pub fn only(mut self, token_ids: TokenIds, num_columns: usize) -> Self {
        self.token_ids = Some((num_columns.max(1), token_ids));
        self
    }
}

/// Bytes that a row of a column takes in memory, about: from the sizes of some pages.
pub fn mean_row_bytes(index: &Index) -> Result<u64> {
    const SAMPLED: u64 = 256;
    let step = (index.num_pages() / SAMPLED).max(1);
    let (mut bytes, mut rows) = (0u64, 0u64);
    for page in (0..index.num_pages()).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let record = index.page(page)?;
        bytes = bytes.saturating_add(decoded_size(&record, EXPANSION));
        rows += record.num_rows;
    }
    Ok(bytes / rows.max(1))
}

/// Estimate of a decoded page's bytes.
fn decoded_size(record: &PageRecord, expansion: u64) -> u64 {
    const BYTES_PER_VALUE: u64 = 8;
    let values = record.num_values.saturating_add(record.num_rows);
    let numbers = values.saturating_mul(BYTES_PER_VALUE);
    let strings = stored_size(record).saturating_mul(expansion);
    strings.saturating_add(numbers)
}

/// Bytes that are read for a page: its dictionary is read with each page.
fn stored_size(record: &PageRecord) -> u64 {
    let dictionary = record.dictionary.as_ref();
    let dictionary = dictionary.map_or(0, |range| range.end.saturating_sub(range.start));
    record.compressed_size.saturating_add(dictionary)
}

impl PageSource<RowPage> for RowSource {
    fn load(&self, opener: &mut PageOpener, page: u64, _: Option<RowPage>) -> Result<RowPage> {
        let (part, page) = self.pages.find(page)?;
        let array = read_array(&part.index, &part.store, opener, page)?;
        let record = part.index.page(page)?;
        if let Some((num_columns, token_ids)) = self.token_ids
            && part.number.is_multiple_of(num_columns)
        {
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

    fn decoded_size(&self, page: u64) -> usize {
        let Ok((part, page)) = self.pages.find(page) else {
            return 0;
        };
        let expansion = self.expansions[part.number].load(Ordering::Relaxed);
        let record = part.index.page(page);
        let bytes = record.map_or(0, |record| decoded_size(&record, expansion));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn will_need(&self, page: u64) {
        self.pages.will_need(page);
    }

    fn stored_size(&self, page: u64) -> usize {
        let record = self.pages.record(page);
        let bytes = record.map_or(0, |record| stored_size(&record));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        self.pages.locate(error, page)
    }
}
