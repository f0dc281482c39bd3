//! Pages of flat files: runs of records, read straight into tokens where these lie in a
//! type that tokens are held in, and gathered from their records otherwise.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, ListArray, UInt16Array, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::Field;

use crate::decode::{TokenPage, Tokens};
use crate::error::{Error, Kind, Result};
use crate::index::{Flat, FlatRows, Index, Number, PageRecord, Records};
use crate::storage::Storage;
use crate::store::FileId;

/// Reads a page into the memory of an earlier one.
pub fn load(
    index: &Index,
    flat: &Flat,
    storage: &dyn Storage,
    number: u64,
    record: &PageRecord,
    page: &mut TokenPage,
) -> Result<()> {
    let file = &index.files()[record.file as usize];
    let rows = flat.rows(index.rows_of_page(number)?);
    let count = usize::try_from(record.num_values)
        .ok()
        .filter(|count| u32::try_from(*count).is_ok())
        .ok_or_else(|| Error::limit("a page of more than 2^32 tokens"))?;
    page.joins = index.joins(record);
    page.aligned.clear();
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
    if rows.bytes.is_empty()
        && flat.records.size == flat.records.number.num_bytes()
        && read_directly(flat.records.number, storage, file, record, &mut page.tokens)?
    {
        return Ok(());
    }
    page.tokens.clear();
    let end = record.offset.saturating_add(record.compressed_size);
    let bytes = storage.read(file, record.offset..end)?;
    gather(flat.records, &rows, &bytes, page)
}

/// The page as an array of lists.
pub fn to_array(page: TokenPage) -> Result<ArrayRef> {
    let values: ArrayRef = match page.tokens {
        Tokens::U16(values) => Arc::new(UInt16Array::from(values)),
        Tokens::I32(values) => Arc::new(Int32Array::from(values)),
        Tokens::U32(values) => Arc::new(UInt32Array::from(values)),
        Tokens::I64(values) => Arc::new(Int64Array::from(values)),
    };
    let offsets: Option<Vec<i32>> = page
        .row_offsets
        .iter()
        .map(|&o| o.try_into().ok())
        .collect();
    let offsets = offsets.ok_or_else(|| Error::limit("a page of more than 2^31 tokens"))?;
    let item = Arc::new(Field::new("element", values.data_type().clone(), false));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(item, offsets, values, None)?))
}

/// Reads tokens of a type in which they are held; whether they are of one.
fn read_directly(
    number: Number,
    storage: &dyn Storage,
    file: &FileId,
    record: &PageRecord,
    tokens: &mut Tokens,
) -> Result<bool> {
    let count = record.num_values as usize;
    macro_rules! read {
        ($kind:ident) => {{
            if !matches!(tokens, Tokens::$kind(_)) {
                *tokens = Tokens::$kind(Vec::new());
            }
            if let Tokens::$kind(values) = tokens {
                // What is there is written over: no need to clear it before.
                reserve(values, count.saturating_sub(values.len()))?;
                values.resize(count, 0);
                storage.read_into(file, record.offset, as_bytes(values))?;
                values.iter_mut().for_each(|value| *value = value.to_le());
            }
            true
        }};
    }
    Ok(match number {
        Number::U16 => read!(U16),
        Number::I32 => read!(I32),
        Number::U32 => read!(U32),
        Number::I64 => read!(I64),
        Number::U8 | Number::I8 | Number::I16 | Number::U64 => false,
    })
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
    values
        .try_reserve_exact(count)
        .map_err(|_| Error::limit(format!("no memory for {count} tokens")))
}

/// Takes the token of each record of each row.
fn gather(records: Records, rows: &FlatRows<'_>, bytes: &[u8], page: &mut TokenPage) -> Result<()> {
    macro_rules! gather {
        ($kind:ident, $from:ty, $cast:expr) => {{
            let mut values = match std::mem::take(&mut page.tokens) {
                Tokens::$kind(values) => values,
                _ => Vec::new(),
            };
            let cast = |own| $cast(<$from>::from_le_bytes(own));
            gather_as(records, rows, &page.row_offsets, bytes, cast, &mut values)?;
            page.tokens = Tokens::$kind(values);
        }};
        ($kind:ident, $from:ty as $into:ty) => {
            gather!($kind, $from, |value| Ok(<$into>::from(value)))
        };
    }
    let narrow = |value| {
        let bad = |_| Error::new(Kind::TokenRange, format!("{value} is no token id"));
        i64::try_from(value).map_err(bad)
    };
    match records.number {
        Number::U8 => gather!(U16, u8 as u16),
        Number::U16 => gather!(U16, u16 as u16),
        Number::I8 => gather!(I32, i8 as i32),
        Number::I16 => gather!(I32, i16 as i32),
        Number::I32 => gather!(I32, i32 as i32),
        Number::U32 => gather!(U32, u32 as u32),
        Number::I64 => gather!(I64, i64 as i64),
        Number::U64 => gather!(I64, u64, narrow),
    }
    Ok(())
}

fn gather_as<T, const N: usize>(
    records: Records,
    rows: &FlatRows<'_>,
    row_offsets: &[u32],
    bytes: &[u8],
    cast: impl Fn([u8; N]) -> Result<T>,
    values: &mut Vec<T>,
) -> Result<()> {
    reserve(values, row_offsets.last().copied().unwrap_or(0) as usize)?;
    for (row, pair) in row_offsets.windows(2).enumerate() {
        let start = match rows.bytes {
            [] => pair[0] as usize * records.size,
            bytes => bytes.get(row).copied().unwrap_or(u32::MAX) as usize,
        };
        let size = (pair[1] - pair[0]) as usize * records.size;
        let own = bytes.get(start..start.saturating_add(size));
        let own =
            own.ok_or_else(|| Error::corrupt(format!("row {row} of the page lies outside of it")))?;
        for record in own.chunks_exact(records.size) {
            let mut token = [0; N];
            token.copy_from_slice(&record[records.offset..records.offset + N]);
            values.push(cast(token)?);
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn gathered(records: Records, rows: &FlatRows<'_>, offsets: &[u32], bytes: &[u8]) -> Vec<i64> {
        let mut page = TokenPage {
            row_offsets: offsets.to_vec(),
            ..TokenPage::default()
        };
        gather(records, rows, bytes, &mut page).unwrap();
        page.tokens.wide(0..page.tokens.len())
    }

    #[test]
    fn tokens_are_taken_from_records_of_rows_apart() {
        let records = Records {
            number: Number::I8,
            size: 3,
            offset: 1,
            joined: false,
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
            number: Number::U64,
            size: 8,
            offset: 0,
            joined: false,
        };
        let rows = FlatRows {
            values: &[],
            bytes: &[],
        };
        let mut page = TokenPage {
            row_offsets: vec![0, 1],
            ..TokenPage::default()
        };
        let error = gather(records, &rows, &[255; 8], &mut page).unwrap_err();
        assert_eq!(error.kind(), Kind::TokenRange);
        let error = gather(records, &rows, &[0; 7], &mut page).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
    }
}
