//! Which values belong to which row.

use super::elements::Elements;
use super::integers::reserve;
use super::wrong_rows;
use crate::decode::PageRun;
use crate::decode::bounds::check as check_size;
use crate::error::{Error, Result};
use crate::levels::{Definitions, for_each_record, num_levels};
use crate::page::DataPage;
use crate::schema::Leaf;

/// Where rows begin among the values of a run of pages, found page by page.
#[derive(Debug)]
pub(crate) struct RowReader<'a> {
    pub(crate) leaf: &'a Leaf,
    /// First value of each row; one more when the last row is known to be complete.
    pub(crate) offsets: Vec<u32>,
    /// Values seen so far.
    pub(crate) num_values: usize,
    /// Whether any row is null rather than empty, or holds a null.
    pub(crate) has_nulls: bool,
    allow_nulls: bool,
    /// Row number of the first row, for messages.
    pub(super) first_row: u64,
    num_rows: usize,
    starts_mid_record: bool,
    /// Levels of the pages before the first row.
    pub(super) num_levels: usize,
    /// Of lists of lists, the inner ones.
    pub(super) elements: Option<Elements>,
}

impl<'a> RowReader<'a> {
    /// Reads rows of `run` into `offsets`, which is emptied first.
    pub(crate) fn new(leaf: &'a Leaf, run: &PageRun, mut offsets: Vec<u32>) -> Result<Self> {
        let num_rows = usize::try_from(run.num_rows)
            .ok()
            .filter(|&rows| rows < u32::MAX as usize)
            .ok_or_else(|| Error::limit("a run of pages is asked for more than 2^32 rows"))?;
        // Every row will take an offset, of however few bytes of levels.
        check_size((num_rows as u64 + 1) * size_of::<u32>() as u64)?;
        offsets.clear();
        Ok(Self {
            leaf,
            offsets,
            num_values: 0,
            has_nulls: false,
            allow_nulls: false,
            first_row: run.first_row,
            num_rows,
            starts_mid_record: run.starts_mid_record,
            num_levels: 0,
            elements: None,
        })
    }

    /// Counts rows with nulls in them as if those were not there.
    pub(crate) fn allow_nulls(mut self) -> Self {
        self.allow_nulls = true;
        self
    }

    /// Reads lists of lists as well.
    pub(crate) fn of_lists(mut self) -> Self {
        self.elements = (self.leaf.max_repetition == 2).then(Elements::default);
        self
    }

    /// Rows seen so far, the last perhaps only in part.
    pub(crate) fn num_begun(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Whether all rows asked for have been seen to their end.
    pub(crate) fn is_done(&self) -> bool {
        self.offsets.len() > self.num_rows
    }

    /// Reads the levels of a page up to the end of the last row asked for; returns
    /// how many of the page's values lie before that.
    pub(crate) fn read(&mut self, page: &DataPage<'_>) -> Result<usize> {
        let before = self.num_values;
        match self.leaf.max_repetition {
            0 => self.read_flat(page)?,
            1 => self.read_lists(page)?,
            2 if self.elements.is_some() => self.read_lists_of_lists(page)?,
            _ => {
                return Err(Error::unsupported(
                    "tokens must be integers or lists of them, not lists of lists",
                ));
            }
        }
        Ok(self.num_values - before)
    }

    /// Ends the last row where the pages end.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if !self.is_done() {
            self.push(self.num_values)?;
        }
        if !self.is_done() {
            return Err(wrong_rows(self.offsets.len() - 1, self.num_rows as u64));
        }
        Ok(())
    }

    fn push(&mut self, offset: usize) -> Result<()> {
        let offset = u32::try_from(offset)
            .map_err(|_| Error::limit("a run of pages holds more than 2^32 values"))?;
        if self.offsets.len() == self.offsets.capacity() {
            // A few bytes of levels can stand for billions of empty rows.
            let more = self.offsets.len().clamp(64, self.num_rows.max(64));
            reserve(&mut self.offsets, more)?;
        }
        self.offsets.push(offset);
        if let Some(elements) = &mut self.elements {
            elements.begin_row()?;
        }
        Ok(())
    }

    /// Without lists every level is a row: of one value, or null.
    fn read_flat(&mut self, page: &DataPage<'_>) -> Result<()> {
        if self.starts_mid_record {
            return Err(Error::invalid(
                "a column without lists has no records to split",
            ));
        }
        let wanted = self.num_rows + 1 - self.offsets.len().min(self.num_rows + 1);
        let count = num_levels(page)?.min(wanted);
        let all = Definitions::new(page, self.leaf)?.advance(count)?;
        reserve(&mut self.offsets, count)?;
        self.has_nulls |= all.present < count;
        if all.present == count {
            self.push(self.num_values + count)?; // Checks that all of them fit.
            self.offsets.pop();
            let start = self.num_values as u32;
            self.offsets.extend(start..start + count as u32);
            self.num_values += count;
        } else {
            let mut definitions = Definitions::new(page, self.leaf)?;
            for _ in 0..count {
                self.push(self.num_values)?;
                self.num_values += definitions.advance(1)?.present;
            }
        }
        // The row behind the last one asked for only marks its end.
        if self.is_done() {
            self.num_values = self.offsets[self.num_rows] as usize;
        }
        Ok(())
    }

    /// A row begins where the repetition level is 0; what comes before belongs to the
    /// row before, possibly from the page before.
    fn read_lists(&mut self, page: &DataPage<'_>) -> Result<()> {
        let mut definitions = Definitions::new(page, self.leaf)?;
        let (mut start, mut continues) = (0, true);
        for_each_record(page, self.leaf, |position| {
            if !self.is_done() {
                self.count(&mut definitions, position - start, continues)?;
                self.begin_row(position)?;
                (start, continues) = (position, false);
            }
            Ok(())
        })?;
        if !self.is_done() {
            let count = num_levels(page)? - start;
            self.count(&mut definitions, count, continues)?;
            self.num_levels += num_levels(page)?;
        }
        Ok(())
    }

    pub(super) fn begin_row(&mut self, position: usize) -> Result<()> {
        let is_mid_record = self.num_levels + position > 0;
        if self.offsets.is_empty() && is_mid_record != self.starts_mid_record {
            let begins = |mid| {
                if mid {
                    "inside a record"
                } else {
                    "with a record"
                }
            };
            return Err(Error::corrupt(format!(
                "the page was indexed as beginning {}, and begins {}; build the index again",
                begins(self.starts_mid_record),
                begins(is_mid_record)
            )));
        }
        self.push(self.num_values)
    }

    /// Counts the values of `count` levels of one row, which `continues` from before
    /// or begins with them.
    fn count(
        &mut self,
        definitions: &mut Definitions<'_>,
        count: usize,
        continues: bool,
    ) -> Result<()> {
        let counts = definitions.advance(count)?;
        self.num_values += counts.present;
        // Of a row that is left out, nothing is checked.
        if counts.present == count || self.offsets.is_empty() {
            return Ok(());
        }
        let row = self.first_row + self.offsets.len() as u64 - 1;
        if counts.no_elements > 0 && (continues || count > 1) {
            return Err(Error::corrupt(format!(
                "row {row} of the row group is an empty list and goes on"
            )));
        }
        if counts.null_elements > 0 && !self.allow_nulls {
            return Err(Error::unsupported(format!(
                "row {row} of the row group holds a null token; only whole rows may be null"
            )));
        }
        self.has_nulls |= counts.null_lists + counts.null_elements > 0;
        Ok(())
    }
}
