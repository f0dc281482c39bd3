//! Lists of lists: where the inner ones begin among the values of a run of pages.

use super::integers::reserve;
use super::rows::RowReader;
use crate::decode::cursor::OpenPage;
use crate::error::{Error, Result};
use crate::levels::{for_each_list, unpack_levels};

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
    pub(super) fn read_lists_of_lists(&mut self, page: &OpenPage<'_>) -> Result<()> {
        match page.is_full() {
            true => self.read_full_lists(page),
            false => self.read_any_lists(page),
        }
    }

    /// Without nulls and empty lists, each level is a value.
    fn read_full_lists(&mut self, page: &OpenPage<'_>) -> Result<()> {
        let (levels, before) = (&page.levels, self.num_values);
        for_each_list(&page.page, self.leaf, |position, repetition| {
            if !levels.contains(&position) {
                return Ok(());
            }
            self.num_values = before + position - levels.start;
            if repetition == 0 {
                self.push(self.num_values)?;
            }
            self.begin_element()
        })?;
        self.num_values = before + levels.len();
        self.opened([true, true]);
        Ok(())
    }

    fn read_any_lists(&mut self, page: &OpenPage<'_>) -> Result<()> {
        let leaf = self.leaf;
        let (mut repetition, mut definition) = (Vec::new(), Vec::new());
        let (max, wanted) = (leaf.max_definition, &page.levels);
        for (bytes, max, levels) in [
            (page.page.repetition, leaf.max_repetition, &mut repetition),
            (page.page.definition, max, &mut definition),
        ] {
            unpack_levels(bytes, max, wanted.clone(), levels)?;
        }
        let level = |level: i16| u8::try_from(level).unwrap_or(u8::MAX);
        let (outer, max) = (level(leaf.element_definition), level(max));
        let inner = level(leaf.descriptor.repeated_ancestor_def_level());
        for (repetition, definition) in repetition.into_iter().zip(definition) {
            if repetition == 0 {
                self.push(self.num_values)?;
                self.opened([false, false]);
            }
            let [row, list] = self.elements.as_ref().map_or([false; 2], |own| own.is_open);
            let goes_on = match repetition {
                0 => true,
                1 => row && definition >= outer,
                _ => list && definition >= inner,
            };
            if !goes_on {
                return Err(self.in_row("is an empty list and goes on", Error::corrupt));
            }
            let is_null =
                definition < max && definition >= outer && definition.saturating_add(1) != inner;
            if is_null {
                let what = "holds a null, which stands for no number: write the file \
                            without nulls in lists";
                return Err(self.in_row(what, Error::unsupported));
            }
            if repetition < 2 {
                if definition >= outer {
                    self.begin_element()?;
                }
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
}
