//! Texts and byte strings: PLAIN and dictionary pages of columns without lists.

use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray, OffsetSizeTrait};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};
use std::sync::Arc;

use super::PageRun;
use super::hybrid::Run;
use super::integers::{index_runs, missing_dictionary, reserve};
use super::tokens::DataPages;
use super::unpack::{BATCH, check_index, unpack};
use crate::error::{Error, Result};
use crate::levels::{Definitions, num_levels};
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;

/// Decodes the first `num_rows` rows of `run`; `None` if the column or one of its
/// pages is of another kind.
pub(crate) fn decode(
    opener: &mut PageOpener,
    run: &PageRun,
    leaf: &Leaf,
    data_type: &DataType,
    num_rows: usize,
) -> Result<Option<ArrayRef>> {
    let is_flat = leaf.max_repetition == 0 && leaf.max_definition <= 1;
    if !is_flat || leaf.physical != PhysicalType::BYTE_ARRAY {
        return Ok(None);
    }
    match data_type {
        DataType::Utf8 => read::<Utf8Type>(opener, run, leaf, num_rows),
        DataType::LargeUtf8 => read::<LargeUtf8Type>(opener, run, leaf, num_rows),
        DataType::Binary => read::<BinaryType>(opener, run, leaf, num_rows),
        DataType::LargeBinary => read::<LargeBinaryType>(opener, run, leaf, num_rows),
        _ => Ok(None),
    }
}

fn read<T: ByteArrayType>(
    opener: &mut PageOpener,
    run: &PageRun,
    leaf: &Leaf,
    num_rows: usize,
) -> Result<Option<ArrayRef>> {
    let is_text = matches!(T::DATA_TYPE, DataType::Utf8 | DataType::LargeUtf8);
    let mut strings = Strings::<T::Offset>::new(is_text);
    let mut validity: Vec<bool> = Vec::new();
    let mut dictionary = None;
    let mut pages = DataPages::new(&run.data);
    while strings.offsets.len() <= num_rows
        && let Some((header, stored)) = pages.next()?
    {
        let encoding = header.encoding();
        if encoding == Some(Encoding::RLE_DICTIONARY) && dictionary.is_none() {
            let page = run.dictionary.as_ref().ok_or_else(missing_dictionary)?;
            let (num_values, values) = opener.dictionary_page(page, run.codec)?;
            let mut entries = Strings::<T::Offset>::new(is_text);
            entries.append_plain(values, num_values)?;
            dictionary = Some(entries);
        }
        let page = opener.data_page(&header, stored, run.codec, leaf)?;
        let start = strings.offsets.len() - 1;
        let rows = num_levels(&page)?.min(num_rows - start);
        let num_values = Definitions::new(&page, leaf)?.advance(rows)?.present;
        if rows == num_rows && num_values == rows && encoding == Some(Encoding::RLE_DICTIONARY) {
            let first = first_of_sequence(page.values, num_values)?;
            let array = dictionary
                .as_mut()
                .zip(first)
                .and_then(|(entries, first)| entries.take::<T>(first, num_values));
            if array.is_some() {
                return Ok(array);
            }
        }
        match (encoding, &dictionary) {
            (Some(Encoding::PLAIN), _) => strings.append_plain(page.values, num_values)?,
            (Some(Encoding::RLE_DICTIONARY), Some(entries)) => {
                strings.append_indices(page.values, num_values, entries)?;
            }
            _ => return Ok(None),
        }
        if num_values < rows {
            validity.resize(start, true);
            strings.spread(&page, leaf, start, rows, &mut validity)?;
        }
    }
    let found = strings.offsets.len() - 1;
    if found < num_rows {
        return Err(Error::corrupt(format!(
            "{num_rows} rows were expected, the pages hold {found}"
        )));
    }
    let nulls = (!validity.is_empty()).then(|| {
        validity.resize(num_rows, true);
        NullBuffer::from(validity)
    });
    Ok(Some(strings.finish::<T>(nulls)))
}

/// UTF-8 is validated in stretches of at least so many bytes.
const VALIDATE_BYTES: usize = 64 << 10;

/// The first index of a page whose indices count up one by one, as they do where
/// every text is new; `None` for all others.
fn first_of_sequence(bytes: &[u8], num_values: usize) -> Result<Option<usize>> {
    let (mut buffer, mut first, mut position) = ([0; BATCH], None, 0);
    for run in index_runs(bytes, num_values)? {
        let packed = match run? {
            Run::Packed(packed) => packed,
            Run::Repeated { .. } => return Ok(None),
        };
        for start in (0..packed.count).step_by(BATCH) {
            let indices = &mut buffer[..BATCH.min(packed.count - start)];
            unpack(&packed, start, indices);
            let first = *first.get_or_insert(indices[0] as usize);
            let mut expected = (first + position..).zip(&*indices);
            if expected.any(|(expected, &index)| index as usize != expected) {
                return Ok(None);
            }
            position += indices.len();
        }
    }
    Ok(first)
}

/// Strings joined, as Arrow keeps them.
struct Strings<O> {
    offsets: Vec<O>,
    data: Vec<u8>,
    is_text: bool,
}

impl<O: OffsetSizeTrait> Strings<O> {
    fn new(is_text: bool) -> Self {
        Self {
            offsets: vec![O::zero()],
            data: Vec::new(),
            is_text,
        }
    }

    /// Appends strings that are stored one by one, each behind its length.
    fn append_plain(&mut self, mut bytes: &[u8], num_values: usize) -> Result<()> {
        let size = num_values
            .checked_mul(4)
            .and_then(|lengths| bytes.len().checked_sub(lengths))
            .ok_or_else(|| {
                Error::corrupt(format!("{num_values} strings in {} bytes", bytes.len()))
            })?;
        reserve(&mut self.data, size)?;
        reserve(&mut self.offsets, num_values)?;
        let mut valid = (self.offsets.len(), self.data.len());
        for _ in 0..num_values {
            let (string, rest) = bytes
                .split_first_chunk::<4>()
                .and_then(|(length, rest)| {
                    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
                })
                .ok_or_else(|| Error::corrupt("a string is longer than its page"))?;
            self.data.extend_from_slice(string);
            self.end_string()?;
            bytes = rest;
            // Stretch by stretch, while it is still in the cache.
            if self.data.len() - valid.1 >= VALIDATE_BYTES {
                self.validate(valid.0, valid.1)?;
                valid = (self.offsets.len(), self.data.len());
            }
        }
        self.validate(valid.0, valid.1)
    }

    /// Appends the dictionary entries that a page's indices name.
    fn append_indices(&mut self, bytes: &[u8], num_values: usize, entries: &Self) -> Result<()> {
        reserve(&mut self.offsets, num_values)?;
        let mut buffer = [0; BATCH];
        for run in index_runs(bytes, num_values)? {
            match run? {
                Run::Repeated { value, count } => {
                    buffer.fill(value);
                    for start in (0..count).step_by(BATCH) {
                        let indices = &buffer[..BATCH.min(count - start)];
                        self.append_entries(indices, value, entries)?;
                    }
                }
                Run::Packed(packed) => {
                    for start in (0..packed.count).step_by(BATCH) {
                        let indices = &mut buffer[..BATCH.min(packed.count - start)];
                        let largest = unpack(&packed, start, indices);
                        self.append_entries(indices, largest, entries)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn append_entries(&mut self, indices: &[u32], largest: u32, entries: &Self) -> Result<()> {
        check_index(largest, entries.offsets.len() - 1)?;
        let span = |index: u32| {
            let index = index as usize;
            entries.offsets[index].as_usize()..entries.offsets[index + 1].as_usize()
        };
        let size = indices.iter().map(|&index| span(index).len()).sum();
        reserve(&mut self.data, size)?;
        for &index in indices {
            self.data.extend_from_slice(&entries.data[span(index)]);
            self.end_string()?;
        }
        Ok(())
    }

    fn end_string(&mut self) -> Result<()> {
        let end = O::from_usize(self.data.len()).ok_or_else(|| {
            Error::limit(format!(
                "a page holds more than {} bytes of text, which its Arrow type cannot address",
                i32::MAX
            ))
        })?;
        self.offsets.push(end);
        Ok(())
    }

    /// Checks what was appended, all at once: the whole is UTF-8, and every string
    /// begins where a character does.
    fn validate(&self, first: usize, start: usize) -> Result<()> {
        if !self.is_text {
            return Ok(());
        }
        let text = simdutf8::basic::from_utf8(&self.data[start..])
            .map_err(|_| Error::corrupt("a text is not UTF-8"))?;
        let ends = self.offsets[first..].iter().map(|end| end.as_usize());
        if ends
            .into_iter()
            .any(|end| !text.is_char_boundary(end - start))
        {
            return Err(Error::corrupt("a text is not UTF-8"));
        }
        Ok(())
    }

    /// The entries `first..first + count` as they are, without a copy; `None` if they
    /// are so few that they would keep much else in memory, or are not there.
    fn take<T: ByteArrayType<Offset = O>>(
        &mut self,
        first: usize,
        count: usize,
    ) -> Option<ArrayRef> {
        let ends = self.offsets.get(first..first.checked_add(count)? + 1)?;
        let size = ends[count].as_usize() - ends[0].as_usize();
        if size < self.data.len() / 2 {
            return None;
        }
        let entries = std::mem::replace(self, Self::new(self.is_text));
        Some(entries.finish::<T>(None).slice(first, count))
    }

    /// Spreads the strings behind `start`, one per value, over `rows` rows of which
    /// some are null.
    fn spread(
        &mut self,
        page: &DataPage<'_>,
        leaf: &Leaf,
        start: usize,
        rows: usize,
        validity: &mut Vec<bool>,
    ) -> Result<()> {
        reserve(validity, rows)?;
        reserve(&mut self.offsets, rows)?;
        let ends = self.offsets.split_off(start + 1);
        let mut ends = ends.into_iter();
        let mut end = self.offsets[start];
        let mut definitions = Definitions::new(page, leaf)?;
        for _ in 0..rows {
            let is_present = definitions.advance(1)?.present == 1;
            if is_present {
                end = ends.next().unwrap_or(end);
            }
            self.offsets.push(end);
            validity.push(is_present);
        }
        Ok(())
    }

    fn finish<T: ByteArrayType<Offset = O>>(self, nulls: Option<NullBuffer>) -> ArrayRef {
        let offsets = ScalarBuffer::from(self.offsets);
        // SAFETY: offsets begin with 0, only grow and end with the length of the data;
        // if it is text, `validate` has seen every string.
        let array: GenericByteArray<T> = unsafe {
            let offsets = OffsetBuffer::new_unchecked(offsets);
            GenericByteArray::new_unchecked(offsets, Buffer::from_vec(self.data), nulls)
        };
        let array: Arc<dyn Array> = Arc::new(array);
        array
    }
}
