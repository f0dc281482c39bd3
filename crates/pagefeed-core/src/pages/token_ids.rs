//! Check of token ids: a number for which no embedding has a row is refused.

use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, downcast_integer_array};

use crate::error::{Error, Kind, Result};
use crate::lists;
use crate::simd::vectorized;
use crate::tokens::{Dictionary, TokenPage, with_values};

/// The ids from 0 on, below the size of the vocabulary if it is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenIds {
    vocab_size: Option<u64>,
}

/// Position of a number that is not an id, and the number.
type Found = (usize, i128);

impl TokenIds {
    /// The ids below `vocab_size`, or all that are not negative.
    pub fn new(vocab_size: Option<u64>) -> Self {
        Self { vocab_size }
    }

    /// Whether all entries of a dictionary are ids.
    pub fn hold(&self, dictionary: &Dictionary) -> bool {
        match dictionary.num_indices() {
            Some(0) => true,
            Some(count) => self.find(&[count as i64 - 1]).is_none(),
            None => with_values!(dictionary.entries(), values => self.find(values).is_none()),
        }
    }

    /// Refuses a page with a number that is not an id; `first_row` is that of the page
    /// in its row group.
    pub fn check(&self, page: &TokenPage, first_row: u64) -> Result<()> {
        let found = with_values!(&page.tokens, values => self.find(values));
        let Some((position, value)) = found else {
            return Ok(());
        };
        let position = position + page.skipped as usize;
        let begun = page
            .row_offsets
            .partition_point(|&row| row as usize <= position);
        let row = begun.saturating_sub(1);
        let start = page.row_offsets.get(row).map_or(0, |&start| start as usize);
        Err(self.refuse(value, first_row + row as u64, position - start))
    }

    /// Checks lists of integers; nulls are not tokens.
    pub fn check_lists(&self, lists: &ArrayRef, first_row: u64) -> Result<()> {
        let values = lists::values(lists)?;
        downcast_integer_array! {
            values => self.check_rows(lists, values, first_row),
            _ => Ok(()),
        }
    }

    fn check_rows<T: ArrowPrimitiveType<Native: Integer>>(
        &self,
        lists: &ArrayRef,
        values: &PrimitiveArray<T>,
        first_row: u64,
    ) -> Result<()> {
        if self.find(values.values()).is_none() {
            return Ok(());
        }
        // It may lie outside of the rows, or under a null.
        for row in 0..lists.len() {
            let (begin, end) = lists::bounds(lists, row).unwrap_or((0, 0));
            let mut position = begin;
            while let Some((at, value)) = self.find(&values.values()[position..end]) {
                if values.is_valid(position + at) {
                    return Err(self.refuse(value, first_row + row as u64, position + at - begin));
                }
                position += at + 1;
            }
        }
        Ok(())
    }

    fn find<T: Integer>(&self, values: &[T]) -> Option<Found> {
        let zero = T::default();
        let last = self
            .vocab_size
            .map_or(u64::MAX, |size| size.saturating_sub(1));
        let last = last.min(i64::MAX.cast_unsigned()); // No id has more than 63 bits.
        let least_of = |values: &[T], _: &mut [()]| values.iter().copied().fold(zero, T::min);
        let are_ids = match T::try_from(last) {
            Ok(last) => {
                let (least, largest) = vectorized(values, &mut [(); 0], |values, _| {
                    let bounds = |(least, largest): (T, T), &v: &T| (least.min(v), largest.max(v));
                    values.iter().fold((zero, zero), bounds)
                });
                zero <= least && largest <= last
            }
            Err(_) => zero <= vectorized(values, &mut [(); 0], least_of),
        };
        if are_ids {
            return None;
        }
        let is_id = |value: T| (0..=i128::from(last)).contains(&value.into());
        let position = values.iter().position(|&value| !is_id(value))?;
        Some((position, values[position].into()))
    }

    fn refuse(&self, value: i128, row: u64, position: usize) -> Error {
        let (accepted, advice) = match self.vocab_size {
            None => ("0 or more".to_string(), "correct the row"),
            Some(size) => (
                format!("0 to {} (vocab_size={size})", size.saturating_sub(1)),
                "correct the row, or give the vocab_size of the tokenizer that made it",
            ),
        };
        let message = format!(
            "row {row} of the row group holds {value} as its token {position}, ids are \
             {accepted}: {advice}"
        );
        Error::new(Kind::TokenRange, message)
    }
}

/// An integer that may be an id.
trait Integer: Copy + Default + Ord + TryFrom<u64> + Into<i128> {}

impl<T: Copy + Default + Ord + TryFrom<u64> + Into<i128>> Integer for T {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Int16Type, Int32Type, Int64Type, UInt64Type};
    use arrow_array::{FixedSizeListArray, LargeListArray, ListArray};

    use super::*;
    use crate::tokens::Tokens;

    fn page(tokens: Tokens) -> TokenPage {
        let end = tokens.len() as u32;
        TokenPage {
            tokens,
            row_offsets: vec![0, 3, 3, 40, end],
            ..TokenPage::default()
        }
    }

    fn of_each_type(values: &[i64]) -> Vec<Tokens> {
        let mut all = vec![Tokens::I64(values.to_vec())];
        let fits = |low: i64, high: i64| values.iter().all(|v| (low..=high).contains(v));
        if fits(i32::MIN.into(), i32::MAX.into()) {
            all.push(Tokens::I32(values.iter().map(|&v| v as i32).collect()));
        }
        if fits(0, u32::MAX.into()) {
            all.push(Tokens::U32(values.iter().map(|&v| v as u32).collect()));
        }
        if fits(0, u16::MAX.into()) {
            all.push(Tokens::U16(values.iter().map(|&v| v as u16).collect()));
        }
        all
    }

    #[test]
    fn numbers_below_the_vocabulary_are_ids() {
        for (vocab_size, value, is_id) in [
            (None, 0, true),
            (None, i64::MAX, true),
            (None, -1, false),
            (None, i64::MIN, false),
            (None, -100, false),
            (Some(1), 0, true),
            (Some(1), 1, false),
            (Some(50_257), 50_256, true),
            (Some(50_257), 50_257, false),
            (Some(65_536), 65_535, true),
            (Some(65_536), 65_536, false),
            (Some(128_256), -5, false),
            (Some(1 << 31), i64::from(i32::MAX), true),
            (Some(1 << 40), 1 << 40, false),
            (Some(1 << 40), (1 << 40) - 1, true),
        ] {
            let mut values = vec![0; 100];
            for position in [0, 2, 3, 39, 40, 99] {
                values.fill(0);
                values[position] = value;
                for tokens in of_each_type(&values) {
                    let found = TokenIds::new(vocab_size).check(&page(tokens), 1000);
                    assert_eq!(found.is_ok(), is_id, "{vocab_size:?} {value}");
                    let Err(error) = found else { continue };
                    assert_eq!(error.kind(), Kind::TokenRange);
                    let (row, start) = match position {
                        0..3 => (0, 0),
                        3..40 => (2, 3),
                        _ => (3, 40),
                    };
                    let expected = format!("row {} of the row group holds {value} as", 1000 + row);
                    assert!(error.message().starts_with(&expected), "{error}");
                    let token = format!("token {}, ", position - start);
                    assert!(error.message().contains(&token), "{error}");
                }
            }
        }
    }

    #[test]
    fn dictionaries_hold_ids_if_all_entries_are_ids() {
        let holds = |vocab_size, entries: Vec<u16>| {
            let dictionary = Dictionary::new(Tokens::U16(entries));
            TokenIds::new(vocab_size).hold(&dictionary)
        };
        for vocab_size in [None, Some(10), Some(65_536)] {
            assert!(holds(vocab_size, vec![]));
            assert!(holds(vocab_size, (0..10).collect()));
            assert!(holds(vocab_size, (0..10).rev().collect()));
            for entries in [(0..11).collect(), (0..11).rev().collect()] {
                assert_eq!(holds(vocab_size, entries), vocab_size != Some(10));
            }
        }
        assert!(!TokenIds::default().hold(&Dictionary::new(Tokens::I32(vec![0, -1]))));
    }

    #[test]
    fn lists_are_checked_in_their_rows_only() {
        let rows = [
            Some([Some(1), Some(2), Some(-3)]),
            None,
            Some([Some(4), None, Some(70)]),
        ];
        let arrays: [ArrayRef; 3] = [
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows)),
            Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(
                rows.map(|row| row.map(|row| row.map(|value| value.map(i64::from)))),
            )),
            Arc::new(FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(
                rows.map(|row| row.map(|row| row.map(|value| value.map(|v: i32| v as i16)))),
                3,
            )),
        ];
        for lists in arrays {
            let ids = TokenIds::default();
            let error = ids.check_lists(&lists, 7).unwrap_err();
            assert_eq!(error.kind(), Kind::TokenRange);
            assert!(error.message().contains("row 7 of the row group holds -3"));
            let rest = lists.slice(1, 2);
            ids.check_lists(&rest, 8).unwrap();
            TokenIds::new(Some(71)).check_lists(&rest, 8).unwrap();
            let error = TokenIds::new(Some(70)).check_lists(&rest, 8).unwrap_err();
            assert!(error.message().contains("row 9 of the row group holds 70"));
        }
        let wide = [Some([Some(u64::MAX)])];
        let lists = ListArray::from_iter_primitive::<UInt64Type, _, _>(wide);
        let lists: ArrayRef = Arc::new(lists);
        let error = TokenIds::default().check_lists(&lists, 0).unwrap_err();
        let message = error.message();
        assert!(message.contains("18446744073709551615"), "{message}");
    }
}
