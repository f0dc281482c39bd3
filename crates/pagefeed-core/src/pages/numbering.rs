//! Pages of several indexes, numbered through.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::index::{Index, PageRecord};
use crate::pages::reader;
use crate::pages::text::TextColumn;
use crate::store::Store;

/// An index whose pages are to be read.
pub struct Indexed {
    /// The index.
    pub index: Arc<Index>,
    /// Where its files are read.
    pub store: Arc<Store>,
    /// Verify CRCs of its pages where they are present.
    pub verify_checksums: bool,
    /// How its texts become tokens, if they are to.
    pub text: Option<TextColumn>,
}

/// One index among those numbered through.
pub struct Part {
    /// The index.
    pub index: Arc<Index>,
    /// Where its files are read.
    pub store: Arc<Store>,
    /// Verify CRCs of its pages where they are present.
    pub verify_checksums: bool,
    /// How its texts become tokens, if they are to.
    pub text: Option<TextColumn>,
    /// Its number among them.
    pub number: usize,
    /// Number of its first page.
    first_page: u64,
}

/// Pages of several indexes, numbered through in the order of the indexes.
pub struct NumberedPages {
    parts: Vec<Part>,
    num_pages: u64,
}

impl NumberedPages {
    /// Numbers the pages of `indexes`.
    pub fn new(indexes: Vec<Indexed>) -> Self {
        let mut num_pages = 0;
        let part = |(number, indexed): (usize, Indexed)| {
            let first_page = num_pages;
            num_pages += indexed.index.num_pages();
            Part {
                index: indexed.index,
                store: indexed.store,
                verify_checksums: indexed.verify_checksums,
                text: indexed.text,
                number,
                first_page,
            }
        };
        let parts = indexes.into_iter().enumerate().map(part).collect();
        Self { parts, num_pages }
    }

    /// Number of pages of all indexes.
    pub fn num_pages(&self) -> u64 {
        self.num_pages
    }

    /// The index of a page, and the page's number there.
    pub fn find(&self, page: u64) -> Result<(&Part, u64)> {
        if page >= self.num_pages {
            return Err(Error::invalid(format!(
                "page {page} is out of range: there are {} pages",
                self.num_pages
            )));
        }
        let part = self.parts.partition_point(|part| part.first_page <= page) - 1;
        let part = &self.parts[part];
        Ok((part, page - part.first_page))
    }

    /// Where a page lies and what it holds.
    pub fn record(&self, page: u64) -> Result<PageRecord> {
        let (part, page) = self.find(page)?;
        part.index.page(page)
    }

    /// Says where in which file an error about `page` is.
    pub fn locate(&self, error: Error, page: u64) -> Error {
        let Ok((part, page)) = self.find(page) else {
            return error;
        };
        match part.index.page(page) {
            Ok(record) => reader::locate(&part.index, &record, error),
            Err(_) => error,
        }
    }

    /// Tells the system that a page will be loaded soon.
    pub fn will_need(&self, page: u64) {
        let Ok((part, page)) = self.find(page) else {
            return;
        };
        if let Ok(record) = part.index.page(page) {
            let file = &part.index.files()[record.file as usize];
            let end = record.offset + record.compressed_size + record.tail_size;
            part.store.will_need(file, record.offset..end);
        }
    }
}

/// Bytes as memory counts them.
pub(super) fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
