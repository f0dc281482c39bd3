//! Strings joined, as Arrow keeps them.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::ByteArrayType;
use arrow_array::{ArrayRef, GenericByteArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use bytes::Bytes;

use super::entries::Entries;
use crate::buffers::{RecycledBuffer, reserve};
use crate::decode::bounds::split_string;
use crate::encodings::indices::for_each_chunk;
use crate::encodings::unpack::Chunk;
use crate::error::{Error, Result};
use crate::limits::check_page_size;

/// UTF-8 is validated once this many bytes are appended, while they are in the cache.
const VALIDATE_BYTES: usize = 64 << 10;

/// Offsets and texts of an array that grows.
pub(crate) struct Strings<T: ByteArrayType> {
    offsets: Vec<T::Offset>,
    /// Texts up to `end`, and room for more.
    data: RecycledBuffer,
    end: usize,
    /// Number of offsets and bytes that were validated.
    valid: (usize, usize),
}

impl<T: ByteArrayType> Strings<T> {
    pub(crate) fn new() -> Self {
        Self {
            offsets: vec![T::Offset::default()],
            data: RecycledBuffer::default(),
            end: 0,
            valid: (1, 0),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.len() == 1
    }

    /// Appends some of the strings that are stored one by one in `bytes`.
    pub(crate) fn append_plain(&mut self, mut bytes: &[u8], values: Range<usize>) -> Result<()> {
        for _ in 0..values.start {
            (_, bytes) = split_string(bytes)?;
        }
        let size = bytes.len().checked_sub(4 * values.len());
        self.reserve(size.ok_or_else(too_short)?)?;
        reserve(&mut self.offsets, values.len())?;
        for _ in values {
            let (string, rest) = split_string(bytes)?;
            self.push(string)?;
            bytes = rest;
        }
        self.validate()
    }

    /// Appends the dictionary entries that some of a page's indices name, of `size` bytes
    /// together.
    pub(crate) fn append_indices(
        &mut self,
        bytes: &[u8],
        values: Range<usize>,
        entries: &Entries,
        size: u64,
    ) -> Result<()> {
        self.reserve(usize::try_from(size).unwrap_or(usize::MAX))?;
        reserve(&mut self.offsets, values.len())?;
        for_each_chunk(
            bytes,
            values,
            entries.lengths().len(),
            |chunk| match chunk {
                Chunk::Repeated {
                    value: index,
                    count,
                } => (0..count).try_for_each(|_| self.push(entries.get(index))),
                Chunk::Batch(indices) => indices
                    .iter()
                    .try_for_each(|&index| self.push(entries.get(index))),
            },
        )?;
        self.validate()
    }

    /// Takes `num_values` strings that are stored between `start` and the end of
    /// `data`, and moves them together in place.
    pub(crate) fn take_over(
        &mut self,
        data: RecycledBuffer,
        start: usize,
        num_values: usize,
    ) -> Result<()> {
        reserve(&mut self.offsets, num_values)?;
        self.data = data;
        let mut at = start;
        for _ in 0..num_values {
            let (string, _) = split_string(&self.data[at..])?;
            let (begin, length) = (at + 4, string.len());
            at = begin + length;
            self.data.copy_within(begin..at, self.end);
            self.push_end(self.end + length)?;
        }
        self.validate()
    }

    /// Makes room for `additional` bytes, within the limit.
    fn reserve(&mut self, additional: usize) -> Result<()> {
        let size = self.end.saturating_add(additional);
        check_page_size(size as u64)?;
        if size > self.data.len() {
            let mut data = RecycledBuffer::new(size.max(self.end * 2))?;
            data[..self.end].copy_from_slice(&self.data[..self.end]);
            self.data = data;
        }
        Ok(())
    }

    /// Appends a string; an error if the strings take more bytes than were announced.
    fn push(&mut self, string: &[u8]) -> Result<()> {
        let end = self.end + string.len();
        let room = self.data.get_mut(self.end..end).ok_or_else(too_short)?;
        room.copy_from_slice(string);
        self.push_end(end)
    }

    fn push_end(&mut self, end: usize) -> Result<()> {
        self.end = end;
        let end = T::Offset::from_usize(end).ok_or_else(|| {
            Error::limit(format!(
                "a page holds more than {} bytes of text, which its Arrow type cannot address",
                i32::MAX
            ))
        })?;
        self.offsets.push(end);
        if self.end - self.valid.1 >= VALIDATE_BYTES {
            self.validate()?;
        }
        Ok(())
    }

    /// Validates what was appended since the last call: all bytes are UTF-8, and each
    /// string begins at a character.
    fn validate(&mut self) -> Result<()> {
        let (first, start) = std::mem::replace(&mut self.valid, (self.offsets.len(), self.end));
        if !matches!(T::DATA_TYPE, DataType::Utf8 | DataType::LargeUtf8) {
            return Ok(());
        }
        let not_text = || Error::corrupt("a text is not UTF-8");
        let text =
            simdutf8::basic::from_utf8(&self.data[start..self.end]).map_err(|_| not_text())?;
        let mut ends = self.offsets[first..].iter().map(|end| end.as_usize());
        if !ends.all(|end| text.is_char_boundary(end - start)) {
            return Err(not_text());
        }
        Ok(())
    }

    /// Returns the strings at the entries that are `present`, and nulls at the others.
    pub(crate) fn finish(mut self, present: Option<BooleanBuffer>) -> Result<ArrayRef> {
        debug_assert_eq!(self.valid, (self.offsets.len(), self.end));
        if let Some(present) = &present {
            debug_assert_eq!(present.count_set_bits() + 1, self.offsets.len());
            let mut spread = Vec::new();
            reserve(&mut spread, present.len() + 1)?;
            let mut ends = self.offsets.into_iter();
            let mut end = ends.next().unwrap_or_default();
            spread.push(end);
            spread.extend(present.iter().map(|is_present| {
                if is_present {
                    end = ends.next().unwrap_or(end);
                }
                end
            }));
            self.offsets = spread;
        }
        // All of the memory counts as the array's, not only what is in use.
        let data = Buffer::from(Bytes::from_owner(self.data.into_whole()));
        let data = data.slice_with_length(0, self.end);
        // SAFETY: offsets begin with 0, only grow and end with the length of the data;
        // if it is text, `validate` has seen every string.
        let array: GenericByteArray<T> = unsafe {
            let offsets = OffsetBuffer::new_unchecked(self.offsets.into());
            GenericByteArray::new_unchecked(offsets, data, present.map(NullBuffer::new))
        };
        Ok(Arc::new(array))
    }
}

fn too_short() -> Error {
    Error::corrupt("the strings of a page are longer than the page")
}
