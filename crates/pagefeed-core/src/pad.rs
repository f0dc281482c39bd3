//! Lists of integers as batches: rows of one length, and the fields made of them.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use crate::engine::{Batch, Buffer, TokenType};
use crate::error::{Error, Kind, Result};
use crate::fields::{Borders, Field, Fields, Maker, Sections};
use crate::gather::BatchToken;
use crate::lists::{bounds, items, list_lengths, not_tokens, values};
use crate::tokens::{Joins, NumberType, PerToken, as_numbers};

/// Settings to turn lists into the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Padding {
    /// Tokens of a row.
    pub length: usize,
    /// Token that fills up short lists.
    pub token: i64,
    /// Type of the tokens.
    pub token_type: TokenType,
    /// The fields to make.
    pub fields: Fields,
}

impl Padding {
    /// Returns the lists as rows, cut or padded. Each list begins a document, and so
    /// does each of `starts`: rising positions in the flattened batch.
    pub fn batch(&self, lists: &ArrayRef, starts: &[usize]) -> Result<Batch> {
        match self.token_type {
            TokenType::I64 => self.batch_of::<i64>(lists, starts),
            TokenType::I32 => self.batch_of::<i32>(lists, starts),
            TokenType::U16 => self.batch_of::<u16>(lists, starts),
        }
    }

    fn batch_of<T: BatchToken>(&self, lists: &ArrayRef, starts: &[usize]) -> Result<Batch> {
        let (length, fields) = (self.length, &self.fields);
        let padding = T::from_i64(self.token).ok_or_else(|| {
            let name = T::NAME;
            Error::invalid(format!("padding {} does not fit {name}", self.token))
        })?;
        let num_tokens = lists.len().saturating_mul(length);
        fields.check(num_tokens)?;
        let sections = Sections::new(fields, num_tokens, size_of::<T>());
        let mut buffer = Buffer::new(&sections)?;
        let mut parts = buffer.parts();
        let tokens = parts.take::<T>(Field::InputIds);
        write_padded(lists, length, padding, tokens)?;
        if fields.need_borders() {
            let mut borders = Borders::default();
            borders.reset(num_tokens);
            for (row, count) in list_lengths(lists)?.into_iter().enumerate() {
                let mut begin = row * length;
                let end = begin + length.min(count as usize);
                let others = &starts[starts.partition_point(|&start| start <= begin)..];
                let others = others.iter().copied().take_while(|&start| start < end);
                for end in others.chain([end]) {
                    if begin < end {
                        borders.add(begin, end, Joins::default());
                        begin = end;
                    }
                }
            }
            buffer.made = Maker::new(fields, length, &mut parts).finish(tokens, &borders);
        }
        Ok(Batch::from(buffer))
    }
}

/// Writes each list into a row of `length`, cut or padded with `padding`.
fn write_padded<T: BatchToken>(
    lists: &ArrayRef,
    length: usize,
    padding: T,
    rows: &mut [T],
) -> Result<()> {
    if lists.len().checked_mul(length) != Some(rows.len()) {
        return Err(Error::invalid(format!(
            "{} lists of {length} need as many places, found {}",
            lists.len(),
            rows.len()
        )));
    }
    match values(lists)?.data_type() {
        DataType::Int8 => write::<Int8Type, T>(lists, length, padding, rows),
        DataType::Int16 => write::<Int16Type, T>(lists, length, padding, rows),
        DataType::Int32 => write::<Int32Type, T>(lists, length, padding, rows),
        DataType::Int64 => write::<Int64Type, T>(lists, length, padding, rows),
        DataType::UInt8 => write::<UInt8Type, T>(lists, length, padding, rows),
        DataType::UInt16 => write::<UInt16Type, T>(lists, length, padding, rows),
        DataType::UInt32 => write::<UInt32Type, T>(lists, length, padding, rows),
        _ => Err(not_tokens(lists)),
    }
}

fn write<S: ArrowPrimitiveType, T: BatchToken>(
    lists: &ArrayRef,
    length: usize,
    padding: T,
    rows: &mut [T],
) -> Result<()>
where
    S::Native: Into<i64>,
{
    let all = values(lists)?.as_primitive::<S>();
    for (list, row) in rows.chunks_exact_mut(length.max(1)).enumerate() {
        let (begin, end) = bounds(lists, list).unwrap_or((0, 0));
        let end = end.min(begin + length);
        if all.null_count() > 0 && (begin..end).any(|item| all.is_null(item)) {
            return Err(Error::unsupported("a list of tokens holds a null"));
        }
        let (filled, rest) = row.split_at_mut(end - begin);
        for (to, &value) in filled.iter_mut().zip(&all.values()[begin..end]) {
            let value: i64 = value.into();
            *to = T::from_i64(value).ok_or_else(|| {
                let name = T::NAME;
                let message = format!("token {value} does not fit {name}; ask for a wider dtype");
                Error::new(Kind::TokenRange, message)
            })?;
        }
        rest.fill(padding);
    }
    Ok(())
}

/// Lists with so much for each token as rows of `length` tokens in their own type, cut or
/// filled up with padding; behind them, if that is wanted, how many numbers each token has.
/// `lengths` are the tokens of each row, `starts` where those of each begin in the one row
/// that holds all, if they are joined. An error is with the row that it is about.
pub fn padded_numbers(
    lists: &ArrayRef,
    lengths: &[i64],
    length: usize,
    starts: Option<&[i64]>,
    per_token: &PerToken,
) -> Result<Batch, (usize, Error)> {
    let refused = || (0, not_tokens(lists));
    let kind = NumberType::of(lists.data_type());
    let (Some(elements), Some(kind)) = (items(lists), kind) else {
        return Err(refused());
    };
    let values = items(elements);
    let (is_flat, values) = (values.is_none(), values.unwrap_or(elements));
    if values.null_count() > 0 || (!is_flat && elements.null_count() > 0) {
        return Err((0, Error::unsupported("a list of numbers holds a null")));
    }
    let (width, bytes) = (per_token.width, kind.num_bytes());
    let item_bytes = per_token.number(kind).num_bytes();
    let num_rows = starts.map_or(lists.len(), |_| 1);
    let num_tokens = num_rows.saturating_mul(length);
    let start_of = |row| match starts {
        Some(starts) => starts.get(row).map_or(length, |&start| start as usize),
        None => row * length,
    };
    let mut sections =
        Sections::default().with_aligned(num_tokens, item_bytes.saturating_mul(width));
    if per_token.is_counted {
        sections = sections.with_aligned(num_tokens, size_of::<i32>());
    }
    let mut buffer = Buffer::new(&sections).map_err(|error| (0, error))?;
    let mut parts = buffer.parts().aligned.into_iter();
    let target = parts.next().unwrap_or_default();
    let counts = as_numbers::<i32>(parts.next().unwrap_or_default());
    let padding = per_token.padding.to_le_bytes();
    for item in target.chunks_exact_mut(item_bytes) {
        item.copy_from_slice(&padding[..item_bytes]);
    }
    counts.fill(0);
    let table = per_token.scaled(kind);
    let length_of = |list| bounds(elements, list).map_or(0, |(begin, end)| end - begin);
    let data = values.to_data();
    let offset = data.offset();
    let all = data.buffers().first().map_or(&[][..], |all| all.as_slice());
    for (row, &tokens) in lengths.iter().enumerate().take(lists.len()) {
        let tokens = usize::try_from(tokens).unwrap_or_default();
        let (begin, end) = bounds(lists, row).unwrap_or((0, 0));
        let own: Vec<usize> = match is_flat {
            true => vec![end - begin],
            false => (begin..end).map(length_of).collect(),
        };
        let name = format_args!("row {row} of the batch");
        let checked = per_token.check_row(name, tokens, is_flat, own.into_iter());
        checked.map_err(|error| (row, error))?;
        let without = per_token.num_without.min(tokens);
        let start = start_of(row);
        for token in without..tokens.min(start_of(row + 1) - start) {
            let own = token - without;
            let (from, to) = match is_flat {
                true => (begin + own * width, begin + (own + 1) * width),
                false => bounds(elements, begin + own).unwrap_or((0, 0)),
            };
            let source = all.get((offset + from) * bytes..(offset + to) * bytes);
            let source = source.ok_or_else(refused)?;
            let first = start + token;
            let target_bytes = first * width * item_bytes..(first * width + to - from) * item_bytes;
            match &table {
                None => target[target_bytes].copy_from_slice(source),
                Some(table) => {
                    for (to, &from) in target[target_bytes]
                        .chunks_exact_mut(item_bytes)
                        .zip(source)
                    {
                        to.copy_from_slice(&table[usize::from(from)].to_le_bytes());
                    }
                }
            }
            if let Some(count) = counts.get_mut(first) {
                *count = (to - from) as i32;
            }
        }
    }
    Ok(Batch::from(buffer))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Float64Type;
    use arrow_array::{FixedSizeListArray, LargeListArray, ListArray, StringArray};

    use super::*;

    const LISTS: [Option<[Option<i32>; 3]>; 3] = [
        Some([Some(1), Some(2), Some(3)]),
        None,
        Some([Some(4), Some(5), Some(70000)]),
    ];

    #[test]
    fn lists_are_cut_and_filled_up() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), Some(2), Some(3)]),
            None,
            Some(vec![]),
            Some(vec![Some(9)]),
        ]));
        assert_eq!(list_lengths(&lists).unwrap(), [3, 0, 0, 1]);
        let mut rows = [0i64; 8];
        write_padded(&lists, 2, -7, &mut rows).unwrap();
        assert_eq!(rows, [1, 2, -7, -7, -7, -7, 9, -7]);
        let sliced = lists.slice(2, 2);
        let mut rows = [0u16; 4];
        write_padded(&sliced, 2, 5, &mut rows).unwrap();
        assert_eq!(rows, [5, 5, 9, 5]);
    }

    #[test]
    fn every_kind_of_list() {
        let arrays: [ArrayRef; 3] = [
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(LISTS)),
            Arc::new(LargeListArray::from_iter_primitive::<Int32Type, _, _>(
                LISTS,
            )),
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
                LISTS, 3,
            )),
        ];
        for lists in arrays {
            let mut rows = [0i32; 12];
            write_padded(&lists, 4, 0, &mut rows).unwrap();
            assert_eq!(rows, [1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 70000, 0]);
            let narrow = write_padded(&lists, 4, 0u16, &mut [0; 12]);
            assert_eq!(narrow.unwrap_err().kind(), Kind::TokenRange);
            write_padded(&lists, 2, 0u16, &mut [0; 6]).unwrap();
        }
    }

    #[test]
    fn numbers_keep_their_type() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(1.5), Some(-2.0), Some(3.0)]),
            None,
            Some(vec![Some(0.25)]),
        ]));
        for (lists, expected) in [
            (lists.clone(), vec![1.5, -2.0, 9.0, 9.0, 0.25, 9.0]),
            (lists.slice(1, 2), vec![9.0, 9.0, 0.25, 9.0]),
        ] {
            let per_token = PerToken {
                padding: 9.0f64.to_bits(),
                ..PerToken::default()
            };
            let lengths = list_lengths(&lists).unwrap();
            let batch = padded_numbers(&lists, &lengths, 2, None, &per_token).unwrap();
            let bytes = &batch.bytes()[batch.aligned_range(0)];
            let numbers = bytes.chunks_exact(8);
            let numbers = numbers.map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap()));
            assert_eq!(numbers.collect::<Vec<_>>(), expected);
        }
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(padded_numbers(&text, &[0], 2, None, &PerToken::default()).is_err());
        let holes = [Some(vec![Some(1), None])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(holes));
        assert!(padded_numbers(&lists, &[2], 2, None, &PerToken::default()).is_err());
    }

    #[test]
    fn what_is_no_list_of_tokens_is_refused() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(list_lengths(&text).is_err());
        let holes = [Some(vec![Some(1), None])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(holes));
        assert!(write_padded(&lists, 2, 0i64, &mut [0; 2]).is_err());
        assert!(write_padded(&lists, 1, 0i64, &mut [0; 1]).is_ok());
        assert!(write_padded(&lists, 2, 0i64, &mut [0; 3]).is_err());
    }
}
