//! Levels of some rows of a leaf, one by one: which value belongs where.

use crate::decode::cursor::OpenPage;
use crate::error::{Error, Result};
use crate::levels::unpack_levels;
use crate::schema::{Leaf, Node};

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

    /// Repetition and definition levels.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        (0..self.num_levels).map(|at| {
            let level = |levels: &[u8]| levels.get(at).copied().unwrap_or(0);
            (level(&self.repetition), level(&self.definition))
        })
    }

    /// Refuses a list that has no element and continues. Readers of such levels lose the elements,
    /// or give them to another list.
    fn check_lists(&self, leaf: &Leaf) -> Result<()> {
        if leaf.max_repetition == 0 || !self.has_nulls() {
            return Ok(());
        }
        let elements: Vec<u8> = (0..=leaf.max_repetition)
            .map(|repetition| leaf.element_definition(repetition) as u8)
            .collect();
        let mut last = u8::MAX;
        for (repetition, definition) in self.levels() {
            // Which is 0 for a level that begins a row.
            let element = match repetition {
                0 => 0,
                _ => elements[usize::from(repetition)],
            };
            if definition.min(last) < element {
                return Err(Error::corrupt(format!(
                    "a list in {} is empty or null and continues",
                    leaf.path
                )));
            }
            last = definition;
        }
        Ok(())
    }

    /// The levels of the instances of a node, as all leaves below it must have them.
    fn of_node(&self, node: Node) -> impl Iterator<Item = (u8, u8)> + '_ {
        let [most, definition] = [node.repetition as u8, node.definition as u8];
        let levels = self.levels().filter(move |&(r, _)| r <= most);
        levels.map(move |(r, d)| (r, d.min(definition)))
    }
}

/// Refuses levels that contradict each other: those of a leaf, and those of leaves that
/// have lists and structs in common, of which readers take the levels of one.
pub(crate) fn check_levels(leaves: &[Leaf], records: &[Records]) -> Result<()> {
    for (leaf, own) in leaves.iter().zip(records) {
        own.check_lists(leaf)?;
    }
    for (leaf, own) in leaves.windows(2).zip(records.windows(2)) {
        let ([first, second], [left, right]) = (leaf, own) else {
            continue;
        };
        let node = first.shared_node(second);
        let are_flat = node.repetition == 0 && !left.has_nulls() && !right.has_nulls();
        if !are_flat && !left.of_node(node).eq(right.of_node(node)) {
            return Err(Error::corrupt(format!(
                "{} and {} contradict each other: their lists or structs are of other rows",
                first.path, second.path
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
