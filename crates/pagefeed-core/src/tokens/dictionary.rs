//! Decoded dictionaries of integer columns.

use super::integers::{Tokens, with_values};

/// The entries of a dictionary.
#[derive(Clone, Debug)]
pub struct Dictionary {
    /// Empty if each entry is its own index.
    entries: Tokens,
    /// Number of entries if each is its own index, as in files that pagefeed writes:
    /// then the indices of a page are its values, and no table is looked up or kept.
    num_indices: Option<usize>,
}

impl Dictionary {
    /// The dictionary of these entries.
    pub fn new(entries: Tokens) -> Self {
        match with_values!(&entries, values => are_indices(values)) {
            true => Self {
                num_indices: Some(entries.len()),
                entries: entries.empty(),
            },
            false => Self::of_table(entries),
        }
    }

    /// A dictionary whose entries are looked up, of any values.
    pub fn of_table(entries: Tokens) -> Self {
        Self {
            entries,
            num_indices: None,
        }
    }

    /// The table of entries; an empty one of their type if [`Self::num_indices`] says how
    /// many there are.
    pub fn entries(&self) -> &Tokens {
        &self.entries
    }

    /// Number of entries if each is its own index.
    pub fn num_indices(&self) -> Option<usize> {
        self.num_indices
    }

    /// Memory it takes.
    pub fn num_bytes(&self) -> usize {
        match self.num_indices {
            Some(_) => size_of::<Self>(),
            None => self.entries.num_bytes(),
        }
    }
}

fn are_indices<T: Copy + Into<i64>>(values: &[T]) -> bool {
    let mut numbered = values.iter().zip(0..);
    numbered.all(|(&value, index)| value.into() == index)
}
