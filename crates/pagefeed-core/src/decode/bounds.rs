//! The decoded size of a page, computed before memory is taken for it.
//!
//! A page may stand for far more than its bytes: a run of five bytes is two billion
//! values, an index of one bit names a text of a megabyte, a string of no bytes repeats
//! all of the string before it, a null takes the room of a list of fixed size. And a
//! header may claim what is not there at all. So every decoder of this crate, and
//! everything that is handed to the `parquet` crate's, which take memory by what is
//! claimed, comes through here first:
//!
//! | encoding | what proves the values | their size |
//! | --- | --- | --- |
//! | PLAIN, BYTE_STREAM_SPLIT | the bytes they take | the same |
//! | RLE, RLE_DICTIONARY | the runs cover them | count times width, or the lengths of the entries named |
//! | DELTA_BINARY_PACKED | the blocks are there | count times width |
//! | DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY | the blocks of lengths are there | the sums of all lengths |
//!
//! The values must also use up the page: what is left shows that its levels or counts are
//! not those it was written with, and other rows would be read. Left may be only what
//! honest writers pad with.
//!
//! The size is held against [`MAX_DECODED_PAGE_BYTES`](crate::limits::MAX_DECODED_PAGE_BYTES), or the limit of the thread, see
//! [`limit_pages`](crate::limits::limit_pages), and memory for nothing but nulls against
//! [`MAX_PADDING_BYTES`]. Within those, large memory is asked for so that the system may
//! refuse it: see [`crate::buffers`].

use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};

use crate::buffers::reserve;
use crate::encodings::delta::Delta;
use crate::encodings::hybrid::Runs;
use crate::encodings::indices;
use crate::error::{Error, Result};
use crate::header::PageKind;
use crate::levels::{count_up_to, num_levels};
use crate::limits::{MAX_PADDING_BYTES, check_page_size};
use crate::page::DataPage;
use crate::schema::{Leaf, children};

/// Bytes to which the values of a page decode, as many as its levels say: numbers or
/// strings without offsets and nulls. They are checked to be there, and nothing else.
/// `lengths` are the lengths of the strings in the dictionary.
pub(crate) fn decoded_size(
    page: &DataPage<'_>,
    leaf: &Leaf,
    num_values: usize,
    lengths: Option<&[u32]>,
) -> Result<u64> {
    let (bytes, bits) = (page.values, plain_bits(leaf));
    let fixed = (num_values as u64).saturating_mul(bits).div_ceil(8);
    let is_string = leaf.physical == PhysicalType::BYTE_ARRAY;
    if num_values == 0 && bytes.is_empty() {
        return Ok(0);
    }
    let size = match page.header.encoding() {
        Some(Encoding::PLAIN) if is_string => {
            let size = sized(bytes, fixed, num_values)?;
            all_used(page, leaf, split_strings(bytes, num_values, |_| ())?)?;
            size
        }
        Some(Encoding::PLAIN) => all_used_by(page, leaf, bytes, fixed, num_values)?,
        // The reader takes the distance of a value's bytes from their number.
        Some(Encoding::BYTE_STREAM_SPLIT) if bytes.len() as u64 != fixed => {
            return Err(damaged_plain(num_values, bytes.len()));
        }
        Some(Encoding::BYTE_STREAM_SPLIT) => fixed,
        Some(Encoding::RLE_DICTIONARY) => {
            check_indices(page, leaf, num_values)?;
            match lengths {
                Some(lengths) => indices::total_length(bytes, 0..num_values, lengths)?,
                None => fixed,
            }
        }
        Some(Encoding::RLE) => {
            let runs = bytes.get(4..).unwrap_or_default();
            all_used(page, leaf, covered(Runs::new(runs, 1, num_values))?)?;
            fixed
        }
        Some(Encoding::DELTA_BINARY_PACKED) => {
            all_used(page, leaf, deltas(bytes, num_values)?.end()?)?;
            fixed
        }
        Some(Encoding::DELTA_LENGTH_BYTE_ARRAY) => {
            let mut size = 0;
            let behind = lengths_of(bytes, num_values, |length| size += length)?;
            all_used_by(page, leaf, behind, size, num_values)?
        }
        Some(Encoding::DELTA_BYTE_ARRAY) => shared_prefixes(page, leaf, num_values)?,
        // The reader refuses what it does not know.
        _ => 0,
    };
    check_page_size(size)
}

/// Returns the bytes of a page's values, without bytes after them. Some writers add
/// such bytes to PLAIN values of fixed size, and the crate's reader takes them for
/// damage.
pub(crate) fn without_padding<'a>(page: &DataPage<'a>, leaf: &Leaf, num_values: usize) -> &'a [u8] {
    let is_fixed =
        leaf.physical == PhysicalType::FIXED_LEN_BYTE_ARRAY || leaf.physical == PhysicalType::INT96;
    let size = (num_values as u64).saturating_mul(plain_bits(leaf) / 8);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    match page.header.encoding() {
        Some(Encoding::PLAIN) if is_fixed => page.values.get(..size).unwrap_or(page.values),
        _ => page.values,
    }
}

/// Bytes that a page needs for an Arrow array and while it is made: values as in
/// `decoded_size`, levels, and the room of nulls in lists of fixed size.
pub(crate) fn array_size(
    page: &DataPage<'_>,
    leaf: &Leaf,
    decoded_size: u64,
    data_type: &DataType,
    ordinal: usize,
) -> Result<u64> {
    // Two levels of 16 bits, and an offset or a number.
    let bytes = plain_bits(leaf).div_ceil(8);
    let entries = (num_levels(page)? as u64).saturating_mul(4 + bytes);
    let slots = padded_slots(page, leaf, data_type, ordinal)?;
    let nulls = match leaf.physical {
        PhysicalType::FIXED_LEN_BYTE_ARRAY => num_levels(page)? as u64,
        _ => 0,
    };
    let padding = slots.max(nulls).saturating_mul(bytes);
    let padding = padding.saturating_sub(decoded_size);
    if padding > MAX_PADDING_BYTES as u64 {
        return Err(Error::limit(format!(
            "nulls would take {padding} bytes in values or lists of fixed size, the limit \
             is {MAX_PADDING_BYTES}"
        )));
    }
    check_page_size(entries.saturating_add(padding).saturating_add(decoded_size))
}

/// Returns the lengths of the strings of a dictionary, each stored after its length.
pub(crate) fn string_lengths(bytes: &[u8], num_entries: usize) -> Result<Vec<u32>> {
    sized(bytes, num_entries as u64 * 4, num_entries)?;
    let mut lengths = Vec::new();
    reserve(&mut lengths, num_entries)?;
    // Pages are less than 2 GiB.
    split_strings(bytes, num_entries, |string| {
        lengths.push(string.len() as u32)
    })?;
    Ok(lengths)
}

/// Calls `visit` with each of some strings, and returns the bytes after them.
fn split_strings(
    mut bytes: &[u8],
    num_values: usize,
    mut visit: impl FnMut(&[u8]),
) -> Result<&[u8]> {
    for _ in 0..num_values {
        let (string, rest) = split_string(bytes)?;
        visit(string);
        bytes = rest;
    }
    Ok(bytes)
}

/// Refuses bytes after the last value, but those of [`Leaf::is_padded`]: the levels or counts
/// of the page are others than those it was written with.
fn all_used(page: &DataPage<'_>, leaf: &Leaf, behind: &[u8]) -> Result<()> {
    let padding: &[u8] = match page.header.kind {
        PageKind::DataV1(_) if leaf.is_padded => &[0; 8],
        _ => &[],
    };
    match behind == padding {
        true => Ok(()),
        false => Err(Error::corrupt(format!(
            "{} bytes are left after the last value of the page instead of {}",
            behind.len(),
            padding.len()
        ))),
    }
}

/// Returns the `size` of values, which must be all the `bytes`.
fn all_used_by(
    page: &DataPage<'_>,
    leaf: &Leaf,
    bytes: &[u8],
    size: u64,
    num_values: usize,
) -> Result<u64> {
    let left = sized(bytes, size, num_values)?;
    all_used(page, leaf, &bytes[bytes.len() - left as usize..])?;
    Ok(size)
}

/// Refuses a page that has not as many indices as values.
pub(crate) fn check_indices(page: &DataPage<'_>, leaf: &Leaf, num_values: usize) -> Result<()> {
    let behind = match num_values {
        0 => page.values.get(1..).unwrap_or_default(),
        _ => covered(indices::runs(page.values, num_values)?)?,
    };
    all_used(page, leaf, behind)
}

/// Refuses a dictionary that has fewer entries of fixed size than it claims.
pub(crate) fn check_dictionary(bytes: &[u8], num_entries: usize, leaf: &Leaf) -> Result<()> {
    let size = (num_entries as u64).saturating_mul(plain_bits(leaf));
    sized(bytes, size.div_ceil(8), num_entries).map(drop)
}

/// Splits off the first of strings that are stored after their lengths.
pub(crate) fn split_string(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    bytes
        .split_first_chunk::<4>()
        .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize))
        .ok_or_else(|| Error::corrupt("a string is longer than its page"))
}

/// Returns the bytes after the `size` bytes of values.
fn sized(bytes: &[u8], size: u64, num_values: usize) -> Result<u64> {
    (bytes.len() as u64)
        .checked_sub(size)
        .ok_or_else(|| damaged_plain(num_values, bytes.len()))
}

pub(crate) fn damaged_plain(num_values: usize, bytes: usize) -> Error {
    Error::corrupt(format!("{num_values} values do not fit in {bytes} bytes"))
}

fn covered(mut runs: Runs<'_>) -> Result<&[u8]> {
    runs.try_for_each(|run| run.map(drop))?;
    runs.end()
}

/// Returns the differences of a page, `num_values` of them. Some writers store a 0 for
/// nulls alone.
fn deltas(bytes: &[u8], num_values: usize) -> Result<Delta<'_>> {
    let deltas = Delta::new(bytes)?;
    let is_zero = num_values == 0 && (deltas.count, deltas.first) == (1, 0);
    if deltas.count != num_values && !is_zero {
        return Err(Error::corrupt(format!(
            "{num_values} values were expected, the page holds {}",
            deltas.count
        )));
    }
    Ok(deltas)
}

/// Calls `visit` with each length, and returns the bytes after them.
fn lengths_of(bytes: &[u8], num_values: usize, mut visit: impl FnMut(u64)) -> Result<&[u8]> {
    let deltas = deltas(bytes, num_values)?;
    deltas.lengths(|lengths| lengths.iter().for_each(|&length| visit(length.into())))
}

/// Returns the size of strings that begin like those before them. The reader shortens a
/// prefix that is longer than the string before, and makes another text of it.
fn shared_prefixes(page: &DataPage<'_>, leaf: &Leaf, num_values: usize) -> Result<u64> {
    let mut prefixes = Vec::new();
    reserve(&mut prefixes, num_values)?;
    let behind = lengths_of(page.values, num_values, |length| prefixes.push(length))?;
    let (mut rest, mut last, mut longer) = (prefixes.iter(), 0, None);
    let (mut size, mut suffixes) = (0u64, 0);
    let behind = lengths_of(behind, num_values, |length| {
        let prefix = rest.next().copied().unwrap_or(0);
        longer = longer.or((prefix > last).then_some((prefix, last)));
        (last, suffixes) = (prefix + length, suffixes + length);
        size = size.saturating_add(last);
    })?;
    if let Some((prefix, last)) = longer {
        return Err(Error::corrupt(format!(
            "a text begins with {prefix} bytes of the one before, which has {last}: the page is \
             damaged, or parquet-mr before 1.8 wrote it, whose pages continue the text of the \
             page before (PARQUET-246); write the file anew"
        )));
    }
    all_used_by(page, leaf, behind, suffixes, num_values)?;
    Ok(size)
}

/// Bits that a PLAIN value takes at least.
pub(crate) fn plain_bits(leaf: &Leaf) -> u64 {
    match leaf.physical {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT | PhysicalType::BYTE_ARRAY => 32,
        PhysicalType::INT64 | PhysicalType::DOUBLE => 64,
        PhysicalType::INT96 => 96,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => {
            u64::from(leaf.descriptor.type_length().unsigned_abs()) * 8
        }
    }
}

/// Entries of leaf `ordinal` of `data_type` in lists of fixed size, where nulls take
/// room as well; 0 for other leaves.
fn padded_slots(
    page: &DataPage<'_>,
    leaf: &Leaf,
    mut data_type: &DataType,
    mut ordinal: usize,
) -> Result<u64> {
    // Lists that wait for one of fixed size inside, and the slots that it is known to have.
    let (mut repetition, mut slots) = (0i16, None);
    loop {
        data_type = match data_type {
            DataType::FixedSizeList(item, size) => {
                let outside = match slots {
                    Some(slots) => slots,
                    None => count_up_to(page, leaf, repetition)?,
                };
                repetition += 1;
                slots = Some(outside.saturating_mul(u64::from(size.unsigned_abs())));
                item.data_type()
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                repetition += 1;
                slots = None;
                item.data_type()
            }
            DataType::Struct(fields) => {
                let mut inside = None;
                for field in fields {
                    let leaves = num_leaves(field.data_type());
                    if ordinal < leaves {
                        inside = Some(field.data_type());
                        break;
                    }
                    ordinal -= leaves;
                }
                match inside {
                    Some(inside) => inside,
                    None => return Ok(0),
                }
            }
            _ => return Ok(slots.unwrap_or(0)),
        };
    }
}

fn num_leaves(data_type: &DataType) -> usize {
    match children(data_type) {
        [] => 1,
        inside => inside.iter().map(|f| num_leaves(f.data_type())).sum(),
    }
}

#[cfg(test)]
mod tests;
