//! Writes the fields of a batch, row by row and segment by segment.
//!
//! The loops are plain so that the compiler vectorises them, compiled once more for
//! AVX2 and chosen at run time.

use std::ops::Range;

use super::{Borders, Field, Fields, IGNORED, Number, Parts};

/// What fields came to, beside their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Borders that were written: one more than segments.
    pub num_borders: usize,
    /// Tokens of the longest segment.
    pub max_seqlen: usize,
}

/// Makes the fields of a batch of rows of `row_length` in its memory, where its tokens
/// are already.
pub fn make<T: Number + Into<i64>>(
    fields: &Fields,
    row_length: usize,
    borders: &Borders,
    parts: Parts<'_>,
) -> Made {
    let maker = Maker::<T>::new(fields, parts);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { make_avx2(maker, row_length, borders) };
    }
    maker.make(row_length, borders)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn make_avx2<T: Number + Into<i64>>(
    maker: Maker<'_, T>,
    row_length: usize,
    borders: &Borders,
) -> Made {
    maker.make(row_length, borders)
}

/// The memory of the fields; empty for those that are not made.
struct Maker<'a, T> {
    tokens: &'a [T],
    labels: &'a mut [i64],
    position_ids: &'a mut [i64],
    document_ids: &'a mut [i32],
    cu_seqlens: &'a mut [i32],
    attention_mask: &'a mut [u8],
    loss_mask: &'a mut [u8],
    across_documents: bool,
    /// Places by which labels stand before their token.
    shift: usize,
}

impl<'a, T: Number + Into<i64>> Maker<'a, T> {
    fn new(fields: &Fields, mut parts: Parts<'a>) -> Self {
        Self {
            tokens: parts.take(Field::InputIds),
            labels: parts.take(Field::Labels),
            position_ids: parts.take(Field::PositionIds),
            document_ids: parts.take(Field::DocumentIds),
            cu_seqlens: parts.take(Field::CuSeqlens),
            attention_mask: parts.take(Field::AttentionMask),
            loss_mask: parts.take(Field::LossMask),
            across_documents: fields.across_documents,
            shift: usize::from(fields.shifted),
        }
    }

    #[inline(always)]
    fn make(mut self, row_length: usize, borders: &Borders) -> Made {
        let mut made = Made::default();
        let num_tokens = self.tokens.len();
        for first in (0..num_tokens).step_by(row_length.max(1)) {
            let row = first..num_tokens.min(first + row_length);
            let (mut start, mut num_documents) = (first, 0);
            while start < row.end {
                let end = borders.next(start + 1).min(row.end);
                let is_document = borders.is_document(start);
                self.put_border(&mut made, start);
                made.max_seqlen = made.max_seqlen.max(end - start);
                self.put_segment(start..end, is_document, num_documents);
                self.put_labels(&row, start..end, is_document);
                num_documents += i32::from(is_document);
                start = end;
            }
            if self.shift > 0 {
                self.ignore(row.end - 1..row.end);
            }
        }
        self.put_border(&mut made, num_tokens);
        made
    }

    #[inline(always)]
    fn put_border(&mut self, made: &mut Made, place: usize) {
        if let Some(border) = self.cu_seqlens.get_mut(made.num_borders) {
            *border = place as i32;
        }
        made.num_borders += 1;
    }

    /// Writes what a segment's tokens have in common, and their places in it.
    #[inline(always)]
    fn put_segment(&mut self, segment: Range<usize>, is_document: bool, number: i32) {
        if let Some(places) = self.position_ids.get_mut(segment.clone()) {
            for (to, place) in places.iter_mut().zip(0..) {
                *to = place;
            }
        }
        if let Some(ids) = self.document_ids.get_mut(segment.clone()) {
            ids.fill(if is_document { number } else { -1 });
        }
        if let Some(mask) = self.attention_mask.get_mut(segment) {
            mask.fill(u8::from(is_document));
        }
    }

    /// Writes the labels that are the tokens of a segment.
    #[inline(always)]
    fn put_labels(&mut self, row: &Range<usize>, segment: Range<usize>, is_document: bool) {
        let Range { start, end } = segment;
        // Padding has no loss, nor a token without one before it.
        let predicted = match is_document {
            false => end,
            true if self.across_documents && start > row.start => start,
            true => start + 1,
        };
        let first = start.max(row.start + self.shift) - self.shift;
        let (middle, last) = (predicted - self.shift, end - self.shift);
        self.ignore(first..middle);
        if let Some(labels) = self.labels.get_mut(middle..last) {
            for (to, &token) in labels.iter_mut().zip(&self.tokens[predicted..end]) {
                *to = token.into();
            }
        }
        if let Some(mask) = self.loss_mask.get_mut(middle..last) {
            mask.fill(1);
        }
    }

    #[inline(always)]
    fn ignore(&mut self, places: Range<usize>) {
        if let Some(labels) = self.labels.get_mut(places.clone()) {
            labels.fill(IGNORED);
        }
        if let Some(mask) = self.loss_mask.get_mut(places) {
            mask.fill(0);
        }
    }
}

#[cfg(test)]
mod tests;
