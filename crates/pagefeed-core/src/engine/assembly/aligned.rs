//! Columns that come with the tokens: a number for each, cut as they are.

use std::ops::Range;

use crate::decode::{NumberType, TokenPage};
use crate::engine::EngineConfig;
use crate::error::{Error, Result};
use crate::fields::{Slots, as_numbers};
use crate::gather::OwnTokens;

/// A column that comes with the tokens.
#[derive(Clone, Copy, Debug)]
pub struct Aligned {
    /// What it holds.
    pub number: NumberType,
    /// Bits of the number where there is no token of a row: of padding and separators.
    pub padding: u64,
    /// Bits of the number of a separator behind a row.
    pub behind: u64,
}

/// Writes the columns of one batch.
pub(super) struct AlignedWriter<'a> {
    columns: Vec<(Aligned, &'a mut [u8])>,
}

impl<'a> AlignedWriter<'a> {
    pub fn new(config: &EngineConfig, memory: Vec<&'a mut [u8]>) -> Self {
        let columns = config.layout.aligned.iter().copied().zip(memory);
        Self {
            columns: columns.collect(),
        }
    }

    /// Writes what tells that there are no tokens.
    pub fn pad(&mut self, places: Range<usize>) {
        self.fill(&places, |column| column.padding);
    }

    fn fill(&mut self, places: &Range<usize>, number: impl Fn(&Aligned) -> u64) {
        for (column, memory) in &mut self.columns {
            let (places, bits) = (places.clone(), number(column));
            match column.number.num_bytes() {
                8 => as_numbers::<i64>(memory)[places].fill(bits.cast_signed()),
                4 => as_numbers::<i32>(memory)[places].fill(bits as i32),
                2 => as_numbers::<u16>(memory)[places].fill(bits as u16),
                _ => memory[places].fill(bits as u8),
            }
        }
    }

    /// Copies the numbers of `count` tokens of a page from token `from` on to the place
    /// `at` of the batch. That the tokens are there was seen.
    pub fn copy(&mut self, page: &TokenPage, from: usize, at: usize, count: usize) -> Result<()> {
        for (number, (column, memory)) in self.columns.iter_mut().enumerate() {
            let width = column.number.num_bytes();
            let source = page.aligned.get(number);
            let target = memory.get_mut(width * at..width * (at + count));
            let both = source.zip(target);
            both.and_then(|(source, target)| source.write(from, target))
                .ok_or_else(mismatch)?;
        }
        Ok(())
    }

    /// The same of a part of a line, whose `num_tokens` begin at the place `at`.
    pub fn copy_line(
        &mut self,
        page: &TokenPage,
        own: OwnTokens,
        at: usize,
        num_tokens: usize,
    ) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let begin = at + own.num_before;
        self.pad(at..begin);
        self.fill(&(begin + own.count..at + num_tokens), |column| {
            column.behind
        });
        self.copy(page, own.from, begin, own.count)
    }

    /// Writes to `mask` where a column has other numbers than its padding.
    pub fn mask(&self, column: usize, mask: &mut Slots<'_>) {
        let Some((column, memory)) = self.columns.get(column) else {
            return;
        };
        let width = column.number.num_bytes();
        let padding = &column.padding.to_le_bytes()[..width];
        let numbers = memory.chunks_exact(width);
        mask.mark(numbers.map(|number| number != padding));
    }
}

fn mismatch() -> Error {
    Error::internal("the columns of a page are not those of the batch")
}
