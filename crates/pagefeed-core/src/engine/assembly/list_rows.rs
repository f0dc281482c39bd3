//! Lists of integers as the tokens of a batch, with the fields made of them.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::buffer::Buffer;
use crate::engine::TokenType;
use crate::error::{Error, Kind, Result};
use crate::fields::{Borders, Field, Fields, Made, Maker, Sections, Views};
use crate::gather::BatchToken;
use crate::lists::{bounds, not_tokens, values};
use crate::tokens::Continues;

/// Rows of tokens whose documents are lists.
#[derive(Clone, Copy, Debug)]
pub struct ListRows {
    /// Tokens of a row.
    pub length: usize,
    /// Token where there is no document.
    pub padding: i64,
    /// Type of the tokens.
    pub token_type: TokenType,
    /// The fields to make.
    pub fields: Fields,
}

impl ListRows {
    /// Returns the memory of a batch of `num_rows` rows. Each list is a document at its `positions`, which
    /// rise; it is cut to them. None spans two rows.
    pub fn batch(
        &self,
        num_rows: usize,
        lists: &ArrayRef,
        positions: &[Range<usize>],
    ) -> Result<Buffer> {
        let num_tokens = num_rows.saturating_mul(self.length);
        let sections = Sections::new(&self.fields, num_tokens, self.token_type.num_bytes());
        let mut buffer = Buffer::new(&sections)?;
        let mut borders = Borders::default();
        buffer.made = self.write(&mut buffer.views(), lists, positions, &mut borders)?;
        Ok(buffer)
    }

    /// Writes the tokens of such a batch, the fields for which there is memory, and where
    /// documents begin and end.
    pub(super) fn write(
        &self,
        views: &mut Views<'_>,
        lists: &ArrayRef,
        positions: &[Range<usize>],
        borders: &mut Borders,
    ) -> Result<Made> {
        match self.token_type {
            TokenType::I64 => self.write_as::<i64>(views, lists, positions, borders),
            TokenType::I32 => self.write_as::<i32>(views, lists, positions, borders),
            TokenType::U16 => self.write_as::<u16>(views, lists, positions, borders),
        }
    }

    fn write_as<T: BatchToken>(
        &self,
        views: &mut Views<'_>,
        lists: &ArrayRef,
        positions: &[Range<usize>],
        borders: &mut Borders,
    ) -> Result<Made> {
        let tokens = views.take::<T>(Field::InputIds);
        self.fields.check(tokens.len())?;
        let padding = T::from_i64(self.padding).ok_or_else(|| {
            let name = T::NAME;
            Error::invalid(format!("padding {} does not fit {name}", self.padding))
        })?;
        write_lists(lists, positions, padding, tokens)?;
        if !self.fields.need_borders() {
            return Ok(Made::default());
        }
        borders.reset(tokens.len());
        for position in positions.iter().filter(|position| !position.is_empty()) {
            borders.add(position.start, position.end, Continues::default());
        }
        Ok(Maker::new(&self.fields, self.length, views).finish(tokens, borders))
    }
}

/// Writes the first integers of each list at its positions, and `padding` elsewhere.
pub(super) fn write_lists<T: BatchToken>(
    lists: &ArrayRef,
    positions: &[Range<usize>],
    padding: T,
    target: &mut [T],
) -> Result<()> {
    match values(lists)?.data_type() {
        DataType::Int8 => write::<Int8Type, T>(lists, positions, padding, target),
        DataType::Int16 => write::<Int16Type, T>(lists, positions, padding, target),
        DataType::Int32 => write::<Int32Type, T>(lists, positions, padding, target),
        DataType::Int64 => write::<Int64Type, T>(lists, positions, padding, target),
        DataType::UInt8 => write::<UInt8Type, T>(lists, positions, padding, target),
        DataType::UInt16 => write::<UInt16Type, T>(lists, positions, padding, target),
        DataType::UInt32 => write::<UInt32Type, T>(lists, positions, padding, target),
        _ => Err(not_tokens(lists)),
    }
}

fn write<S: ArrowPrimitiveType, T: BatchToken>(
    lists: &ArrayRef,
    positions: &[Range<usize>],
    padding: T,
    target: &mut [T],
) -> Result<()>
where
    S::Native: Into<i64>,
{
    let outside =
        || Error::invalid("a position is outside of the batch or before the previous end");
    let all = values(lists)?.as_primitive::<S>();
    let mut end = 0;
    for (list, position) in positions.iter().enumerate().take(lists.len()) {
        let gap = target.get_mut(end..position.start).ok_or_else(outside)?;
        gap.fill(padding);
        end = position.end;
        let begin = bounds(lists, list).map_or(0, |(begin, _)| begin);
        let items = begin..begin + position.len();
        if all.null_count() > 0 && items.clone().any(|item| all.is_null(item)) {
            return Err(Error::unsupported("a list of tokens holds a null"));
        }
        let source = all.values().get(items);
        let both = source.zip(target.get_mut(position.clone()));
        let (source, target) = both.ok_or_else(outside)?;
        for (to, &value) in target.iter_mut().zip(source) {
            let value: i64 = value.into();
            *to = T::from_i64(value).ok_or_else(|| {
                let name = T::NAME;
                let message = format!("token {value} does not fit {name}; ask for a wider dtype");
                Error::new(Kind::TokenRange, message)
            })?;
        }
    }
    target[end..].fill(padding);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{FixedSizeListArray, LargeListArray, ListArray, StringArray};

    use super::*;
    use crate::lists::list_lengths;

    const LISTS: [Option<[Option<i32>; 3]>; 3] = [
        Some([Some(1), Some(2), Some(3)]),
        None,
        Some([Some(4), Some(5), Some(70000)]),
    ];

    /// The lists as rows of `length`, cut or filled up.
    fn rows<T: BatchToken>(lists: &ArrayRef, length: usize, padding: T) -> Result<Vec<T>> {
        let lengths = list_lengths(lists)?.into_iter().enumerate();
        let position =
            |(row, count): (usize, i64)| row * length..row * length + length.min(count as usize);
        let positions: Vec<Range<usize>> = lengths.map(position).collect();
        let mut target = vec![padding; lists.len() * length];
        write_lists(lists, &positions, padding, &mut target)?;
        Ok(target)
    }

    #[test]
    fn lists_are_cut_and_filled_up() {
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), Some(2), Some(3)]),
            None,
            Some(vec![]),
            Some(vec![Some(9)]),
        ]));
        assert_eq!(
            rows(&lists, 2, -7i64).unwrap(),
            [1, 2, -7, -7, -7, -7, 9, -7]
        );
        assert_eq!(rows(&lists.slice(2, 2), 2, 5u16).unwrap(), [5, 5, 9, 5]);
        let mut joined = [0i64; 5];
        write_lists(&lists, &[0..2, 2..2, 2..2, 2..3], 7, &mut joined).unwrap();
        assert_eq!(joined, [1, 2, 9, 7, 7]);
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
            let expected = [1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 70000, 0];
            assert_eq!(rows(&lists, 4, 0i32).unwrap(), expected);
            let narrow = rows(&lists, 4, 0u16);
            assert_eq!(narrow.unwrap_err().kind(), Kind::TokenRange);
            rows(&lists, 2, 0u16).unwrap();
        }
    }

    #[test]
    fn what_is_no_list_of_tokens_is_refused() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(list_lengths(&text).is_err());
        assert!(write_lists(&text, &[], 0i64, &mut []).is_err());
        let holes = [Some(vec![Some(1), None])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(holes));
        assert!(rows(&lists, 2, 0i64).is_err());
        assert!(rows(&lists, 1, 0i64).is_ok());
        let outside = write_lists(&lists, &[0..1, 1..1], 0i64, &mut []);
        assert!(outside.is_err());
    }
}
