//! What a page decodes to is bounded before a reader that does not ask takes memory.

use parquet::basic::{Encoding, Type as PhysicalType};

use crate::error::{Error, Result};
use crate::levels::{LevelCounts, num_levels};
use crate::limits::MAX_DECODED_PAGE_BYTES;
use crate::page::DataPage;
use crate::schema::Leaf;

/// Refuses a page whose values cannot be in its bytes, or would take too much memory.
pub(crate) fn check(page: &DataPage<'_>, leaf: &Leaf, counts: &LevelCounts) -> Result<()> {
    let bits = plain_bits(leaf);
    if page.header.encoding() == Some(Encoding::PLAIN)
        && u128::from(counts.num_values) * u128::from(bits) > page.values.len() as u128 * 8
    {
        return Err(Error::corrupt(format!(
            "{} values do not fit {} bytes",
            counts.num_values,
            page.values.len()
        )));
    }
    // Two levels of 16 bits, and room for a null as for a value.
    let size = num_levels(page)? as u128 * (4 + u128::from(bits.div_ceil(8)));
    check_size(size)
}

/// The values of a page that was checked. Some writers leave bytes behind PLAIN ones of
/// a fixed size, which the crate's reader takes for damage.
pub(crate) fn without_padding<'a>(
    page: &DataPage<'a>,
    leaf: &Leaf,
    counts: &LevelCounts,
) -> &'a [u8] {
    let is_fixed =
        leaf.physical == PhysicalType::FIXED_LEN_BYTE_ARRAY || leaf.physical == PhysicalType::INT96;
    let size = counts.num_values.saturating_mul(plain_bits(leaf) / 8);
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    match page.header.encoding() {
        Some(Encoding::PLAIN) if is_fixed => page.values.get(..size).unwrap_or(page.values),
        _ => page.values,
    }
}

/// Refuses a dictionary of strings of which `num_values` could take too much memory:
/// one long entry can be named by very few bits, very often.
pub(crate) fn check_dictionary(
    mut bytes: &[u8],
    num_entries: usize,
    leaf: &Leaf,
    num_values: u64,
) -> Result<()> {
    if leaf.physical != PhysicalType::BYTE_ARRAY {
        let size = num_entries as u128 * u128::from(plain_bits(leaf));
        if size > bytes.len() as u128 * 8 {
            return Err(short(num_entries, bytes.len()));
        }
        return Ok(());
    }
    let (mut longest, size) = (0, bytes.len());
    for _ in 0..num_entries {
        let (length, rest) = bytes
            .split_first_chunk::<4>()
            .ok_or_else(|| short(num_entries, size))?;
        let length = u32::from_le_bytes(*length);
        longest = longest.max(length);
        bytes = rest
            .get(length as usize..)
            .ok_or_else(|| short(num_entries, size))?;
    }
    // Entries that are all as long as the longest: an upper bound, and above the
    // limit only for what no writer makes.
    check_size(u128::from(longest) * u128::from(num_values))
}

fn short(num_entries: usize, size: usize) -> Error {
    Error::corrupt(format!(
        "{num_entries} dictionary entries do not fit {size} bytes"
    ))
}

fn check_size(size: u128) -> Result<()> {
    if size > MAX_DECODED_PAGE_BYTES as u128 {
        return Err(Error::limit(format!(
            "a page could decode to {size} bytes, the limit is {MAX_DECODED_PAGE_BYTES}"
        )));
    }
    Ok(())
}

/// Bits that a PLAIN value takes at least.
fn plain_bits(leaf: &Leaf) -> u64 {
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
