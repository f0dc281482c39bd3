//! Places of fields in the memory of a batch.

use std::ops::Range;

use super::{Field, FieldType, Fields, Slots};
use crate::tokens::{Number, as_numbers};

/// Alignment of a field: a line of the cache, and any vector.
const ALIGNMENT: usize = 64;

/// Byte range of each field; empty for fields that are not made.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    ranges: [Range<usize>; Field::ALL.len()],
    /// Byte ranges of the aligned columns.
    aligned: Vec<Range<usize>>,
}

/// Memory of each field.
pub struct Views<'a> {
    fields: [&'a mut [u8]; Field::ALL.len()],
    /// Memory of the aligned columns.
    pub aligned: Vec<&'a mut [u8]>,
}

impl Sections {
    /// Ranges for a batch of `num_tokens` tokens of `token_bytes` bytes.
    pub fn new(fields: &Fields, num_tokens: usize, token_bytes: usize) -> Self {
        let mut end = 0usize;
        let ranges = Field::ALL.map(|field| {
            let width = match field {
                Field::InputIds => token_bytes,
                _ => fields.type_of(field).num_bytes(),
            };
            let num_bytes = field
                .entry()
                .shape
                .most_numbers(num_tokens)
                .saturating_mul(width);
            if num_bytes == 0 || !fields.has(field) {
                return end..end;
            }
            let start = end.checked_next_multiple_of(ALIGNMENT).unwrap_or(end);
            end = start.saturating_add(num_bytes);
            start..end
        });
        Self {
            ranges,
            aligned: Vec::new(),
        }
    }

    /// Adds, at the end, the range of a column with this many bytes for each token.
    pub fn with_aligned(mut self, num_tokens: usize, number_bytes: usize) -> Self {
        let end = self.num_bytes();
        let start = end.checked_next_multiple_of(ALIGNMENT).unwrap_or(end);
        let end = start.saturating_add(num_tokens.saturating_mul(number_bytes));
        self.aligned.push(start..end);
        self
    }

    /// Bytes of all.
    pub fn num_bytes(&self) -> usize {
        let last = self.aligned.last().or(self.ranges.last());
        last.map_or(0, |range| range.end)
    }

    /// Byte range of an aligned column.
    pub fn aligned_range(&self, column: usize) -> Range<usize> {
        self.aligned.get(column).cloned().unwrap_or_default()
    }

    /// The bytes of a field.
    pub fn range(&self, field: Field) -> Range<usize> {
        self.ranges[field as usize].clone()
    }

    /// Splits the memory of a batch; all views are empty if it is too small.
    pub fn split<'a>(&self, bytes: &'a mut [u8]) -> Views<'a> {
        let mut end = self.ranges.last().map_or(0, |range| range.end);
        let (fields, mut rest) = bytes.split_at_mut(end.min(bytes.len()));
        let fields = fields.get_disjoint_mut(self.ranges.clone());
        let aligned = self.aligned.iter().map(|range| {
            let (before, size) = (range.start - end, range.len());
            end = range.end;
            let behind = std::mem::take(&mut rest).split_at_mut_checked(before);
            let view = behind.and_then(|(_, behind)| behind.split_at_mut_checked(size));
            let (view, behind) = view.unwrap_or_default();
            rest = behind;
            view
        });
        Views {
            aligned: aligned.collect(),
            fields: fields.unwrap_or_else(|_| std::array::from_fn(|_| Default::default())),
        }
    }
}

impl<'a> Views<'a> {
    /// Takes out the memory of a field as numbers; `None` if the field is not made.
    pub fn take<T: Number>(&mut self, field: Field) -> &'a mut [T] {
        as_numbers(std::mem::take(&mut self.fields[field as usize]))
    }

    /// Takes out the memory of a field as numbers of its type.
    pub fn slots(&mut self, fields: &Fields, field: Field) -> Slots<'a> {
        match fields.type_of(field) {
            FieldType::Bool => Slots::Bool(self.take(field)),
            FieldType::I32 => Slots::I32(self.take(field)),
            FieldType::I64 => Slots::I64(self.take(field)),
            FieldType::F32 => Slots::F32(self.take(field)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_apart_aligned_and_only_if_made() {
        let wanted = [Field::Labels, Field::CuSeqlens, Field::LossMask];
        let sections = Sections::new(&Fields::new(&wanted, false, false), 100, 2);
        assert_eq!(sections.range(Field::InputIds), 0..200);
        assert_eq!(sections.range(Field::Labels), 256..1056);
        assert!(sections.range(Field::PositionIds).is_empty());
        assert_eq!(sections.range(Field::CuSeqlens), 1088..1492);
        assert_eq!(sections.range(Field::LossMask), 1536..1636);
        assert_eq!(sections.num_bytes(), 1636);
        let mut bytes = vec![0; 1636];
        let mut views = sections.split(&mut bytes);
        for field in Field::ALL {
            assert_eq!(views.take::<u8>(field).len(), sections.range(field).len());
        }
        let mut views = sections.split(&mut bytes[1..]);
        assert!(views.take::<i64>(Field::Labels).is_empty());
        let alone = Sections::new(&Fields::default(), 3, 8);
        assert_eq!(alone.num_bytes(), 24);
        let huge = Sections::new(&Fields::new(&wanted, false, false), usize::MAX, 8);
        assert_eq!(huge.num_bytes(), usize::MAX);
    }
}
