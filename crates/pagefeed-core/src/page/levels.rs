//! Levels of version 1 pages, split off and brought to the encoding of today.

use parquet::basic::Encoding;

use crate::buffers::reserve;
use crate::error::{Error, Result};
use crate::header::DataV1;
use crate::schema::Leaf;
use crate::thrift::put_varint;

/// Bits of a level between 0 and `max`.
pub(crate) fn level_width(max: i16) -> u32 {
    u16::BITS - max.unsigned_abs().leading_zeros()
}

/// Splits the levels off the front of a version 1 page.
pub(super) fn split_levels<'a>(
    bytes: &'a [u8],
    encoding: Encoding,
    max: i16,
    num_levels: usize,
    converted: &'a mut Vec<u8>,
) -> Result<(&'a [u8], &'a [u8])> {
    if max == 0 {
        return Ok((&[], bytes));
    }
    let short = || Error::corrupt("the page ends inside its levels");
    #[allow(deprecated, reason = "old files still use BIT_PACKED")]
    match encoding {
        Encoding::RLE => {
            let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
            let size = u32::from_le_bytes(*size) as usize;
            rest.split_at_checked(size).ok_or_else(short)
        }
        Encoding::BIT_PACKED => {
            let width = level_width(max);
            let size = (num_levels * width as usize).div_ceil(8);
            let (packed, rest) = bytes.split_at_checked(size).ok_or_else(short)?;
            convert_bit_packed(packed, width, num_levels, converted)?;
            Ok((converted.as_slice(), rest))
        }
        other => Err(Error::corrupt(format!(
            "levels must be RLE or BIT_PACKED, found {other}"
        ))),
    }
}

/// Bytes of the levels in a version 1 page. If the first `bytes` do not tell, at least
/// one more than these.
pub(super) fn levels_size(bytes: &[u8], v1: &DataV1, leaf: &Leaf) -> usize {
    let mut end = 0usize;
    for (encoding, max) in [
        (v1.repetition_encoding, leaf.max_repetition),
        (v1.definition_encoding, leaf.max_definition),
    ] {
        if max == 0 {
            continue;
        }
        if encoding != Encoding::RLE {
            let bits = v1.num_values.saturating_mul(level_width(max) as usize);
            end = end.saturating_add(bits.div_ceil(8));
            continue;
        }
        let size = bytes.get(end..).and_then(|rest| rest.first_chunk::<4>());
        end = end.saturating_add(4);
        match size {
            Some(size) => end = end.saturating_add(u32::from_le_bytes(*size) as usize),
            None => return end,
        }
    }
    end
}

/// Rewrites levels packed from the most significant bit as one bit-packed run of
/// the RLE encoding, which packs from the least significant.
pub(super) fn convert_bit_packed(
    packed: &[u8],
    width: u32,
    num_levels: usize,
    converted: &mut Vec<u8>,
) -> Result<()> {
    converted.clear();
    let size = num_levels.div_ceil(8) * width as usize;
    reserve(converted, 10 + size)?;
    put_varint(converted, ((num_levels.div_ceil(8) << 1) | 1) as u64);
    let start = converted.len();
    converted.resize(start + size, 0);
    let width = width as usize;
    for bit in 0..num_levels * width {
        // Bit `j` of a level, counted from its top, becomes bit `width - 1 - j`.
        let target = bit - bit % width + (width - 1 - bit % width);
        let value = (packed[bit / 8] >> (7 - bit % 8)) & 1;
        converted[start + target / 8] |= value << (target % 8);
    }
    Ok(())
}
