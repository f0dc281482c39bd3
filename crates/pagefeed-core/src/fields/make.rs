//! Writes the fields of a batch, row by row and segment by segment.
//!
//! The loops are plain so that the compiler vectorises them, compiled again for AVX2
//! and chosen at run time.

use std::ops::Range;

use super::lengths::{longest, put_lengths};
use super::{Borders, Field, Fields, Segment, Slots, Views};
use crate::tokens::Number;

/// Results of making fields, besides the memory of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Borders that were written: one more than segments.
    pub num_borders: usize,
    /// Tokens of the longest segment.
    pub max_seqlen: usize,
    /// Segments of the row that has most, if their lengths are written.
    pub most_segments: usize,
    /// Tokens in the longest segment of each row, if asked for.
    pub max_doc_lens: Vec<usize>,
}

/// Writes the fields of a batch, row after row, best while its tokens are in the
/// processor's cache. The memory is empty for fields that are not made.
pub struct Maker<'a> {
    /// Memory of each field.
    slots: [Slots<'a>; Field::ALL.len()],
    /// Whether the longest segment of each row was asked for.
    wants_longest: bool,
    ignored: i64,
    across_documents: bool,
    /// Positions by which labels precede their tokens.
    shift: usize,
    row_length: usize,
    /// Whether segments are counted with the padding that fills them up, and without.
    counts_both: bool,
    multiple_of: usize,
    /// Segments, and tokens of documents, so far.
    num_segments: i64,
    num_own: usize,
    /// End of the padding that fills up the last document.
    filled_up: usize,
    /// First token of the next row.
    next: usize,
    made: Made,
}

impl<'a> Maker<'a> {
    /// Prepares to make fields in their memory, of rows of `row_length`. The caller has
    /// taken the memory of the tokens.
    pub fn new(fields: &Fields, row_length: usize, views: &mut Views<'a>) -> Self {
        Self {
            slots: Field::ALL.map(|field| views.slots(fields, field)),
            wants_longest: fields.has(Field::MaxDocLens),
            ignored: fields.ignored,
            across_documents: fields.across_documents,
            shift: usize::from(fields.shifted),
            row_length,
            counts_both: fields.has(Field::CuSeqlensPadded),
            multiple_of: fields.multiple_of,
            num_segments: 0,
            num_own: 0,
            filled_up: 0,
            next: 0,
            made: Made::default(),
        }
    }

    /// Makes the fields of complete rows, which are before token `end` of the batch.
    pub fn make_before<T: Number + Into<i64>>(
        &mut self,
        end: usize,
        tokens: &[T],
        borders: &Borders,
    ) {
        while self.next + self.row_length <= end && self.row_length > 0 {
            let row = self.next..self.next + self.row_length;
            self.next = row.end;
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                unsafe { self.make_avx2(row, tokens, borders) };
                continue;
            }
            self.make(row, tokens, borders);
        }
    }

    /// Makes the fields of the remaining rows.
    pub fn finish<T: Number + Into<i64>>(mut self, tokens: &[T], borders: &Borders) -> Made {
        self.make_before(tokens.len(), tokens, borders);
        self.put_border(tokens.len());
        if let Slots::I32(doc_lens) = self.slot(Field::DocLens) {
            let doc_lens = std::mem::take(doc_lens);
            self.made.most_segments = put_lengths(doc_lens, self.row_length, borders);
        }
        if self.wants_longest {
            self.made.max_doc_lens = longest(self.row_length, borders);
        }
        self.made
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn make_avx2<T: Number + Into<i64>>(
        &mut self,
        row: Range<usize>,
        tokens: &[T],
        borders: &Borders,
    ) {
        self.make(row, tokens, borders);
    }

    #[inline(always)]
    fn make<T: Number + Into<i64>>(&mut self, row: Range<usize>, tokens: &[T], borders: &Borders) {
        let mut num_documents = 0;
        for segment in borders.segments(row.clone()) {
            self.count_segment(segment.positions.clone(), segment.is_document);
            self.put_segment(
                segment.positions.clone(),
                segment.is_document,
                num_documents,
            );
            self.put_labels(&row, &segment, tokens);
            num_documents += i32::from(segment.is_document);
        }
    }

    /// Records the border before a segment, and its length. Padding fills a document up
    /// to a multiple; padding beyond it is an empty segment.
    #[inline(always)]
    fn count_segment(&mut self, segment: Range<usize>, is_document: bool) {
        let Range { mut start, mut end } = segment;
        let num_own = if is_document { end - start } else { 0 };
        if self.counts_both && is_document {
            end = start + num_own.next_multiple_of(self.multiple_of);
            self.filled_up = end;
        } else if self.counts_both {
            start = start.max(self.filled_up);
        }
        if start < end {
            self.put_border(start);
            self.made.max_seqlen = self.made.max_seqlen.max(end - start);
        }
        self.num_own += num_own;
    }

    #[inline(always)]
    fn put_border(&mut self, position: usize) {
        let number = self.made.num_borders;
        let own = if self.counts_both {
            self.num_own
        } else {
            position
        };
        self.slot(Field::CuSeqlens)
            .fill(number..number + 1, own as i64);
        self.slot(Field::CuSeqlensPadded)
            .fill(number..number + 1, position as i64);
        self.made.num_borders += 1;
    }

    /// Writes fields that the tokens of a segment share, and their positions in it.
    #[inline(always)]
    fn put_segment(&mut self, segment: Range<usize>, is_document: bool, number: i32) {
        self.slot(Field::PositionIds).count(segment.clone());
        let document = if is_document { number } else { -1 };
        self.slot(Field::DocumentIds)
            .fill(segment.clone(), document.into());
        self.slot(Field::AttentionMask)
            .fill(segment.clone(), is_document.into());
        let number = self.num_segments;
        self.slot(Field::SeqIdx).fill(segment, number);
        self.num_segments += 1;
    }

    /// Writes the labels that are tokens of a segment.
    #[inline(always)]
    fn put_labels<T: Number + Into<i64>>(
        &mut self,
        row: &Range<usize>,
        segment: &Segment,
        tokens: &[T],
    ) {
        let labels = segment.labels(row, self.shift, self.across_documents);
        let positions = labels.labelled;
        self.ignore(labels.before);
        self.ignore(labels.behind);
        let predicted = positions.start + self.shift..positions.end + self.shift;
        self.slot(Field::Labels)
            .copy(positions.clone(), &tokens[predicted]);
        self.slot(Field::LossMask).fill(positions, 1);
    }

    #[inline(always)]
    fn ignore(&mut self, positions: Range<usize>) {
        let ignored = self.ignored;
        self.slot(Field::Labels).fill(positions.clone(), ignored);
        self.slot(Field::LossMask).fill(positions, 0);
    }

    #[inline(always)]
    fn slot(&mut self, field: Field) -> &mut Slots<'a> {
        &mut self.slots[field as usize]
    }
}

#[cfg(test)]
mod tests;
