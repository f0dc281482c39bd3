//! Begins of segments in a batch, as bits: they may be noted in any order, and take
//! the same memory however short the documents are.

use std::ops::Range;

use crate::tokens::Continues;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Borders of the segments of a batch; borders between its rows are implied.
#[derive(Clone, Debug, Default)]
pub struct Borders {
    /// For each token, whether a segment begins at it.
    begins: Vec<u64>,
    /// For each token, whether a document or a part of one begins at it.
    documents: Vec<u64>,
    num_tokens: usize,
}

impl Borders {
    /// Returns the bytes for a batch of `num_tokens` tokens.
    pub fn num_bytes(num_tokens: usize) -> usize {
        2 * num_tokens.div_ceil(WORD) * size_of::<u64>()
    }

    /// Clears the borders for a batch of `num_tokens` tokens; memory is reused.
    pub fn reset(&mut self, num_tokens: usize) {
        for bits in [&mut self.begins, &mut self.documents] {
            bits.clear();
            bits.resize(num_tokens.div_ceil(WORD), 0);
        }
        self.num_tokens = num_tokens;
    }

    /// Adds a part of a document, which must be inside the batch. `continues` says whether
    /// it continues the part before, or is continued by the part after it.
    pub fn add(&mut self, begin: usize, end: usize, continues: Continues) {
        if !continues.before {
            set(&mut self.begins, begin);
        }
        set(&mut self.documents, begin);
        if end < self.num_tokens && !continues.after {
            set(&mut self.begins, end);
        }
    }

    /// Tokens of the batch.
    pub fn num_tokens(&self) -> usize {
        self.num_tokens
    }

    /// Returns the first border at or after `position`, or the end.
    pub fn next(&self, position: usize) -> usize {
        let mut number = position / WORD;
        let Some(&first) = self.begins.get(number) else {
            return self.num_tokens;
        };
        let mut word = first & (u64::MAX << (position % WORD));
        while word == 0 {
            number += 1;
            match self.begins.get(number) {
                Some(&next) => word = next,
                None => return self.num_tokens,
            }
        }
        number * WORD + word.trailing_zeros() as usize
    }

    /// Whether the segment that begins at `position` belongs to a document.
    pub fn is_document(&self, position: usize) -> bool {
        self.documents[position / WORD] >> (position % WORD) & 1 == 1
    }

    /// Returns the segments of a row, in order.
    #[inline(always)]
    pub fn segments(&self, row: Range<usize>) -> Segments<'_> {
        Segments {
            borders: self,
            row,
            follows: false,
        }
    }
}

/// Positions of a row up to the next border: a document or part of one, or padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Positions in the batch.
    pub positions: Range<usize>,
    /// Whether it is a document or a part of one.
    pub is_document: bool,
    /// Whether the segment before it in the row is a document.
    follows: bool,
}

/// Positions that predict the tokens of a segment, or none: the segment's own positions,
/// moved by the shift of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Positions before the first label.
    pub before: Range<usize>,
    /// Positions with a label, which is the token `shift` positions later.
    pub labelled: Range<usize>,
    /// Positions after the last label: those at the end of a row.
    pub behind: Range<usize>,
}

impl Segment {
    /// Returns the positions with and without labels. Each label stands `shift`
    /// positions before its token, and not before the `row` of the segment.
    /// `across_documents` lets the last token of a document predict the first of the
    /// next one.
    #[inline(always)]
    pub fn labels(&self, row: &Range<usize>, shift: usize, across_documents: bool) -> Labels {
        let Range { start, end } = self.positions;
        let predicted = match self.is_document {
            false => end,
            true if across_documents && self.follows => start,
            true => start + 1,
        };
        let first = start.max(row.start + shift) - shift;
        let (middle, last) = (predicted - shift, end - shift);
        Labels {
            before: first..middle,
            labelled: middle..last,
            behind: last..if end == row.end { end } else { last },
        }
    }
}

/// Segments of a row, see [`Borders::segments`].
pub struct Segments<'a> {
    borders: &'a Borders,
    /// Positions that are left of the row.
    row: Range<usize>,
    follows: bool,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    #[inline(always)]
    fn next(&mut self) -> Option<Segment> {
        let start = self.row.start;
        if start >= self.row.end {
            return None;
        }
        self.row.start = self.borders.next(start + 1).min(self.row.end);
        let is_document = self.borders.is_document(start);
        Some(Segment {
            positions: start..self.row.start,
            is_document,
            follows: std::mem::replace(&mut self.follows, is_document),
        })
    }
}

fn set(bits: &mut [u64], position: usize) {
    bits[position / WORD] |= 1 << (position % WORD);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_predicted_inside_documents_and_across_them() {
        let mut borders = Borders::default();
        borders.reset(64);
        for (begin, end) in [(0, 10), (10, 20), (30, 40)] {
            borders.add(begin, end, Continues::default());
        }
        let labelled = |row: Range<usize>, shift, across| -> Vec<Range<usize>> {
            let labels = borders.segments(row.clone());
            let labels: Vec<Labels> = labels.map(|s| s.labels(&row, shift, across)).collect();
            // Together they are all positions of the row, in order.
            let all = labels
                .iter()
                .flat_map(|own| [&own.before, &own.labelled, &own.behind]);
            let all: Vec<usize> = all.cloned().flatten().collect();
            assert_eq!(all, row.collect::<Vec<_>>());
            labels.into_iter().map(|own| own.labelled).collect()
        };
        // Padding predicts no token, however documents follow it.
        let own = [1..10, 11..20, 30..30, 31..40, 50..50];
        assert_eq!(labelled(0..50, 0, false), own);
        let across = [1..10, 10..20, 30..30, 31..40, 50..50];
        assert_eq!(labelled(0..50, 0, true), across);
        let before = |positions: Range<usize>| positions.start - 1..positions.end - 1;
        assert_eq!(labelled(0..50, 1, false), own.map(before));
        assert_eq!(labelled(0..50, 1, true), across.map(before));
        // Nothing predicts the first token of a row.
        assert_eq!(labelled(10..40, 1, true), [10..19, 29..29, 30..39]);
        let positions = borders.segments(5..25).map(|segment| segment.positions);
        assert_eq!(positions.collect::<Vec<_>>(), [5..10, 10..20, 20..25]);
    }

    #[test]
    fn parts_that_go_on_have_no_border_between() {
        let mut borders = Borders::default();
        borders.reset(300);
        let (before, after) = (true, true);
        borders.add(100, 200, Continues { before, after });
        borders.add(
            200,
            250,
            Continues {
                before,
                after: false,
            },
        );
        borders.add(
            0,
            100,
            Continues {
                before: false,
                after,
            },
        );
        assert_eq!(
            [borders.next(0), borders.next(1), borders.next(251)],
            [0, 250, 300]
        );
        assert!(borders.is_document(200)); // Begin of a row of the batch.
    }

    #[test]
    fn borders_are_found_in_any_order_and_across_words() {
        let mut borders = Borders::default();
        borders.reset(300);
        borders.add(128, 300, Continues::default());
        borders.add(0, 1, Continues::default());
        borders.add(63, 64, Continues::default());
        let found: Vec<usize> = (0..=300).map(|position| borders.next(position)).collect();
        let all = [0, 1, 63, 64, 128, 300];
        for (position, next) in found.into_iter().enumerate() {
            assert_eq!(Some(&next), all.iter().find(|&&border| border >= position));
        }
        let documents = all[..5]
            .iter()
            .filter(|&&position| borders.is_document(position));
        assert_eq!(documents.collect::<Vec<_>>(), [&0, &63, &128]);
        borders.reset(64);
        assert_eq!(borders.next(0), 64);
        assert_eq!(Borders::num_bytes(65), 32);
    }
}
