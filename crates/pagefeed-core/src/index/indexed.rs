//! An index, and where its files are read.

use std::sync::Arc;

use arrow_array::ArrayRef;

use super::page_index::Index;
use super::record::PageRecord;
use crate::error::{Error, Result};
use crate::storage::{Fetched, FileRanges, Storage, fetch};

/// An index whose pages are to be read.
#[derive(Clone)]
pub struct Indexed {
    /// The index.
    pub index: Arc<Index>,
    /// Storage of its files.
    pub storage: Arc<dyn Storage>,
    /// Verify CRCs of its pages where they are present.
    pub verify_checksums: bool,
    /// Values of rows that files lack.
    pub lacking: Lacking,
}

/// Values of rows in files that lack a column, or fields in it; null without it.
#[derive(Clone, Default)]
pub struct Lacking {
    /// Values of the column for each file.
    pub column: Option<ArrayRef>,
    /// Values of fields: see [`crate::decode::with_defaults`].
    pub fields: Option<ArrayRef>,
}

impl Indexed {
    /// Fetches ranges of several pages, unless they may as well be read when they are
    /// decoded.
    pub(crate) async fn fetch(
        &self,
        pages: &[u64],
        mut ranges: impl FnMut(u64) -> Result<FileRanges>,
    ) -> Result<Vec<Fetched>> {
        if self.storage.num_in_flight() == 0 {
            return Ok(pages.iter().map(|_| Fetched::default()).collect());
        }
        let mut located = |&page: &u64| ranges(page).map_err(|error| self.locate_page(error, page));
        let ranges: Vec<FileRanges> = pages.iter().map(&mut located).collect::<Result<_>>()?;
        fetch(&*self.storage, &ranges).await
    }

    /// Adds file and location of a page to an error.
    pub(crate) fn locate(&self, error: Error, record: &PageRecord) -> Error {
        error
            .in_file(self.index.path(record.file as usize))
            .in_chunk(record.row_group, self.index.column())
            .at_page(u64::from(record.page))
            .at_offset(record.offset)
    }

    /// Adds the location of a page, given by its number, to an error.
    pub fn locate_page(&self, error: Error, page: u64) -> Error {
        match self.index.page(page) {
            Ok(record) => self.locate(error, &record),
            Err(_) => error,
        }
    }

    /// Tells the system that a page will be loaded soon.
    pub(crate) fn will_need(&self, page: u64) {
        if let Ok(record) = self.index.page(page) {
            let file = &self.index.file(record.file as usize);
            let end = record.offset + record.compressed_size + record.tail_size;
            self.storage.will_need(file, record.offset..end);
        }
    }
}
