//! Values of each row, and of each inner list in lists of lists.

use crate::buffers::reserve;
use crate::decode::cursor::{OpenPage, PageCursor};
use crate::error::{Error, Result};
use crate::levels::{Definitions, for_each_list, for_each_record, unpack_levels};
use crate::limits::check_page_size;
use crate::schema::Leaf;

/// Finds where rows begin among the values, page by page.
#[derive(Debug)]
pub(crate) struct RowReader<'a> {
    pub(crate) leaf: &'a Leaf,
    /// First value of each row; the end of the last row is added once it is known.
    pub(crate) offsets: Vec<u32>,
    /// Values seen so far.
    pub(crate) num_values: usize,
    /// Whether any row is null rather than empty, or holds a null.
    pub(crate) has_nulls: bool,
    allow_nulls: bool,
    /// Row number of the first row, for messages.
    first_row: u64,
    num_rows: usize,
    /// Whether the last row is without elements, so that it cannot continue.
    is_empty: bool,
    /// The inner lists of lists of lists.
    pub(super) elements: Option<Elements>,
}

impl<'a> RowReader<'a> {
    /// Reads the rows that a cursor looks for into `offsets`, which is emptied first.
    pub(crate) fn new(cursor: &PageCursor<'a>, mut offsets: Vec<u32>) -> Result<Self> {
        let rows = cursor.rows();
        let num_rows = usize::try_from(rows.end - rows.start)
            .ok()
            .filter(|&rows| rows < u32::MAX as usize)
            .ok_or_else(|| Error::limit("a run of pages is asked for more than 2^32 rows"))?;
        // Every row will take an offset, of however few bytes of levels.
        check_page_size((num_rows as u64 + 1) * size_of::<u32>() as u64)?;
        offsets.clear();
        Ok(Self {
            leaf: cursor.leaf,
            offsets,
            num_values: 0,
            has_nulls: false,
            allow_nulls: false,
            first_row: cursor.run.first_row + rows.start,
            num_rows,
            is_empty: false,
            elements: None,
        })
    }

    /// Accepts nulls inside rows, and counts rows without them.
    pub(crate) fn allow_nulls(mut self) -> Self {
        self.allow_nulls = true;
        self
    }

    /// Reads lists of lists as well.
    pub(crate) fn of_lists(mut self) -> Self {
        self.elements = (self.leaf.max_repetition == 2).then(Elements::default);
        self
    }

    /// Reads the levels of a page.
    pub(crate) fn read(&mut self, page: &OpenPage<'_>) -> Result<()> {
        match self.leaf.max_repetition {
            0 => self.read_flat(page),
            1 => self.read_lists(page),
            2 if self.elements.is_some() => self.read_lists_of_lists(page),
            _ => Err(Error::unsupported(
                "tokens must be integers or lists of them, not lists of lists",
            )),
        }
    }

    /// Ends the last row where the pages end.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.push(self.num_values)
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
    fn read_flat(&mut self, page: &OpenPage<'_>) -> Result<()> {
        let (levels, count) = (&page.levels, page.values.len());
        reserve(&mut self.offsets, levels.len())?;
        if count == levels.len() {
            self.push(self.num_values + count)?; // Checks that all of them fit.
            self.offsets.pop();
            let start = self.num_values as u32;
            self.offsets.extend(start..start + count as u32);
            self.num_values += count;
            return Ok(());
        }
        self.has_nulls = true;
        let mut definitions = Definitions::new(&page.page, self.leaf)?;
        definitions.advance(levels.start)?;
        for _ in levels.clone() {
            self.push(self.num_values)?;
            self.num_values += definitions.advance(1)?.present;
        }
        Ok(())
    }

    /// Reads repetition levels: 0 begins a row. Levels before the first 0 belong to the
    /// row before, possibly of the page before.
    fn read_lists(&mut self, page: &OpenPage<'_>) -> Result<()> {
        let (levels, leaf) = (&page.levels, self.leaf);
        if page.is_full() && !self.is_empty {
            let before = self.num_values;
            for_each_record(&page.page, leaf, |position| {
                match levels.contains(&position) {
                    true => self.push(before + position - levels.start),
                    false => Ok(()),
                }
            })?;
            self.num_values += levels.len();
            return Ok(());
        }
        let mut definitions = Definitions::new(&page.page, leaf)?;
        definitions.advance(levels.start)?;
        let (mut start, mut continues) = (levels.start, true);
        for_each_record(&page.page, leaf, |position| {
            if levels.contains(&position) {
                self.count(&mut definitions, position - start, continues)?;
                self.push(self.num_values)?;
                (start, continues) = (position, false);
            }
            Ok(())
        })?;
        self.count(&mut definitions, levels.end - start, continues)
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
        let goes_on = count > usize::from(!continues);
        if goes_on && (counts.no_elements > 0 || continues && self.is_empty) {
            return Err(self.in_row("is an empty list and continues", Error::corrupt));
        }
        self.num_values += counts.present;
        self.is_empty = counts.no_elements > 0 || count == 0 && self.is_empty;
        if counts.present == count {
            return Ok(());
        }
        if counts.null_elements > 0 && !self.allow_nulls {
            let what = "holds a null token; only whole rows may be null";
            return Err(self.in_row(what, Error::unsupported));
        }
        self.has_nulls |= counts.null_lists + counts.null_elements > 0;
        Ok(())
    }

    /// An error about the row that was begun last.
    fn in_row(&self, what: &str, error: fn(String) -> Error) -> Error {
        let row = self.first_row + (self.offsets.len() as u64).saturating_sub(1);
        error(format!("row {row} of the row group {what}"))
    }
}

/// The inner lists of the rows of a run.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// First value of each inner list.
    pub(crate) starts: Vec<u32>,
    /// First inner list of each row; the end is added when the last row is complete.
    pub(crate) rows: Vec<u32>,
    /// Whether the last row has inner lists, and the last of these has values.
    is_open: [bool; 2],
}

impl Elements {
    /// Memory they take.
    pub(super) fn num_bytes(&self) -> usize {
        (self.starts.capacity() + self.rows.capacity()) * size_of::<u32>()
    }

    fn begin_row(&mut self) -> Result<()> {
        grow(&mut self.rows)?;
        self.rows.push(self.starts.len() as u32);
        Ok(())
    }

    /// Begins an inner list. There are no more of them than levels, whose number fits
    /// 32 bits.
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
    fn read_lists_of_lists(&mut self, page: &OpenPage<'_>) -> Result<()> {
        // Else the page may continue a list that is empty.
        let is_open = self
            .elements
            .as_ref()
            .is_none_or(|own| own.is_open == [true; 2]);
        match page.is_full() && (is_open || !page.starts_mid_record) {
            true => self.read_full_lists(page),
            false => self.read_any_lists(page),
        }
    }

    /// Reads lists without nulls and empty lists: each level is a value.
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
        let (outer, max) = (level(leaf.element_definition(1)), level(max));
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
                return Err(self.in_row("is an empty list and continues", Error::corrupt));
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
