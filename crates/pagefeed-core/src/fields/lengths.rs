//! Lengths of the segments of each row.

use std::ops::Range;

use super::Borders;

/// Writes the lengths of the segments of each row into a table [rows, most segments of
/// a row], padded with 0, and returns its width; `None` without memory.
pub(super) fn put_lengths(table: &mut [i32], row_length: usize, borders: &Borders) -> usize {
    if table.is_empty() {
        return 0;
    }
    let most = rows(row_length, borders).map(|row| lengths(row, borders).count());
    let most = most.max().unwrap_or_default();
    for (row, positions) in rows(row_length, borders).zip(table.chunks_exact_mut(most.max(1))) {
        let of_row = lengths(row, borders).chain(std::iter::repeat(0));
        for (to, length) in positions.iter_mut().zip(of_row) {
            *to = length as i32;
        }
    }
    most
}

/// Longest segment of each row.
pub(super) fn longest(row_length: usize, borders: &Borders) -> Vec<usize> {
    rows(row_length, borders)
        .map(|row| lengths(row, borders).max().unwrap_or_default())
        .collect()
}

fn rows(row_length: usize, borders: &Borders) -> impl Iterator<Item = Range<usize>> {
    let firsts = (0..borders.num_tokens()).step_by(row_length.max(1));
    firsts.map(move |first| first..first + row_length)
}

fn lengths(row: Range<usize>, borders: &Borders) -> impl Iterator<Item = usize> {
    borders.segments(row).map(|segment| segment.positions.len())
}
