//! Rows of columns other than the tokens, in any pages.
//!
//! A page of tokens names rows; another column has its pages elsewhere. A page that
//! several pages of tokens share is made once and kept in [`SharedPages`].

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};

use super::dictionaries::{Cache, Cached, Key};
use super::sizes::saturated;
use crate::decode::OpenedRun;
use crate::error::{Error, Result};
use crate::index::Indexed;
use crate::index::PageRecord;
use crate::sync::{Mutex, PoisonError};

/// Rows of one page of a column.
pub(super) struct PageRows {
    pub page: u64,
    pub record: PageRecord,
    /// Numbers of the rows within the page.
    pub rows: Range<usize>,
}

impl PageRows {
    fn are_all(&self) -> bool {
        self.rows.len() as u64 == self.record.num_rows
    }
}

impl Indexed {
    /// The pages that hold `rows` of the index, and which of their rows these are.
    pub(super) fn page_rows(&self, rows: &Range<u64>) -> Result<Vec<PageRows>> {
        let index = &self.index;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let pages = index.page_of_row(rows.start)?..=index.page_of_row(rows.end - 1)?;
        let of_page = |page| {
            let own = index.rows_of_page(page)?;
            let begin = rows.start.max(own.start) - own.start;
            let end = rows.end.min(own.end).saturating_sub(own.start);
            Ok(PageRows {
                record: index.page(page)?,
                rows: saturated(begin)..saturated(end),
                page,
            })
        };
        let found: Result<Vec<PageRows>> = pages.map(of_page).collect();
        // A page inside of a long row begins no row.
        let mut found = found?;
        found.retain(|slice| !slice.rows.is_empty());
        Ok(found)
    }

    /// Refuses a column whose files have other numbers of rows than those of `tokens`.
    pub(super) fn check_rows(&self, tokens: &Self) -> Result<()> {
        if self.index.file_first_row() == tokens.index.file_first_row() {
            return Ok(());
        }
        Err(Error::invalid(
            "columns of the same rows belong to indexes of the same files",
        ))
    }
}

/// A page that several pages of tokens share.
#[derive(Clone)]
pub enum SharedPage {
    /// Numbers, decompressed.
    Numbers(Arc<OpenedRun>),
    /// Rows of any type, decoded.
    Rows(ArrayRef),
}

impl Cached for SharedPage {
    fn num_bytes(&self) -> usize {
        match self {
            Self::Numbers(run) => run.num_bytes(),
            Self::Rows(rows) => rows.get_array_memory_size(),
        }
    }
}

/// Pages made at the same time, unless two of them share a lock.
const MADE_AT_ONCE: usize = 64;

/// Pages of columns besides the tokens, kept inside a byte budget.
pub struct SharedPages {
    cache: Cache<SharedPage>,
    /// Held while a page is made, one lock for many: what one thread makes, the others
    /// find.
    making: [Mutex<()>; MADE_AT_ONCE],
}

impl SharedPages {
    /// Keeps at most `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self {
            cache: Cache::new(capacity),
            making: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// Bytes of the pages that are kept.
    pub fn num_bytes(&self) -> usize {
        self.cache.num_bytes()
    }

    /// Returns the page of `slice`; makes it with `make` unless it is kept. A page whose
    /// rows are all wanted is not kept.
    pub(super) fn get_or_make(
        &self,
        column: &Indexed,
        slice: &PageRows,
        make: impl FnOnce() -> Result<SharedPage>,
    ) -> Result<SharedPage> {
        if slice.are_all() {
            return make();
        }
        let key = column.key(&slice.record, slice.record.offset);
        self.make_once(key, slice.page, make)
    }

    /// Returns the page of `key`; makes it unless it is kept or another thread does.
    fn make_once(
        &self,
        key: Key,
        page: u64,
        make: impl FnOnce() -> Result<SharedPage>,
    ) -> Result<SharedPage> {
        let turn = &self.making[saturated(page) % MADE_AT_ONCE];
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.cache.get_or_load(key, make)
    }

    /// Whether the page of `slice` is kept.
    pub(super) fn has(&self, column: &Indexed, slice: &PageRows) -> bool {
        self.cache
            .has(&column.key(&slice.record, slice.record.offset))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use arrow_array::Int32Array;

    use super::*;

    #[test]
    fn what_one_thread_makes_the_others_find() {
        let pages = SharedPages::new(1 << 20);
        let num_made = AtomicUsize::new(0);
        let make = || {
            num_made.fetch_add(1, Ordering::Relaxed);
            // Long enough for the other thread to come.
            thread::sleep(Duration::from_millis(50));
            Ok(SharedPage::Rows(Arc::new(Int32Array::from(vec![1, 2, 3]))))
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| pages.make_once((0, 0, 7), 7, make).unwrap());
            }
        });
        assert_eq!(num_made.into_inner(), 1);
    }
}
