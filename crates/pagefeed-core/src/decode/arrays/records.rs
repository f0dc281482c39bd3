//! Levels of some rows of a leaf, one by one: which value belongs where.

use std::ops::Range;

use crate::decode::PageRun;
use crate::decode::tokens::integers::reserve;
use crate::error::{Error, Result};
use crate::levels::{Definitions, find_records, num_levels, unpack_levels};
use crate::page::DataPage;
use crate::schema::Leaf;

/// The levels of the rows asked for, read page by page.
pub(crate) struct Records {
    /// Of every level; empty if the leaf has none.
    definition: Vec<u8>,
    repetition: Vec<u8>,
    num_levels: usize,
    num_values: usize,
    max: (i16, i16),
    /// Rows asked for, by their numbers in the run.
    rows: Range<u64>,
    /// Rows of the run that have begun.
    begun: u64,
    starts_mid_record: bool,
    is_first: bool,
    is_done: bool,
}

/// What of a page belongs to the rows asked for.
pub(crate) struct Wanted {
    levels: Range<usize>,
    /// Which of its values do.
    pub(crate) values: Range<usize>,
    /// Values of all of it.
    pub(crate) num_present: usize,
}

impl Records {
    /// Reads `rows` of the row group.
    pub(crate) fn new(leaf: &Leaf, run: &PageRun, rows: Range<u64>) -> Self {
        Self {
            definition: Vec::new(),
            repetition: Vec::new(),
            num_levels: 0,
            num_values: 0,
            max: (leaf.max_definition, leaf.max_repetition),
            rows: rows.start.saturating_sub(run.first_row)..rows.end.saturating_sub(run.first_row),
            begun: 0,
            starts_mid_record: run.starts_mid_record,
            is_first: true,
            is_done: false,
        }
    }

    /// Rows of the run that have begun in the pages read so far.
    pub(crate) fn num_begun(&self) -> u64 {
        self.begun
    }

    /// Whether the last row asked for has come to its end.
    pub(crate) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Finds what belongs to the rows asked for in the next page, without taking memory
    /// for it.
    pub(crate) fn find(&mut self, page: &DataPage<'_>, leaf: &Leaf) -> Result<Wanted> {
        let (count, begun, rows) = (num_levels(page)?, self.begun, self.rows.clone());
        let numbers = [0, rows.start, rows.end].map(|row| row.saturating_sub(begun));
        let (num_records, [first, start, end]) = find_records(page, leaf, numbers)?;
        if std::mem::take(&mut self.is_first) && (first > 0) != self.starts_mid_record {
            return Err(Error::corrupt(
                "the page does not begin with the record it was indexed with; \
                 build the index again",
            ));
        }
        let start = if begun > rows.start { 0 } else { start };
        let end = if begun > rows.end { 0 } else { end };
        self.begun += num_records;
        self.is_done = self.begun > rows.end || (self.max.1 == 0 && self.begun == rows.end);
        let mut definitions = Definitions::new(page, leaf)?;
        let before = definitions.advance(start)?.present;
        let own = definitions.advance(end.saturating_sub(start))?.present;
        let behind = definitions.advance(count - end.max(start))?.present;
        Ok(Wanted {
            levels: start..end,
            values: before..before + own,
            num_present: before + own + behind,
        })
    }

    /// Appends the levels that were found in a page.
    pub(crate) fn append(&mut self, page: &DataPage<'_>, wanted: &Wanted) -> Result<()> {
        let levels = &wanted.levels;
        for (bytes, max, all) in [
            (page.definition, self.max.0, &mut self.definition),
            (page.repetition, self.max.1, &mut self.repetition),
        ] {
            if max > 0 {
                unpack_levels(bytes, max, levels.clone(), all)?;
            }
        }
        self.num_levels += levels.len();
        self.num_values += wanted.values.len();
        Ok(())
    }

    /// Whether rows behind the last one asked for begin in the page read last.
    pub(crate) fn leaves_rows(&self) -> bool {
        self.begun > self.rows.end
    }

    /// Refuses pages that end before the rows do.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.begun < self.rows.end {
            return Err(Error::corrupt(format!(
                "{} rows were expected, the pages hold {}",
                self.rows.end, self.begun
            )));
        }
        Ok(())
    }

    /// Whether any place is without a value.
    pub(crate) fn has_nulls(&self) -> bool {
        self.num_values < self.num_levels
    }

    /// Level of a value that is there.
    pub(crate) fn max_definition(&self) -> u8 {
        self.max.0 as u8
    }

    /// Repetition and definition levels.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        (0..self.num_levels).map(|at| {
            let level = |levels: &[u8]| levels.get(at).copied().unwrap_or(0);
            (level(&self.repetition), level(&self.definition))
        })
    }

    /// Definition levels of the places in the list that goes on at `repetition`, which
    /// has elements from the definition level `element` on.
    pub(crate) fn places(&self, repetition: i16, element: u8) -> Result<Vec<u8>> {
        let mut places = Vec::new();
        reserve(&mut places, self.num_levels)?;
        let levels = self.levels();
        places.extend(
            levels
                .filter(|&(r, d)| i16::from(r) <= repetition && d >= element)
                .map(|(_, d)| d),
        );
        Ok(places)
    }

    /// Whether the lists that go on at `repetition` and above, which have elements from
    /// the definition level `element` on, are of the same lengths.
    pub(crate) fn agrees(&self, other: &Self, repetition: i16, element: u8) -> bool {
        if self.max.1 == repetition && other.max.1 == repetition {
            return self.repetition == other.repetition;
        }
        let is_place = |&(r, d): &(u8, u8)| i16::from(r) <= repetition && d >= element;
        let (left, right) = (
            self.levels().filter(is_place),
            other.levels().filter(is_place),
        );
        left.map(|(r, _)| r).eq(right.map(|(r, _)| r))
    }
}
