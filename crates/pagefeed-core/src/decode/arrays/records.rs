//! Levels of some rows of a leaf, one by one: which value belongs where.

use crate::buffers::reserve;
use crate::decode::cursor::OpenPage;
use crate::error::Result;
use crate::levels::unpack_levels;
use crate::schema::Leaf;

/// The levels of the rows asked for, read page by page.
#[derive(Default)]
pub(crate) struct Records {
    /// Definition level of each entry; empty if the leaf has none.
    definition: Vec<u8>,
    repetition: Vec<u8>,
    num_levels: usize,
    num_values: usize,
    max: (i16, i16),
}

impl Records {
    /// Reads the levels of a leaf.
    pub(crate) fn new(leaf: &Leaf) -> Self {
        Self {
            max: (leaf.max_definition, leaf.max_repetition),
            ..Self::default()
        }
    }

    /// Appends the levels that a page has of the rows.
    pub(crate) fn append(&mut self, open: &OpenPage<'_>) -> Result<()> {
        let levels = &open.levels;
        for (bytes, max, all) in [
            (open.page.definition, self.max.0, &mut self.definition),
            (open.page.repetition, self.max.1, &mut self.repetition),
        ] {
            if max > 0 {
                unpack_levels(bytes, max, levels.clone(), all)?;
            }
        }
        self.num_levels += levels.len();
        self.num_values += open.values.len();
        Ok(())
    }

    /// Whether any entry has no value.
    pub(crate) fn has_nulls(&self) -> bool {
        self.num_values < self.num_levels
    }

    /// Definition level of a value.
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

    /// Definition levels of the entries of the list that continues at `repetition`; its
    /// elements are present from definition level `element` on.
    pub(crate) fn elements(&self, repetition: i16, element: u8) -> Result<Vec<u8>> {
        let mut found = Vec::new();
        reserve(&mut found, self.num_levels)?;
        let levels = self.levels();
        found.extend(
            levels
                .filter(|&(r, d)| i16::from(r) <= repetition && d >= element)
                .map(|(_, d)| d),
        );
        Ok(found)
    }

    /// Whether two leaves have equally long lists: those that continue at `repetition`
    /// and above, whose elements are present from definition level `element` on.
    pub(crate) fn agrees(&self, other: &Self, repetition: i16, element: u8) -> bool {
        if self.max.1 == repetition && other.max.1 == repetition {
            return self.repetition == other.repetition;
        }
        let is_element = |&(r, d): &(u8, u8)| i16::from(r) <= repetition && d >= element;
        let (left, right) = (
            self.levels().filter(is_element),
            other.levels().filter(is_element),
        );
        left.map(|(r, _)| r).eq(right.map(|(r, _)| r))
    }
}
