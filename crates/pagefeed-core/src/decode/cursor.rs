//! One way through the data pages of a run: each is opened once, and found in it is what
//! belongs to the rows asked for.

use std::ops::Range;

use parquet::basic::Encoding;

use super::PageRun;
use crate::error::{Error, Result};
use crate::header::{PageHeader, PageKind};
use crate::levels::{Definitions, find_records, num_levels};
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;

/// Walks the data pages of a run from the first to the last.
pub(crate) struct PageCursor<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) run: &'a PageRun,
    /// Pages that are left, as stored.
    bytes: &'a [u8],
    /// Rows asked for, numbered from the first whole record of the run.
    rows: Range<u64>,
    /// Rows that have begun in the pages opened so far.
    num_begun: u64,
    is_first: bool,
    is_done: bool,
    is_in_tail: bool,
}

/// A data page before it is opened.
pub(crate) struct StoredPage<'a> {
    pub(crate) header: PageHeader,
    /// Bytes after the header.
    bytes: &'a [u8],
}

/// A data page, and which of its rows are wanted.
pub(crate) struct OpenPage<'a> {
    pub(crate) page: DataPage<'a>,
    /// Levels of the wanted rows, and their values.
    pub(crate) levels: Range<usize>,
    pub(crate) values: Range<usize>,
    /// Levels and values of the whole page.
    pub(crate) num_levels: usize,
    pub(crate) num_present: usize,
    /// Rows that begin in the page.
    pub(crate) num_rows: u64,
    /// Whether the page begins in the middle of a record.
    pub(crate) starts_mid_record: bool,
}

impl OpenPage<'_> {
    /// Whether every level has a value.
    pub(crate) fn is_full(&self) -> bool {
        self.num_present == self.num_levels
    }
}

impl StoredPage<'_> {
    /// Whether the values are indices into a dictionary.
    pub(crate) fn has_indices(&self) -> bool {
        self.header.encoding() == Some(Encoding::RLE_DICTIONARY)
    }
}

impl<'a> PageCursor<'a> {
    /// Returns a cursor before the first page of a run; `rows` are those that begin in
    /// it.
    pub(crate) fn new(leaf: &'a Leaf, run: &'a PageRun, rows: Range<u64>) -> Self {
        Self {
            bytes: &run.data,
            leaf,
            run,
            rows,
            num_begun: 0,
            is_first: true,
            is_done: false,
            is_in_tail: false,
        }
    }

    /// The rows asked for.
    pub(crate) fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Returns the next page, unless all wanted rows are complete.
    pub(crate) fn next(&mut self) -> Result<Option<StoredPage<'a>>> {
        match self.is_done {
            true => Ok(None),
            false => self.next_stored(),
        }
    }

    /// The next page that is not empty; leaves out pages of other kinds.
    fn next_stored(&mut self) -> Result<Option<StoredPage<'a>>> {
        while !self.bytes.is_empty() {
            let header = PageHeader::parse(self.bytes)?
                .ok_or_else(|| Error::corrupt("the page ends inside its header"))?;
            let (page, rest) = self
                .bytes
                .split_at_checked(header.stored_size())
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "the page takes {} bytes, {} are there",
                        header.stored_size(),
                        self.bytes.len()
                    ))
                })?;
            self.bytes = rest;
            if header.num_levels().is_some_and(|num_levels| num_levels > 0) {
                if rest.len() < self.run.tail_size && !self.is_in_tail {
                    self.is_in_tail = true;
                    self.check_rows()?;
                }
                let bytes = &page[header.header_size..];
                return Ok(Some(StoredPage { header, bytes }));
            }
        }
        Ok(None)
    }

    /// Opens the last page that was read.
    pub(crate) fn open<'p>(
        &mut self,
        opener: &'p mut PageOpener,
        stored: &'p StoredPage<'a>,
    ) -> Result<OpenPage<'p>> {
        let (leaf, begun) = (self.leaf, self.num_begun);
        let page = opener.data_page(&stored.header, stored.bytes, self.run.codec, leaf)?;
        let num_levels = num_levels(&page)?;
        let Range { start, end } = self.rows;
        let numbers = [0, start, end].map(|row| row.saturating_sub(begun));
        let (num_rows, [first, from, to]) = find_records(&page, leaf, numbers)?;
        let starts_mid_record = first > 0;
        if std::mem::take(&mut self.is_first) && starts_mid_record != self.run.starts_mid_record {
            return Err(Error::corrupt(
                "the page does not begin with the record it was indexed with; \
                 build the index again",
            ));
        }
        let from = if begun > start { 0 } else { from };
        let to = if begun > end { 0 } else { to }.max(from);
        self.num_begun += num_rows;
        let has_lists = leaf.max_repetition > 0;
        self.is_done = self.num_begun > end || (!has_lists && self.num_begun == end);
        let mut definitions = Definitions::new(&page, leaf)?;
        let before = definitions.advance(from)?.present;
        let own = definitions.advance(to - from)?.present;
        let behind = definitions.advance(num_levels - to)?.present;
        definitions.check_end()?;
        let num_present = before + own + behind;
        if !has_lists {
            check_nulls(&stored.header, num_levels - num_present)?;
        }
        Ok(OpenPage {
            page,
            levels: from..to,
            values: before..before + own,
            num_levels,
            num_present,
            num_rows,
            starts_mid_record,
        })
    }

    /// Whether no bytes are left.
    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The dictionary page of the run.
    pub(crate) fn dictionary(&self) -> Result<&'a [u8]> {
        self.run
            .dictionary
            .as_deref()
            .ok_or_else(missing_dictionary)
    }

    /// Refuses a run with other rows than in the index. Pages after the wanted rows are
    /// read for their levels only.
    pub(crate) fn finish(mut self, opener: &mut PageOpener) -> Result<()> {
        while !self.is_in_tail
            && let Some(stored) = self.next_stored()?
            && !self.is_in_tail
        {
            self.open(opener, &stored)?;
        }
        match self.is_in_tail {
            true => Ok(()),
            false => self.check_rows(),
        }
    }

    /// Checks that pages before the tail have the rows of the index; otherwise the rows
    /// of later pages would be wrong, too.
    fn check_rows(&self) -> Result<()> {
        let (found, expected) = (self.num_begun, self.run.num_rows);
        if found == expected && self.rows.end <= expected {
            return Ok(());
        }
        let error = Error::corrupt(format!(
            "{expected} rows were expected, the pages hold {found}: the file's page index \
             cannot be right; index the file with page_index=False"
        ));
        Err(error.in_column(&self.leaf.path))
    }
}

/// Refuses levels with other nulls than the header says. Arrow counts those of lists
/// otherwise, and its old releases say 0 for any of a dictionary.
fn check_nulls(header: &PageHeader, num_nulls: usize) -> Result<()> {
    match header.kind {
        PageKind::DataV2(v2) if ![0, num_nulls].contains(&v2.num_nulls) => {
            Err(Error::corrupt(format!(
                "the levels of the page hold {num_nulls} nulls, its header promises {}",
                v2.num_nulls
            )))
        }
        _ => Ok(()),
    }
}

pub(crate) fn missing_dictionary() -> Error {
    Error::corrupt("the page refers to a dictionary, and there is none")
}
