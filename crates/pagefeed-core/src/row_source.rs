//! Pages of any columns, as the engine loads them for batches of rows.

use std::sync::Arc;

use crate::engine::{PageSource, RowPage};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::numbering::NumberedPages;
use crate::page::PageOpener;
use crate::reader::read_array;
use crate::store::Store;

/// How much larger than stored a page of strings is taken to be before it is loaded:
/// what text compresses to. The engine learns the true size when the page is there.
const EXPANSION: usize = 4;

/// Pages of several columns, numbered through in the order of the columns.
pub struct RowSource {
    pages: NumberedPages,
}

impl RowSource {
    /// Numbers the pages of `columns`.
    pub fn new(columns: Vec<(Arc<Index>, Arc<Store>)>) -> Self {
        Self {
            pages: NumberedPages::new(columns),
        }
    }

    /// Bytes that a row of `num_columns` columns takes in memory, about: from some of
    /// the pages.
    pub fn mean_row_bytes(&self, num_columns: usize) -> usize {
        const SAMPLED: u64 = 256;
        let step = (self.pages.len() / SAMPLED).max(1);
        let (mut bytes, mut rows) = (0u64, 0u64);
        for page in (0..self.pages.len()).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            if let Ok(record) = self.pages.record(page) {
                bytes = bytes.saturating_add(self.decoded_size(page) as u64);
                rows += record.num_rows;
            }
        }
        let mean = usize::try_from(bytes / rows.max(1)).unwrap_or(usize::MAX);
        mean.saturating_mul(num_columns)
    }
}

impl PageSource<RowPage> for RowSource {
    fn load(&self, opener: &mut PageOpener, page: u64, _: Option<RowPage>) -> Result<RowPage> {
        let (part, page) = self.pages.find(page)?;
        read_array(&part.index, &part.store, opener, page).map(RowPage)
    }

    fn decoded_size(&self, page: u64) -> usize {
        const BYTES_PER_VALUE: u64 = 8;
        let values = self.pages.record(page).map_or(0, |record| {
            (record.num_values + record.num_rows).saturating_mul(BYTES_PER_VALUE)
        });
        let stored = self.pages.stored_size(page).saturating_mul(EXPANSION);
        stored.saturating_add(usize::try_from(values).unwrap_or(usize::MAX))
    }

    fn will_need(&self, page: u64) {
        self.pages.will_need(page);
    }

    fn stored_size(&self, page: u64) -> usize {
        self.pages.stored_size(page)
    }

    fn locate(&self, error: Error, page: u64) -> Error {
        self.pages.locate(error, page)
    }
}
