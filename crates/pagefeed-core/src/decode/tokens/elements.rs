//! Lists of lists: where the inner ones begin among the values of a run of pages.

use super::integers::reserve;
use super::rows::RowReader;
use crate::error::{Error, Result};
use crate::levels::{Definitions, for_each_list, num_levels, unpack_levels};
use crate::page::DataPage;

/// The inner lists of the rows of a run.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// First value of each.
    pub(crate) starts: Vec<u32>,
    /// First inner list of each row; one more when the last row is known to be complete.
    pub(crate) rows: Vec<u32>,
    /// Whether the last row holds inner lists, and the last of these values.
    is_open: [bool; 2],
}

impl Elements {
    /// Memory they take.
    pub(super) fn num_bytes(&self) -> usize {
        (self.starts.capacity() + self.rows.capacity()) * size_of::<u32>()
    }

    pub(super) fn begin_row(&mut self) -> Result<()> {
        grow(&mut self.rows)?;
        self.rows.push(self.starts.len() as u32);
        Ok(())
    }

    /// Appends an inner list; there are no more of them than levels, which fit 32 bits.
    fn begin(&mut self, value: usize) -> Result<()> {
        let value = u32::try_from(value)
            .map_err(|_| Error::limit("a run of pages holds more than 2^32 values"))?;
        if self.starts.len() == u32::MAX as usize {
            return Err(Error::limit("a run of pages holds more than 2^32 lists"));
        }
        grow(&mut self.starts)?;
        self.starts.push(value);
        Ok(())
    }
}

fn grow(numbers: &mut Vec<u32>) -> Result<()> {
    match numbers.len() == numbers.capacity() {
        true => reserve(numbers, numbers.len().max(64)),
        false => Ok(()),
    }
}

impl RowReader<'_> {
    /// Reads the levels of a page of lists of lists, see [`RowReader::read`].
    pub(super) fn read_lists_of_lists(&mut self, page: &DataPage<'_>) -> Result<()> {
        let count = num_levels(page)?;
        let all = Definitions::new(page, self.leaf)?.advance(count)?;
        match all.present == count {
            true => self.read_full_lists(page, count)?,
            false => self.read_any_lists(page, count)?,
        }
        if !self.is_done() {
            self.num_levels += count;
        }
        Ok(())
    }

    /// Without nulls and empty lists, each level is a value.
    fn read_full_lists(&mut self, page: &DataPage<'_>, count: usize) -> Result<()> {
        let (leaf, before) = (self.leaf, self.num_values);
        for_each_list(page, leaf, |position, repetition| {
            if self.is_done() {
                return Ok(());
            }
            self.num_values = before + position;
            if repetition == 0 {
                self.begin_row(position)?;
            }
            match self.is_done() {
                true => Ok(()),
                false => self.begin_element(),
            }
        })?;
        if !self.is_done() {
            self.num_values = before + count;
            self.opened([true, true]);
        }
        Ok(())
    }

    fn read_any_lists(&mut self, page: &DataPage<'_>, count: usize) -> Result<()> {
        let leaf = self.leaf;
        let (mut repetition, mut definition) = (Vec::new(), Vec::new());
        let (max_repetition, max) = (leaf.max_repetition, leaf.max_definition);
        unpack_levels(page.repetition, max_repetition, 0..count, &mut repetition)?;
        unpack_levels(page.definition, max, 0..count, &mut definition)?;
        let level = |level: i16| u8::try_from(level).unwrap_or(u8::MAX);
        let (outer, max) = (level(leaf.element_definition), level(max));
        let inner = level(leaf.descriptor.repeated_ancestor_def_level());
        for (position, (repetition, definition)) in
            repetition.into_iter().zip(definition).enumerate()
        {
            if repetition == 0 {
                self.begin_row(position)?;
                self.opened([false, false]);
            }
            if self.is_done() {
                break;
            }
            let [row, list] = self.elements.as_ref().map_or([false; 2], |own| own.is_open);
            // Of a row that is left out, nothing is checked.
            if !self.offsets.is_empty() {
                let goes_on = match repetition {
                    0 => true,
                    1 => row && definition >= outer,
                    _ => list && definition >= inner,
                };
                if !goes_on {
                    return Err(self.in_row("is an empty list and goes on", Error::corrupt));
                }
                let is_null = definition < max
                    && definition >= outer
                    && definition.saturating_add(1) != inner;
                if is_null {
                    let what = "holds a null, which stands for no number: write the file \
                                without nulls in lists";
                    return Err(self.in_row(what, Error::unsupported));
                }
            }
            if definition >= outer && repetition < 2 {
                self.begin_element()?;
            }
            if repetition < 2 {
                self.opened([definition >= outer, definition >= inner]);
            }
            self.num_values += usize::from(definition == max);
        }
        Ok(())
    }

    fn begin_element(&mut self) -> Result<()> {
        let value = self.num_values;
        match &mut self.elements {
            Some(elements) => elements.begin(value),
            None => Ok(()),
        }
    }

    fn opened(&mut self, is_open: [bool; 2]) {
        if let Some(elements) = &mut self.elements {
            elements.is_open = is_open;
        }
    }

    fn in_row(&self, what: &str, error: fn(String) -> Error) -> Error {
        let row = self.first_row + self.offsets.len() as u64 - 1;
        error(format!("row {row} of the row group {what}"))
    }
}
