//! Copies token ranges of pages into batches, converting as they go.
//!
//! The loops are plain so that the compiler vectorises them, compiled once more for
//! AVX2 and chosen at run time. Whether every value fits is one OR per value, left
//! out where the types prove it.

use std::ops::BitOr;

use crate::decode::{TokenPage, Tokens};
use crate::fields::Number;
use crate::prefetch::fetch;

/// Why a segment could not be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The page is shorter than the segment needs.
    PageTooShort {
        /// Rows the page holds.
        num_rows: usize,
        /// Tokens the page holds.
        num_tokens: usize,
        /// Tokens it would have to hold, if the row is there.
        needed: Option<u64>,
    },
    /// A token does not fit the type of the batch.
    Token(i64),
}

/// A type that tokens can be delivered in.
pub trait BatchToken: Number + Into<i64> + Send + Sync + 'static {
    /// Name in messages.
    const NAME: &'static str;
    /// The value in this type, if it fits.
    fn from_i64(value: i64) -> Option<Self>;
    /// Copies `tokens[start..start + target.len()]`, which must lie inside, fetching
    /// those `ahead` meanwhile; on a value that does not fit returns it.
    fn copy(tokens: &Tokens, start: usize, target: &mut [Self], ahead: Ahead) -> Result<(), i64>;
}

/// Tokens that are copied next, to be fetched into the cache meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Ahead(*const u8);

impl Ahead {
    /// Nothing to fetch.
    pub const NONE: Self = Self(std::ptr::null());

    /// Those of `page` from token `first_token` of row `row` on.
    pub fn new(page: &TokenPage, row: u32, first_token: u32) -> Self {
        let Some(&offset) = page.row_offsets.get(row as usize) else {
            return Self::NONE;
        };
        let start = offset as usize + first_token as usize;
        Self(match &page.tokens {
            Tokens::U16(all) => all.as_ptr().wrapping_add(start).cast(),
            Tokens::I32(all) => all.as_ptr().wrapping_add(start).cast(),
            Tokens::U32(all) => all.as_ptr().wrapping_add(start).cast(),
            Tokens::I64(all) => all.as_ptr().wrapping_add(start).cast(),
        })
    }

    #[inline(always)]
    fn or<T>(self, tokens: &[T]) -> Self {
        match self.0.is_null() {
            true => Self(tokens.as_ptr().cast()),
            false => self,
        }
    }

    /// Fetches the first tokens. The processor sees by itself that the rest follows.
    pub fn fetch(self) {
        if !self.0.is_null() {
            (0..FIRST_LINES).for_each(|line| self.fetch_line(line));
        }
    }

    #[inline(always)]
    fn fetch_line(self, line: usize) {
        fetch(self.0.wrapping_add(line * LINE_BYTES));
    }
}

/// Bytes of a line of the cache.
const LINE_BYTES: usize = 64;
/// Lines after which the processor has seen where it goes.
const FIRST_LINES: usize = 8;

/// Copies the tokens of `page` from token `first_token` of row `row` on, as many as
/// `target` holds; they may run on into later rows. Those `ahead` are fetched
/// meanwhile.
pub fn copy_segment<T: BatchToken>(
    page: &TokenPage,
    row: u32,
    first_token: u32,
    target: &mut [T],
    ahead: Ahead,
) -> Result<(), Misfit> {
    let num_tokens = page.tokens.len();
    let num_rows = page.row_offsets.len().saturating_sub(1);
    let too_short = |needed| Misfit::PageTooShort {
        num_rows,
        num_tokens,
        needed,
    };
    let row = row as usize;
    if row >= num_rows {
        return Err(too_short(None));
    }
    let start = u64::from(page.row_offsets[row]) + u64::from(first_token);
    let end = start + target.len() as u64;
    if end > num_tokens as u64 {
        return Err(too_short(Some(end)));
    }
    T::copy(&page.tokens, start as usize, target, ahead).map_err(Misfit::Token)
}

/// Tokens that every row gets, also one without tokens of its own.
///
/// A row that got them is a line of `bos`, its tokens and `eos`; the places of a page
/// with separators count through its lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Separators<T> {
    /// Before the row.
    pub bos: Option<T>,
    /// Behind it.
    pub eos: Option<T>,
}

impl<T: Copy> Separators<T> {
    /// How many a row gets.
    pub fn per_row(&self) -> u32 {
        u32::from(self.bos.is_some()) + u32::from(self.eos.is_some())
    }
}

/// A part of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePart {
    /// Row of the page.
    pub row: usize,
    /// First token of the line.
    pub first_token: u64,
    /// Number of tokens.
    pub num_tokens: usize,
}

/// The parts of lines in a range of tokens that begins `first_token` tokens behind the
/// begin of row `row`; lines have `per_row` tokens more than their row.
pub fn line_parts(
    page: &TokenPage,
    per_row: u32,
    row: u32,
    first_token: u32,
    num_tokens: usize,
) -> Result<impl Iterator<Item = LinePart>, Misfit> {
    let offsets = page.row_offsets.as_slice();
    let num_rows = offsets.len().saturating_sub(1);
    let begin_of = move |row: usize| u64::from(offsets[row]) + u64::from(per_row) * row as u64;
    let too_short = |needed| Misfit::PageTooShort {
        num_rows,
        num_tokens: page.tokens.len(),
        needed,
    };
    let mut row = row as usize;
    if row >= num_rows {
        return Err(too_short(None));
    }
    let mut position = begin_of(row) + u64::from(first_token);
    let end = position + num_tokens as u64;
    if end > begin_of(num_rows) {
        return Err(too_short(Some(end)));
    }
    let mut above = num_rows;
    while above - row > 1 {
        let middle = row.midpoint(above);
        if begin_of(middle) <= position {
            row = middle;
        } else {
            above = middle;
        }
    }
    Ok(std::iter::from_fn(move || {
        if position >= end {
            return None;
        }
        while begin_of(row + 1) <= position {
            row += 1;
        }
        let stop = end.min(begin_of(row + 1));
        let part = LinePart {
            row,
            first_token: position - begin_of(row),
            num_tokens: (stop - position) as usize,
        };
        position = stop;
        Some(part)
    }))
}

/// Copies a part of a line, which must lie inside it, to `target`.
pub fn copy_line<T: BatchToken>(
    page: &TokenPage,
    part: LinePart,
    separators: &Separators<T>,
    target: &mut [T],
) -> Result<(), Misfit> {
    let begin = page.row_offsets[part.row] as usize;
    let end = page.row_offsets[part.row + 1] as usize;
    let mut first = part.first_token as usize;
    let num_bos = usize::from(separators.bos.is_some() && first == 0);
    let (before, target) = target.split_at_mut(num_bos.min(target.len()));
    if let (Some(bos), [place]) = (separators.bos, before) {
        *place = bos;
    } else {
        first -= usize::from(separators.bos.is_some());
    }
    let from = (begin + first).min(end);
    let (own, behind) = target.split_at_mut(target.len().min(end - from));
    if let (Some(eos), [place]) = (separators.eos, behind) {
        *place = eos;
    }
    T::copy(&page.tokens, from, own, Ahead::NONE).map_err(Misfit::Token)
}

/// Converts value by value; false if the OR of all `excess` is not zero, that is,
/// if some value does not fit. With every line that is read, one of those `ahead` is
/// fetched.
#[inline(always)]
fn convert_loop<S: Copy, T, E: Copy + Default + PartialEq + BitOr<Output = E>>(
    source: &[S],
    target: &mut [T],
    ahead: Ahead,
    cast: impl Fn(S) -> T,
    excess: impl Fn(S) -> E,
) -> bool {
    let mut all = E::default();
    let mut each = |target: &mut [T], source: &[S]| {
        for (to, &from) in target.iter_mut().zip(source) {
            *to = cast(from);
            all = all | excess(from);
        }
    };
    let ahead = ahead.or(source);
    let per_line = LINE_BYTES / size_of::<S>();
    let (mut targets, mut sources) = (
        target.chunks_exact_mut(per_line),
        source.chunks_exact(per_line),
    );
    for (line, (target, source)) in targets.by_ref().zip(sources.by_ref()).enumerate() {
        ahead.fetch_line(line);
        each(target, source);
    }
    each(targets.into_remainder(), sources.remainder());
    all == E::default()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn convert_avx2<S: Copy, T, E: Copy + Default + PartialEq + BitOr<Output = E>>(
    source: &[S],
    target: &mut [T],
    ahead: Ahead,
    cast: impl Fn(S) -> T,
    excess: impl Fn(S) -> E,
) -> bool {
    convert_loop(source, target, ahead, cast, excess)
}

fn convert<S: Copy, T, E: Copy + Default + PartialEq + BitOr<Output = E>>(
    source: &[S],
    target: &mut [T],
    ahead: Ahead,
    cast: impl Fn(S) -> T,
    excess: impl Fn(S) -> E,
) -> bool {
    if size_of_val(source) < FIRST_LINES * LINE_BYTES {
        ahead.fetch();
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { convert_avx2(source, target, ahead, cast, excess) };
    }
    convert_loop(source, target, ahead, cast, excess)
}

/// Copies values that need no conversion.
fn copy<S: Copy>(source: &[S], target: &mut [S], ahead: Ahead) {
    ahead.fetch();
    target.copy_from_slice(source);
}

/// The first value outside `range`, once it is known that there is one.
fn misfit<S: Copy + Into<i64>>(source: &[S], fits: impl Fn(i64) -> bool) -> i64 {
    let mut values = source.iter().map(|&value| value.into());
    values.find(|&value| !fits(value)).unwrap_or_default()
}

fn checked<S: Copy + Into<i64>, T: BatchToken>(all_fit: bool, source: &[S]) -> Result<(), i64> {
    if all_fit {
        return Ok(());
    }
    Err(misfit(source, |value| T::from_i64(value).is_some()))
}

impl BatchToken for i64 {
    const NAME: &'static str = "int64";

    fn from_i64(value: i64) -> Option<Self> {
        Some(value)
    }

    fn copy(tokens: &Tokens, start: usize, target: &mut [Self], ahead: Ahead) -> Result<(), i64> {
        let end = start + target.len();
        match tokens {
            Tokens::U16(all) => {
                convert(&all[start..end], target, ahead, i64::from, |_| 0u8);
            }
            Tokens::I32(all) => {
                convert(&all[start..end], target, ahead, i64::from, |_| 0u8);
            }
            Tokens::U32(all) => {
                convert(&all[start..end], target, ahead, i64::from, |_| 0u8);
            }
            Tokens::I64(all) => copy(&all[start..end], target, ahead),
        }
        Ok(())
    }
}

impl BatchToken for i32 {
    const NAME: &'static str = "int32";

    fn from_i64(value: i64) -> Option<Self> {
        value.try_into().ok()
    }

    fn copy(tokens: &Tokens, start: usize, target: &mut [Self], ahead: Ahead) -> Result<(), i64> {
        let end = start + target.len();
        match tokens {
            Tokens::U16(all) => {
                convert(&all[start..end], target, ahead, i32::from, |_| 0u8);
                Ok(())
            }
            Tokens::I32(all) => {
                copy(&all[start..end], target, ahead);
                Ok(())
            }
            Tokens::U32(all) => {
                let source = &all[start..end];
                let fit = convert(source, target, ahead, |v| v as i32, |v| v >> 31);
                checked::<_, Self>(fit, source)
            }
            Tokens::I64(all) => {
                let source = &all[start..end];
                let fit = convert(
                    source,
                    target,
                    ahead,
                    |v| v as i32,
                    |v| v ^ i64::from(v as i32),
                );
                checked::<_, Self>(fit, source)
            }
        }
    }
}

impl BatchToken for u16 {
    const NAME: &'static str = "uint16";

    fn from_i64(value: i64) -> Option<Self> {
        value.try_into().ok()
    }

    fn copy(tokens: &Tokens, start: usize, target: &mut [Self], ahead: Ahead) -> Result<(), i64> {
        let end = start + target.len();
        match tokens {
            Tokens::U16(all) => {
                copy(&all[start..end], target, ahead);
                Ok(())
            }
            Tokens::I32(all) => {
                let source = &all[start..end];
                let fit = convert(source, target, ahead, |v| v as u16, |v| v >> 16);
                checked::<_, Self>(fit, source)
            }
            Tokens::U32(all) => {
                let source = &all[start..end];
                let fit = convert(source, target, ahead, |v| v as u16, |v| v >> 16);
                checked::<_, Self>(fit, source)
            }
            Tokens::I64(all) => {
                let source = &all[start..end];
                let fit = convert(source, target, ahead, |v| v as u16, |v| v >> 16);
                checked::<_, Self>(fit, source)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn page(tokens: Tokens) -> TokenPage {
        let num_tokens = tokens.len() as u32;
        TokenPage {
            tokens,
            row_offsets: vec![0, 2, 2, num_tokens],
        }
    }

    #[test]
    fn every_pair_of_types_keeps_values_that_fit() {
        let values: Vec<u16> = (0..1001).map(|i| (i * 65) as u16).collect();
        let wide = values.iter().map(|&v| i64::from(v));
        for tokens in [
            Tokens::U16(values.clone()),
            Tokens::I32(values.iter().map(|&v| i32::from(v)).collect()),
            Tokens::U32(values.iter().map(|&v| u32::from(v)).collect()),
            Tokens::I64(wide.clone().collect()),
        ] {
            let page = page(tokens);
            let (mut a, mut b, mut c) = ([0i64; 900], [0i32; 900], [0u16; 900]);
            copy_segment(&page, 2, 7, &mut a, Ahead::NONE).unwrap();
            copy_segment(&page, 2, 7, &mut b, Ahead::NONE).unwrap();
            copy_segment(&page, 0, 9, &mut c, Ahead::NONE).unwrap();
            let expected: Vec<i64> = wide.clone().skip(9).take(900).collect();
            assert_eq!(a.to_vec(), expected);
            assert_eq!(b.map(i64::from).to_vec(), expected);
            assert_eq!(c.map(i64::from).to_vec(), expected);
        }
    }

    #[test]
    fn any_part_of_a_page_is_widened_to_any_part_of_a_batch() {
        let values: Vec<u16> = (0..200).map(|i| (i * 331) as u16).collect();
        let page = page(Tokens::U16(values.clone()));
        let mut target = [-1i64; 120];
        for start in 0..6 {
            for length in 0..110 {
                for at in 0..9 {
                    // Wherever that is.
                    let ahead = Ahead::new(&page, start, at as u32 * 1000);
                    target.fill(-1);
                    let part = &mut target[at..at + length];
                    copy_segment(&page, 0, start, part, ahead).unwrap();
                    let copied = &values[start as usize..start as usize + length];
                    assert!(
                        target[at..at + length].iter().eq(copied
                            .iter()
                            .map(|&v| v as i64)
                            .collect::<Vec<_>>()
                            .iter())
                    );
                    assert!(
                        target[..at]
                            .iter()
                            .chain(&target[at + length..])
                            .all(|&v| v == -1)
                    );
                }
            }
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_returned() {
        fn first<T: BatchToken + Default>(tokens: Tokens) -> Result<(), Misfit> {
            copy_segment(&page(tokens), 0, 0, &mut [T::default(); 100], Ahead::NONE)
        }
        let at = |position: usize, value: i64| {
            let mut values = vec![7i64; 100];
            values[position] = value;
            values
        };
        for position in [0, 1, 50, 98, 99] {
            for value in [-1i64, 65536, i64::from(i32::MIN), i64::from(i32::MAX)] {
                let narrow = at(position, value).iter().map(|&v| v as i32).collect();
                let misfit = Err(Misfit::Token(value));
                assert_eq!(first::<u16>(Tokens::I32(narrow)), misfit);
                assert_eq!(first::<u16>(Tokens::I64(at(position, value))), misfit);
                assert_eq!(first::<i32>(Tokens::I64(at(position, value))), Ok(()));
            }
            for value in [1i64 << 31, i64::from(u32::MAX)] {
                let unsigned: Vec<u32> = at(position, value).iter().map(|&v| v as u32).collect();
                let misfit = Err(Misfit::Token(value));
                assert_eq!(first::<i32>(Tokens::U32(unsigned.clone())), misfit);
                assert_eq!(first::<u16>(Tokens::U32(unsigned.clone())), misfit);
                assert_eq!(first::<i64>(Tokens::U32(unsigned)), Ok(()));
                assert_eq!(first::<i32>(Tokens::I64(at(position, value))), misfit);
            }
            for value in [i64::MIN, i64::MAX, -(1 << 31) - 1] {
                let tokens = Tokens::I64(at(position, value));
                assert_eq!(first::<i32>(tokens), Err(Misfit::Token(value)));
            }
        }
    }

    #[test]
    fn a_value_outside_the_segment_does_no_harm() {
        let page = page(Tokens::I32(vec![-1, 5, 6, 70000]));
        let mut target = [0u16; 2];
        copy_segment(&page, 0, 1, &mut target, Ahead::NONE).unwrap();
        assert_eq!(target, [5, 6]);
    }

    #[test]
    fn lines_have_separators_also_where_rows_are_empty() {
        let page = page(Tokens::U16(vec![1, 2, 3, 4]));
        for (bos, eos) in [
            (None, None),
            (Some(7), None),
            (None, Some(9)),
            (Some(7), Some(9)),
        ] {
            let separators = Separators { bos, eos };
            let per_row = separators.per_row();
            let mut line = Vec::new();
            let mut rows = Vec::new();
            for (row, tokens) in [&[1i64, 2][..], &[], &[3, 4]].into_iter().enumerate() {
                let before = line.len();
                line.extend(bos.into_iter().chain(tokens.iter().copied()).chain(eos));
                rows.extend((0..line.len() - before).map(|place| (row, place as u64)));
            }
            for start in 0..=line.len() {
                for end in start..=line.len() {
                    let mut found = vec![0; end - start];
                    let mut offset = 0;
                    let parts = line_parts(&page, per_row, 0, start as u32, end - start).unwrap();
                    for part in parts {
                        assert_eq!(rows[start + offset], (part.row, part.first_token));
                        let target = &mut found[offset..offset + part.num_tokens];
                        copy_line(&page, part, &separators, target).unwrap();
                        offset += part.num_tokens;
                    }
                    assert_eq!(found, line[start..end]);
                }
            }
            let beyond = line_parts(&page, per_row, 0, 1, line.len());
            assert!(matches!(beyond.err(), Some(Misfit::PageTooShort { .. })));
            assert!(line_parts(&page, per_row, 3, 0, 0).is_err());
        }
    }

    #[test]
    fn a_page_that_is_too_short_is_told() {
        let page = page(Tokens::U16(vec![1, 2, 3, 4]));
        let needed = |row, first_token, count| {
            copy_segment(&page, row, first_token, &mut vec![0i64; count], Ahead::NONE)
        };
        assert_eq!(needed(1, 0, 2), Ok(()));
        let too_short = |needed| Misfit::PageTooShort {
            num_rows: 3,
            num_tokens: 4,
            needed,
        };
        assert_eq!(needed(2, 1, 2), Err(too_short(Some(5))));
        assert_eq!(needed(0, u32::MAX, 1), Err(too_short(Some(1 << 32))));
        assert_eq!(needed(3, 0, 0), Err(too_short(None)));
        let empty = TokenPage {
            tokens: Tokens::U16(vec![]),
            row_offsets: vec![],
        };
        assert!(copy_segment(&empty, 0, 0, &mut [0i64; 0], Ahead::NONE).is_err());
    }
}
