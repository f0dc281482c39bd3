//! Lists with numbers for each token of documents, as columns with the tokens of a batch.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_data::ArrayData;

use super::aligned::Column;
use crate::engine::Aligned;
use crate::engine::documents::AlignedLists;
use crate::error::{Error, Result};
use crate::lists::{bounds, items, not_tokens};
use crate::tokens::{NumberType, as_numbers};

/// A column of lists with numbers for each token.
pub(super) struct NumberLists<'a> {
    asked: &'a AlignedLists,
    lists: &'a ArrayRef,
    /// Contents of the lists: the numbers, or a list of them for each token.
    elements: &'a ArrayRef,
    is_flat: bool,
    number: NumberType,
    /// The numbers.
    values: ArrayData,
    /// The bits in a batch of 8-bit integers that are multiplied.
    scaled: Option<[i32; 256]>,
    /// Null in rows whose dataset lacks the column.
    has: Option<&'a ArrayRef>,
}

impl<'a> NumberLists<'a> {
    pub fn new(asked: &'a AlignedLists, columns: &'a [ArrayRef]) -> Result<Self> {
        let lists = &columns[asked.column];
        let kind = NumberType::of(lists.data_type());
        let (Some(elements), Some(number)) = (items(lists), kind) else {
            return Err(not_tokens(lists).in_column(&asked.name));
        };
        let values = items(elements);
        let (is_flat, values) = (values.is_none(), values.unwrap_or(elements));
        if values.null_count() > 0 || (!is_flat && elements.null_count() > 0) {
            let error = Error::unsupported("a list of numbers holds a null");
            return Err(error.in_column(&asked.name).at_batch_row(0));
        }
        Ok(Self {
            lists,
            elements,
            is_flat,
            number,
            values: values.to_data(),
            scaled: asked.per_token.scaled(number),
            has: asked.has.map(|column| &columns[column]),
            asked,
        })
    }

    /// The columns of the batch.
    pub fn columns(&self) -> impl Iterator<Item = Aligned> + use<> {
        let AlignedLists {
            per_token,
            is_shifted,
            unlearned,
            ..
        } = *self.asked;
        let padding = per_token.padding;
        Aligned::columns(per_token, self.number, padding, is_shifted, unlearned)
    }

    /// Writes the numbers of documents of `whole` tokens to their positions, and how many
    /// each token has, to the next columns of the batch.
    pub fn write<'b, 'm: 'b>(
        &self,
        whole: &[i64],
        positions: &[Range<usize>],
        columns: &mut impl Iterator<Item = &'b mut Column<'m>>,
    ) -> Result<()> {
        let is_counted = self.asked.per_token.is_counted;
        let numbers = columns.next();
        let mut counts = if is_counted { columns.next() } else { None };
        let numbers =
            numbers.ok_or_else(|| Error::internal("the batch has no memory for a column"))?;
        for (row, (position, &tokens)) in positions.iter().zip(whole).enumerate() {
            if self.has.is_some_and(|has| has.is_null(row)) {
                continue;
            }
            let (begin, end) = bounds(self.lists, row).unwrap_or((0, 0));
            self.check(row, tokens, begin..end)
                .map_err(|error| error.in_column(&self.asked.name).at_batch_row(row))?;
            self.write_row(begin, position, numbers, counts.as_deref_mut())?;
        }
        Ok(())
    }

    /// Refuses a row that does not have the numbers of its tokens.
    fn check(&self, row: usize, tokens: i64, own: Range<usize>) -> Result<()> {
        let length_of = |list| bounds(self.elements, list).map_or(0, |(begin, end)| end - begin);
        let lengths: Vec<usize> = match self.is_flat {
            true => vec![own.len()],
            false => own.map(length_of).collect(),
        };
        let name = format_args!("row {row} of the batch");
        let tokens = usize::try_from(tokens).unwrap_or_default();
        let per_token = &self.asked.per_token;
        per_token.check_row(name, tokens, self.is_flat, lengths.into_iter())
    }

    /// Writes the numbers of the tokens at some positions. The row's begin at `begin`,
    /// those of tokens without numbers left out.
    fn write_row(
        &self,
        begin: usize,
        position: &Range<usize>,
        numbers: &mut Column<'_>,
        mut counts: Option<&mut Column<'_>>,
    ) -> Result<()> {
        let (width, without) = (self.asked.per_token.width, self.asked.per_token.num_without);
        let begins = position.start + without.min(position.len());
        let (positions, lost) = numbers.aligned.positions(begins..position.end);
        if self.is_flat {
            let from = begin + lost * width;
            if let Some(counts) = counts {
                counts.fill_positions(positions.clone(), width as u64);
            }
            return self.copy(
                from..from + positions.len() * width,
                positions.start,
                numbers,
            );
        }
        for (token, position) in positions.enumerate() {
            let own = bounds(self.elements, begin + lost + token).unwrap_or((0, 0));
            self.copy(own.0..own.1, position, numbers)?;
            if let Some(counts) = &mut counts {
                counts.fill_positions(position..position + 1, (own.1 - own.0) as u64);
            }
        }
        Ok(())
    }

    /// Copies numbers to the memory of the token at `position`, and of the tokens after it.
    fn copy(&self, from: Range<usize>, position: usize, column: &mut Column<'_>) -> Result<()> {
        let (bytes, start) = (self.number.num_bytes(), self.values.offset());
        let all = self.values.buffers().first();
        let all = all.map_or(&[][..], |all| all.as_slice());
        let source = all.get((start + from.start) * bytes..(start + from.end) * bytes);
        let item_bytes = column.aligned.number.num_bytes();
        let to = column.aligned.token_bytes() * position;
        let target = column.memory.get_mut(to..to + from.len() * item_bytes);
        let (Some(source), Some(target)) = (source, target) else {
            return Err(not_tokens(self.lists));
        };
        match &self.scaled {
            None => target.copy_from_slice(source),
            Some(scaled) => {
                for (to, &from) in as_numbers::<i32>(target).iter_mut().zip(source) {
                    *to = scaled[usize::from(from)];
                }
            }
        }
        Ok(())
    }
}
