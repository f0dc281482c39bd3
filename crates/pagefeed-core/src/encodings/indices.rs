//! Indices into a dictionary, as data pages store them.

use std::ops::Range;

use super::hybrid::{Packed, Run, Runs};
use super::unpack::{Chunk, Entry, check_index, unpack_chunks};
use crate::error::{Error, Result};
use crate::simd::vectorized;

/// Splits a dictionary-encoded page into its runs of indices.
pub(crate) fn runs(bytes: &[u8], num_values: usize) -> Result<Runs<'_>> {
    if num_values == 0 {
        return Ok(Runs::new(&[], 0, 0));
    }
    let (&width, rest) = bytes
        .split_first()
        .ok_or_else(|| Error::corrupt("the dictionary indices are missing"))?;
    if width > 32 {
        return Err(Error::corrupt(format!(
            "dictionary indices of {width} bits; 32 is the most"
        )));
    }
    Ok(Runs::new(rest, u32::from(width), num_values))
}

/// Calls `visit` with chunks of indices of a page; each index is inside the dictionary.
pub(crate) fn for_each_chunk(
    bytes: &[u8],
    values: Range<usize>,
    num_entries: usize,
    visit: impl FnMut(Chunk<'_>) -> Result<()>,
) -> Result<()> {
    let check = |index| check_index(index, num_entries);
    unpack_chunks(runs(bytes, values.end)?, values.start, check, visit)
}

/// Returns the bytes of the entries that `values` of a page refer to.
pub(crate) fn total_length(bytes: &[u8], values: Range<usize>, lengths: &[u32]) -> Result<u64> {
    let mut size = 0u64;
    for_each_chunk(bytes, values, lengths.len(), |chunk| {
        size += match chunk {
            // Less than 2^31 values of less than 2^31 bytes.
            Chunk::Repeated {
                value: index,
                count,
            } => u64::from(lengths[index as usize]) * count as u64,
            Chunk::Batch(indices) => {
                let lengths = indices.iter().map(|&index| lengths[index as usize]);
                lengths.map(u64::from).sum()
            }
        };
        Ok(())
    })?;
    Ok(size)
}

/// Returns the first index of a page if all its indices are consecutive.
pub(crate) fn sequence(
    bytes: &[u8],
    num_values: usize,
    num_entries: usize,
) -> Result<Option<usize>> {
    let (mut first, mut count, mut in_sequence) = (0, 0, true);
    for_each_chunk(bytes, 0..num_values, num_entries, |chunk| {
        let (single, indices) = match chunk {
            Chunk::Repeated {
                value: index,
                count: 1,
            } => ([index], None),
            Chunk::Repeated { .. } => {
                in_sequence = false;
                return Ok(());
            }
            Chunk::Batch(indices) => ([0], Some(indices)),
        };
        let indices = indices.unwrap_or(&single);
        if count == 0 {
            first = indices[0] as usize;
        }
        let expected = first + count..;
        let pairs = indices.iter().zip(expected);
        in_sequence &= pairs.fold(true, |all, (&index, next)| all & (index as usize == next));
        count += indices.len();
        Ok(())
    })?;
    Ok((in_sequence && count == num_values).then_some(first))
}

/// Appends the entries of `table` that `values` of a page name.
pub(crate) fn look_up<S: Entry<T>, T: Clone>(
    bytes: &[u8],
    values: Range<usize>,
    table: &[S],
    output: &mut Vec<T>,
) -> Result<()> {
    for_each_chunk(bytes, values, table.len(), |chunk| {
        match chunk {
            Chunk::Repeated {
                value: index,
                count,
            } => {
                output.resize(output.len() + count, table[index as usize].token());
            }
            // SAFETY: each of the indices was seen to be inside the table.
            Chunk::Batch(indices) => unsafe { S::append(indices, table, output) },
        }
        Ok(())
    })
}

/// An integer that holds indices.
pub(crate) trait Index: Copy {
    /// Returns an index, which must fit.
    fn of(index: u32) -> Self;

    /// Appends `values` of a run if it is stored in integers of this type. Returns the
    /// largest.
    fn append_stored(_: &Packed<'_>, _: Range<usize>, _: &mut Vec<Self>) -> Option<u32> {
        None
    }
}

macro_rules! indices {
    ($($type:ty),*) => {
        $(impl Index for $type {
            fn of(index: u32) -> Self {
                index as Self
            }
        })*
    };
}

indices!(i32, u32, i64);

impl Index for u16 {
    fn of(index: u32) -> Self {
        index as Self
    }

    fn append_stored(
        packed: &Packed<'_>,
        values: Range<usize>,
        output: &mut Vec<Self>,
    ) -> Option<u32> {
        if packed.width != Self::BITS {
            return None;
        }
        let (words, _) = packed.bytes.as_chunks();
        let words = words.get(values)?.iter();
        let before = output.len();
        output.extend(words.map(|&word| Self::from_le_bytes(word)));
        let largest = |words: &[Self], _: &mut [()]| words.iter().copied().fold(0, Self::max);
        Some(vectorized(&output[before..], &mut [(); 0], largest).into())
    }
}

/// Appends the indices of `values` of a page, each below `num_entries`: the values
/// themselves, where each entry of the dictionary is its own index.
pub(crate) fn append_indices<T: Index>(
    bytes: &[u8],
    values: Range<usize>,
    num_entries: usize,
    output: &mut Vec<T>,
) -> Result<()> {
    // Files that pagefeed writes have one run a page.
    if let Some(Ok(Run::Packed(packed))) = runs(bytes, values.end)?.next()
        && packed.count == values.end
        && let Some(largest) = T::append_stored(&packed, values.clone(), output)
    {
        return check_index(largest, num_entries);
    }
    for_each_chunk(bytes, values, num_entries, |chunk| {
        match chunk {
            Chunk::Repeated {
                value: index,
                count,
            } => output.resize(output.len() + count, T::of(index)),
            Chunk::Batch(indices) => output.extend(indices.iter().map(|&index| T::of(index))),
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::{Random, encode_hybrid, pack};

    fn encoded(indices: &[u32], width: u32, random: &mut Random) -> Vec<u8> {
        let mut bytes = vec![width as u8];
        bytes.extend(encode_hybrid(indices, width, random));
        bytes
    }

    #[test]
    fn any_stretch_of_indices_is_found() {
        let mut random = Random(5);
        for round in 0..100 {
            let count = 1 + random.below(2000);
            let bound = 1 + random.below(1 + round / 3);
            let indices: Vec<u32> = (0..count).map(|_| random.below(bound) as u32).collect();
            let bytes = encoded(&indices, 6, &mut random);
            let lengths: Vec<u32> = (0..bound).map(|_| random.next() as u32).collect();
            let end = random.below(count + 1) as usize;
            let values = random.below(end as u64 + 1) as usize..end;
            let mut visited = Vec::new();
            for_each_chunk(&bytes, values.clone(), lengths.len(), |chunk| {
                match chunk {
                    Chunk::Repeated {
                        value: index,
                        count,
                    } => visited.extend(vec![index; count]),
                    Chunk::Batch(indices) => visited.extend(indices),
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(visited, indices[values.clone()]);
            let expected = visited
                .iter()
                .map(|&index| u64::from(lengths[index as usize]));
            let total = total_length(&bytes, values, &lengths).unwrap();
            assert_eq!(total, expected.sum::<u64>());
        }
    }

    #[test]
    fn indices_that_are_values_are_those_that_a_table_of_all_numbers_gives() {
        let mut random = Random(7);
        for round in 0..200 {
            let width = [3, 9, 15, 16, 17][round % 5];
            let count = 1 + random.below(2000) as usize;
            let bound = 1 + random.below((1 << width).min(1 << 16));
            let indices: Vec<u32> = (0..count).map(|_| random.below(bound) as u32).collect();
            // One run of packed numbers, or runs of both kinds.
            let bytes = match random.below(2) {
                0 => {
                    let num_eights = count.div_ceil(8);
                    let header = [num_eights << 1 & 0x7f | 0x81, num_eights >> 6];
                    let mut bytes = vec![width as u8];
                    bytes.extend(header.map(|byte| byte as u8));
                    bytes.extend(pack(&indices, width));
                    bytes.resize(3 + num_eights * width as usize, 0);
                    bytes
                }
                _ => encoded(&indices, width, &mut random),
            };
            let num_entries = bound as usize - random.below(2) as usize;
            let end = random.below(count as u64 + 1) as usize;
            let values = random.below(end as u64 + 1) as usize..end;
            let table: Vec<u16> = (0..=u16::MAX).take(num_entries).collect();
            let (mut expected, mut narrow, mut wide) = (vec![7u16], vec![7u16], vec![7i64]);
            let looked_up = look_up(&bytes, values.clone(), &table, &mut expected);
            let found = append_indices(&bytes, values.clone(), num_entries, &mut narrow);
            let found_wide = append_indices(&bytes, values, num_entries, &mut wide);
            match looked_up {
                Ok(()) => {
                    assert!(found.is_ok() && found_wide.is_ok());
                    assert_eq!(narrow, expected);
                    assert!(wide.into_iter().eq(expected.into_iter().map(i64::from)));
                }
                // A run may be checked as a whole, so what is named is not always the same.
                Err(error) => {
                    assert_eq!(found.unwrap_err().kind(), error.kind());
                    assert_eq!(found_wide.unwrap_err().message(), error.message());
                }
            }
        }
    }

    #[test]
    fn sequences_are_told_from_all_else() {
        let mut random = Random(6);
        for (indices, first) in [
            (&[0u32, 1, 2, 3][..], Some(0)),
            (&[7], Some(7)),
            (&[5, 6], Some(5)),
            (&[5, 5], None),
            (&[6, 5], None),
            (&[0, 1, 1, 2], None),
        ] {
            for _ in 0..20 {
                let bytes = encoded(indices, 3, &mut random);
                assert_eq!(sequence(&bytes, indices.len(), 8).unwrap(), first);
            }
            let bytes = encoded(indices, 3, &mut random);
            assert!(sequence(&bytes, indices.len(), 1).is_err() || indices == [0]);
        }
    }

    #[test]
    fn indices_beyond_the_dictionary_are_refused() {
        let mut values = vec![99u32; 700];
        let table: Vec<u16> = (0..100).map(|entry| 3 * entry).collect();
        for (position, index) in [(0, 99), (0, 100), (511, 100), (699, 127)] {
            values[position] = index;
            // The width, and a run of 88 times eight values.
            let mut bytes = vec![7, 0xb1, 0x01];
            bytes.extend(pack(&values, 7));
            let (mut wide, mut narrow) = (Vec::<i32>::new(), vec![7u16]);
            let result = look_up(&bytes, 0..700, &table, &mut wide);
            assert_eq!(result.is_ok(), index < 100);
            let result = look_up(&bytes, 0..700, &table, &mut narrow);
            assert_eq!(result.is_ok(), index < 100);
            let expected = values.iter().map(|&index| 3 * index as i32);
            assert!(wide.iter().copied().eq(expected.take(wide.len())));
            assert!(narrow[1..].iter().map(|&v| i32::from(v)).eq(wide));
            // Stored in 16 bits, they are taken as they are.
            let mut bytes = vec![16, 0xb1, 0x01];
            bytes.extend(pack(&values, 16));
            bytes.resize(3 + 88 * 16, 0);
            let result = append_indices(&bytes, 0..700, 100, &mut narrow);
            assert_eq!(result.is_ok(), index < 100);
            values[position] = 99;
        }
    }
}
