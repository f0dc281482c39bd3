//! Levels of some rows of a leaf, one by one: which value belongs where.

use std::ops::Range;

use crate::decode::PageRun;
use crate::decode::tokens::integers::reserve;
use crate::error::{Error, Result};
use crate::levels::{num_levels, unpack_levels};
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

    /// Reads the levels of the next page; returns which of its values belong to the
    /// rows asked for.
    pub(crate) fn read(&mut self, page: &DataPage<'_>) -> Result<Range<usize>> {
        let (count, old) = (num_levels(page)?, self.num_levels);
        let (max_definition, max_repetition) = self.max;
        if max_repetition > 0 {
            unpack_levels(page.repetition, max_repetition, count, &mut self.repetition)?;
        }
        if max_definition > 0 {
            unpack_levels(page.definition, max_definition, count, &mut self.definition)?;
        }
        let kept = self.wanted(old, count)?;
        let max = self.max_definition();
        let present = |levels: Range<usize>| match max_definition {
            0 => levels.len(),
            _ => {
                let levels = &self.definition[old + levels.start..old + levels.end];
                levels.iter().filter(|&&level| level == max).count()
            }
        };
        let (start, num_values) = (present(0..kept.start), present(kept.clone()));
        for levels in [&mut self.repetition, &mut self.definition] {
            if !levels.is_empty() {
                levels.truncate(old + kept.end);
                levels.drain(old..old + kept.start);
            }
        }
        self.num_levels += kept.len();
        self.num_values += num_values;
        Ok(start..start + num_values)
    }

    /// Which of the last `count` levels, from `old` on, are of rows asked for.
    fn wanted(&mut self, old: usize, count: usize) -> Result<Range<usize>> {
        let repetition = self.repetition.get(old..).unwrap_or_default();
        let (begun, rows) = (self.begun, self.rows.clone());
        let num_records = match self.max.1 {
            0 => count,
            _ => repetition.iter().filter(|&&level| level == 0).count(),
        };
        if std::mem::take(&mut self.is_first) {
            let is_mid_record = repetition.first().is_some_and(|&level| level > 0);
            if is_mid_record != self.starts_mid_record {
                return Err(Error::corrupt(
                    "the page does not begin with the record it was indexed with; \
                     build the index again",
                ));
            }
        }
        // Where row `row` begins; `count` if it does not in this page.
        let begin = |row: u64| match row - begun {
            nth if nth >= num_records as u64 => count,
            nth if repetition.is_empty() => nth as usize,
            nth => nth_zero(repetition, nth as usize),
        };
        let start = if begun > rows.start {
            0
        } else {
            begin(rows.start)
        };
        let end = if begun > rows.end { 0 } else { begin(rows.end) };
        self.begun += num_records as u64;
        self.is_done = self.begun > rows.end || (self.max.1 == 0 && self.begun == rows.end);
        Ok(start..end)
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

/// Where the zero number `nth` of the levels is, counted from 0; their number if there
/// are not so many.
fn nth_zero(levels: &[u8], mut nth: usize) -> usize {
    const CHUNK: usize = 128;
    let is_zero = |level: &&u8| **level == 0;
    for (number, chunk) in levels.chunks(CHUNK).enumerate() {
        let zeros = chunk.iter().filter(is_zero).count();
        if nth < zeros {
            let mut places = chunk.iter().enumerate().filter(|(_, level)| is_zero(level));
            let place = places.nth(nth).map_or(0, |(place, _)| place);
            return number * CHUNK + place;
        }
        nth -= zeros;
    }
    levels.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::testing::Random;

    #[test]
    fn zeros_are_found_by_their_number() {
        let mut random = Random(2);
        for length in [0, 1, 127, 128, 129, 1000] {
            let levels: Vec<u8> = (0..length).map(|_| random.below(3) as u8).collect();
            let places = (0..levels.len()).filter(|&at| levels[at] == 0);
            let mut count = 0;
            for (nth, place) in places.enumerate() {
                assert_eq!(nth_zero(&levels, nth), place);
                count += 1;
            }
            assert_eq!(nth_zero(&levels, count), levels.len());
        }
    }
}
