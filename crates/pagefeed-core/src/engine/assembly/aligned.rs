//! Columns that come with the tokens: a number for each, cut as they are.

use std::ops::Range;

use crate::engine::{Aligned, EngineConfig};
use crate::fields::{Borders, Slots};
use crate::gather::{Misfit, OwnTokens};
use crate::tokens::{Numbers, TokenPage, as_numbers};

/// A column while it is written.
pub(super) struct Column<'a> {
    pub aligned: Aligned,
    pub memory: &'a mut [u8],
}

impl Column<'_> {
    /// Writes a number, given as bits, for tokens at some positions.
    fn fill(&mut self, tokens: &Range<usize>, bits: u64) {
        let (positions, _) = self.aligned.positions(tokens.clone());
        self.fill_positions(positions, bits);
    }

    /// Writes a number to some positions of the batch.
    pub fn fill_positions(&mut self, positions: Range<usize>, bits: u64) {
        let (width, memory) = (self.aligned.per_token.width, &mut *self.memory);
        let positions = positions.start * width..positions.end * width;
        match self.aligned.number.num_bytes() {
            8 => as_numbers::<i64>(memory)[positions].fill(bits.cast_signed()),
            4 => as_numbers::<i32>(memory)[positions].fill(bits as i32),
            2 => as_numbers::<u16>(memory)[positions].fill(bits as u16),
            _ => memory[positions].fill(bits as u8),
        }
    }
}

/// Writes the columns of one batch.
pub(super) struct AlignedWriter<'a> {
    pub columns: Vec<Column<'a>>,
    /// Tokens of a row, and whether labels cross documents.
    row_length: usize,
    across_documents: bool,
}

impl<'a> AlignedWriter<'a> {
    pub fn new(config: &EngineConfig, memory: Vec<&'a mut [u8]>) -> Self {
        let across_documents = config.layout.fields.across_documents;
        let columns = config.layout.aligned.iter().copied();
        Self::of(columns, memory, config.part_length(), across_documents)
    }

    /// Writes these columns of a batch to their memory.
    pub fn of(
        columns: impl IntoIterator<Item = Aligned>,
        memory: Vec<&'a mut [u8]>,
        row_length: usize,
        across_documents: bool,
    ) -> Self {
        let columns = columns.into_iter().zip(memory);
        let columns = columns.map(|(aligned, memory)| Column { aligned, memory });
        Self {
            columns: columns.collect(),
            row_length,
            across_documents,
        }
    }

    /// Writes padding where there are no tokens.
    pub fn pad(&mut self, positions: Range<usize>) {
        for column in &mut self.columns {
            column.fill(&positions, column.aligned.per_token.padding);
        }
    }

    /// Copies the numbers of `count` tokens of a page, from token `from` on, to
    /// position `at` of the batch; padding if the page lacks the column. The caller
    /// checked that the tokens exist.
    pub fn copy(
        &mut self,
        page: &TokenPage,
        from: usize,
        at: usize,
        count: usize,
    ) -> Result<(), Misfit> {
        for (number, column) in self.columns.iter_mut().enumerate() {
            let source = page.aligned.get(number);
            if source.is_some_and(Numbers::are_absent) {
                column.fill(&(at..at + count), column.aligned.per_token.padding);
                continue;
            }
            let Column { aligned, memory } = column;
            let (positions, lost) = aligned.positions(at..at + count);
            let bytes = aligned.token_bytes();
            let from = (from + lost) * aligned.per_token.width;
            let target = memory.get_mut(bytes * positions.start..bytes * positions.end);
            let both = source.zip(target);
            both.and_then(|(source, target)| source.write(from, target))
                .ok_or(Misfit::Columns)?;
        }
        Ok(())
    }

    /// Removes the numbers that made labels would not have: from shifted columns those of
    /// the next row, and from all that carry a loss those of the first token of a document
    /// where labels do not cross documents. Call it after the whole batch is written.
    pub fn end(&mut self, borders: &Borders) {
        let obeys = |column: &&mut Column<'_>| {
            column.aligned.is_shifted || column.aligned.unlearned.is_some()
        };
        let mut columns: Vec<_> = self.columns.iter_mut().filter(obeys).collect();
        if columns.is_empty() || self.row_length == 0 {
            return;
        }
        for end in (self.row_length..=borders.num_tokens()).step_by(self.row_length) {
            let row = end - self.row_length..end;
            for segment in borders.segments(row.clone()) {
                for column in &mut columns {
                    let shift = usize::from(column.aligned.is_shifted);
                    let labels = segment.labels(&row, shift, self.across_documents);
                    let padding = column.aligned.per_token.padding;
                    let unlearned = column.aligned.unlearned;
                    let unlearned = unlearned.filter(|_| segment.is_document);
                    column.fill_positions(labels.before, unlearned.unwrap_or(padding));
                    column.fill_positions(labels.behind, padding);
                }
            }
        }
    }

    /// Copies the numbers of a part of a line with `num_tokens` tokens to position
    /// `at`.
    pub fn copy_line(
        &mut self,
        page: &TokenPage,
        own: OwnTokens,
        at: usize,
        num_tokens: usize,
    ) -> Result<(), Misfit> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let begin = at + own.num_before;
        self.pad(at..begin);
        for column in &mut self.columns {
            column.fill(&(begin + own.count..at + num_tokens), column.aligned.behind);
        }
        self.copy(page, own.from, begin, own.count)
    }

    /// Writes to `mask` where a column has other numbers than its padding.
    pub fn mask(&self, column: usize, mask: &mut Slots<'_>) {
        let Some(Column { aligned, memory }) = self.columns.get(column) else {
            return;
        };
        let width = aligned.token_bytes();
        let padding = aligned.per_token.padding.to_le_bytes();
        let Some(padding) = padding.get(..width) else {
            return;
        };
        let numbers = memory.chunks_exact(width);
        mask.mark(numbers.map(|number| number != padding));
    }
}
