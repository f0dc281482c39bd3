//! Pages of flat files: runs of records, read straight into tokens where these lie in a
//! type that tokens are held in, and gathered from their records otherwise.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, UInt16Array, UInt32Array};
use arrow_schema::{DataType, Field};

use crate::buffers::renew;
use crate::error::{Error, Kind, Result};
use crate::index::{Flat, FlatRows, Index, PageRecord, Records};
use crate::lists::list_array;
use crate::storage::Storage;
use crate::tokens::{NumberType, Numbers, TokenPage, Tokens, with_values};

/// A number, or several, of each record besides its token.
#[derive(Clone, Copy, Debug)]
pub struct FlatField {
    /// Type of the number.
    pub number: NumberType,
    /// Bytes of the record before it.
    pub offset: usize,
    /// Number of such values in a record.
    pub width: usize,
}

impl FlatField {
    /// Bytes of a record before the end of the field.
    pub fn end(&self) -> usize {
        let bytes = self.number.num_bytes().saturating_mul(self.width);
        self.offset.saturating_add(bytes)
    }
}

/// Reads a page into the memory of an earlier one.
pub fn load(
    index: &Index,
    flat: &Flat,
    fields: &[FlatField],
    storage: &dyn Storage,
    number: u64,
    record: &PageRecord,
    page: &mut TokenPage,
) -> Result<()> {
    let file = &index.file(record.file as usize);
    let rows = flat.rows(index, number)?;
    let count = usize::try_from(record.num_values)
        .ok()
        .filter(|count| u32::try_from(*count).is_ok())
        .ok_or_else(|| Error::limit("a page of more than 2^32 tokens"))?;
    page.continues = index.continues(record);
    page.skipped = 0;
    page.row_offsets.clear();
    match rows.values {
        [] => page.row_offsets.push(0),
        values => page.row_offsets.extend_from_slice(values),
    }
    page.row_offsets.push(count as u32);
    if page.row_offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::corrupt("rows of the page do not follow each other"));
    }
    let whole = flat.records.size as u64 * record.num_values;
    if rows.bytes.is_empty() && whole != record.compressed_size {
        return Err(Error::corrupt(format!(
            "{} tokens take {whole} bytes, the page has {}",
            record.num_values, record.compressed_size
        )));
    }
    if rows.bytes.is_empty() && are_as_held(flat.records) {
        let into = room(flat.records, count, &mut page.tokens)?;
        storage.read_into(file, record.offset, into)?;
        to_native(&mut page.tokens);
        page.aligned.clear();
        return Ok(());
    }
    let end = record.offset.saturating_add(record.compressed_size);
    let bytes = storage.read(file, record.offset..end)?;
    gather(flat.records, fields, &rows, &bytes, page)
}

/// The page as an array of lists.
pub fn to_array(page: TokenPage) -> Result<ArrayRef> {
    let values: ArrayRef = match page.tokens {
        Tokens::U16(values) => Arc::new(UInt16Array::from(values)),
        Tokens::I32(values) => Arc::new(Int32Array::from(values)),
        Tokens::U32(values) => Arc::new(UInt32Array::from(values)),
        Tokens::I64(values) => Arc::new(Int64Array::from(values)),
    };
    lists_of_elements(&page.row_offsets, values)
}

/// Returns values as lists, each from one offset to the next.
pub(super) fn lists_of_elements(row_offsets: &[u32], values: ArrayRef) -> Result<ArrayRef> {
    let item = Field::new("element", values.data_type().clone(), false);
    list_array(&DataType::List(Arc::new(item)), row_offsets, values, None)
}

/// Whether records are tokens and nothing else, in a type of memory: their bytes can be
/// read directly into a page.
pub(super) fn are_as_held(records: Records) -> bool {
    use NumberType::{I32, I64, U16, U32};
    let is_held = matches!(records.number, U16 | I32 | U32 | I64);
    is_held && records.size == records.number.num_bytes()
}

/// Returns memory for `count` such tokens. It is not cleared, since reads write over
/// all of it.
pub(super) fn room(records: Records, count: usize, tokens: &mut Tokens) -> Result<&mut [u8]> {
    make_of(records.number, tokens);
    with_values!(tokens, values => {
        reserve(values, count.saturating_sub(values.len()))?;
        values.resize(count, 0);
        Ok(as_bytes(values))
    })
}

/// Converts little-endian tokens in place to the order of the machine.
pub(super) fn to_native(tokens: &mut Tokens) {
    with_values!(tokens, values => {
        values.iter_mut().for_each(|value| *value = value.to_le());
    });
}

/// Numbers that are any bytes.
trait Plain: Copy {}
impl Plain for u16 {}
impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for i64 {}

fn as_bytes<T: Plain>(values: &mut [T]) -> &mut [u8] {
    let size = size_of_val(values);
    // SAFETY: the numbers lie there, and any bytes are some.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size) }
}

fn reserve<T>(values: &mut Vec<T>, count: usize) -> Result<()> {
    renew(values, count);
    values
        .try_reserve_exact(count)
        .map_err(|_| Error::limit(format!("no memory for {count} tokens")))
}

/// Copies a number of each record of each row.
fn gather(
    records: Records,
    fields: &[FlatField],
    rows: &FlatRows<'_>,
    bytes: &[u8],
    page: &mut TokenPage,
) -> Result<()> {
    let last = page.row_offsets.last().copied().unwrap_or(0) as usize;
    begin(records, fields, last, page)?;
    let outside =
        |row: usize| move || Error::corrupt(format!("row {row} of the page lies outside of it"));
    if rows.bytes.is_empty() {
        let own = bytes.get(..last.saturating_mul(records.size));
        return append(records, fields, own.ok_or_else(outside(0))?, page);
    }
    for row in 0..page.row_offsets.len() - 1 {
        let start = rows.bytes.get(row).copied().unwrap_or(u32::MAX) as usize;
        let count = page.row_offsets[row + 1] - page.row_offsets[row];
        let own = bytes.get(start..start.saturating_add(count as usize * records.size));
        append(records, fields, own.ok_or_else(outside(row))?, page)?;
    }
    Ok(())
}

/// Empties a page, gives its tokens the type of those in records, and makes room for
/// `count`.
pub(super) fn begin(
    records: Records,
    fields: &[FlatField],
    count: usize,
    page: &mut TokenPage,
) -> Result<()> {
    page.aligned.resize_with(fields.len(), Numbers::default);
    for (field, numbers) in fields.iter().zip(&mut page.aligned) {
        *numbers = Numbers::new(field.number.num_bytes(), std::mem::take(numbers));
    }
    make_of(records.number, &mut page.tokens);
    page.tokens.clear();
    with_values!(&mut page.tokens, values => reserve(values, count))
}

/// Gives tokens the type for those of a file; drops them if their type changes.
fn make_of(number: NumberType, tokens: &mut Tokens) {
    tokens.retype(match number {
        NumberType::U8 | NumberType::U16 => Tokens::U16(Vec::new()),
        NumberType::I8 | NumberType::I16 | NumberType::I32 => Tokens::I32(Vec::new()),
        NumberType::U32 => Tokens::U32(Vec::new()),
        _ => Tokens::I64(Vec::new()),
    });
}

/// Appends the numbers of consecutive records.
pub(super) fn append(
    records: Records,
    fields: &[FlatField],
    bytes: &[u8],
    page: &mut TokenPage,
) -> Result<()> {
    append_tokens(records, bytes, &mut page.tokens)?;
    for (field, numbers) in fields.iter().zip(&mut page.aligned) {
        match field.number.num_bytes() {
            8 => append_numbers(records, field, bytes, numbers, i64::from_le_bytes),
            4 => append_numbers(records, field, bytes, numbers, |own| {
                i32::from_le_bytes(own).into()
            }),
            2 => append_numbers(records, field, bytes, numbers, |own| {
                u16::from_le_bytes(own).into()
            }),
            _ => append_numbers(records, field, bytes, numbers, |[byte]| byte.into()),
        }?;
    }
    Ok(())
}

fn append_numbers<const N: usize>(
    records: Records,
    field: &FlatField,
    bytes: &[u8],
    numbers: &mut Numbers,
    parse: impl Fn([u8; N]) -> i64 + Clone,
) -> Result<()> {
    // A field was seen to lie in its record.
    let number = |record: &[u8], offset: usize| {
        let own = record.get(offset..).and_then(<[u8]>::first_chunk);
        own.map_or(0, |&own| parse(own))
    };
    if field.width == 1 {
        let records = bytes.chunks_exact(records.size);
        return numbers.extend(records.map(|record| number(record, field.offset)), 0);
    }
    let count = bytes.len() / records.size * field.width;
    let place = |at: usize| at / field.width * records.size + field.offset + at % field.width * N;
    numbers.extend((0..count).map(|at| number(bytes, place(at))), 0)
}

fn append_tokens(records: Records, bytes: &[u8], tokens: &mut Tokens) -> Result<()> {
    macro_rules! append {
        ($values:ident, $from:ty) => {
            append_as(records, bytes, $values, |own| {
                <$from>::from_le_bytes(own).into()
            })
        };
    }
    match (records.number, tokens) {
        (NumberType::U8, Tokens::U16(values)) => append!(values, u8),
        (NumberType::U16, Tokens::U16(values)) => append!(values, u16),
        (NumberType::I8, Tokens::I32(values)) => append!(values, i8),
        (NumberType::I16, Tokens::I32(values)) => append!(values, i16),
        (NumberType::I32, Tokens::I32(values)) => append!(values, i32),
        (NumberType::U32, Tokens::U32(values)) => append!(values, u32),
        (NumberType::I64, Tokens::I64(values)) => append!(values, i64),
        (NumberType::U64, Tokens::I64(values)) => {
            let before = values.len();
            append_as(records, bytes, values, i64::from_le_bytes);
            if let Some(&value) = values[before..].iter().find(|&&value| value < 0) {
                let value = value.cast_unsigned();
                return Err(Error::new(
                    Kind::TokenRange,
                    format!("{value} is not a token id"),
                ));
            }
        }
        _ => {
            return Err(Error::internal("tokens have another type than in the file"));
        }
    }
    Ok(())
}

fn append_as<T, const N: usize>(
    records: Records,
    bytes: &[u8],
    values: &mut Vec<T>,
    parse: impl Fn([u8; N]) -> T,
) {
    if records.size == N {
        // Nothing but tokens.
        values.extend(bytes.as_chunks().0.iter().map(|&own| parse(own)));
        return;
    }
    let tokens = bytes.chunks_exact(records.size).filter_map(|record| {
        let own = record.get(records.offset..)?.first_chunk();
        own.map(|&own| parse(own))
    });
    values.extend(tokens);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(records: Records, rows: &FlatRows<'_>, offsets: &[u32], bytes: &[u8]) -> Vec<i64> {
        let mut page = TokenPage {
            row_offsets: offsets.to_vec(),
            ..TokenPage::default()
        };
        gather(records, &[], rows, bytes, &mut page).unwrap();
        page.tokens.wide(0..page.tokens.len())
    }

    #[test]
    fn tokens_are_taken_from_records_of_rows_apart() {
        let records = Records {
            number: NumberType::I8,
            size: 3,
            offset: 1,
            borderless: false,
        };
        let bytes: Vec<u8> = (0..18).map(|n| if n == 4 { 255 } else { n }).collect();
        let close = FlatRows {
            values: &[0, 1],
            bytes: &[],
        };
        assert_eq!(gathered(records, &close, &[0, 1, 3], &bytes), [1, -1, 7]);
        let apart = FlatRows {
            values: &[0, 1],
            bytes: &[0, 8],
        };
        assert_eq!(gathered(records, &apart, &[0, 1, 3], &bytes), [1, 9, 12]);
    }

    #[test]
    fn numbers_beyond_ids_and_rows_beyond_the_page_are_refused() {
        let records = Records {
            number: NumberType::U64,
            size: 8,
            offset: 0,
            borderless: false,
        };
        let rows = FlatRows {
            values: &[],
            bytes: &[],
        };
        let mut page = TokenPage {
            row_offsets: vec![0, 1],
            ..TokenPage::default()
        };
        let error = gather(records, &[], &rows, &[255; 8], &mut page).unwrap_err();
        assert_eq!(error.kind(), Kind::TokenRange);
        let error = gather(records, &[], &rows, &[0; 7], &mut page).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}
