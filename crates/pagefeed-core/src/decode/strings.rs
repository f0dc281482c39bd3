//! Texts and byte strings: PLAIN and dictionary pages of columns without lists.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{ArrayRef, GenericByteArray};
use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{Encoding, Type as PhysicalType};

use super::PageRun;
use super::hybrid::Run;
use super::integers::{index_runs, missing_dictionary, reserve};
use super::tokens::DataPages;
use super::unpack::{BATCH, check_index, unpack};
use crate::buffers::{MIN_KEPT_BYTES, RecycledBuffer};
use crate::error::{Error, Result};
use crate::levels::{Definitions, num_levels};
use crate::limits::MAX_DECODED_PAGE_BYTES;
use crate::page::{DataPage, Dictionary, PageOpener};
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
    let mut strings = Strings::<T>::new();
    let mut validity: Vec<bool> = Vec::new();
    let mut dictionary = None;
    let mut pages = DataPages::new(&run.data);
    while strings.len() < num_rows
        && let Some((header, stored)) = pages.next()?
    {
        let encoding = header.encoding();
        if encoding == Some(Encoding::RLE_DICTIONARY) && dictionary.is_none() {
            let page = run.dictionary.as_ref().ok_or_else(missing_dictionary)?;
            dictionary = Some(Entries::new(opener.take_dictionary(page, run.codec)?)?);
        }
        let page = opener.data_page(&header, stored, run.codec, leaf)?;
        let start = strings.len();
        let rows = num_levels(&page)?.min(num_rows - start);
        let num_values = Definitions::new(&page, leaf)?.advance(rows)?.present;
        let is_all = num_values == num_rows; // And so without nulls, and first.
        match (encoding, &mut dictionary) {
            (Some(Encoding::PLAIN), _) => {
                let size = page.values.len();
                if is_all && page.is_takeable && is_worth_taking(size, num_values) {
                    let (data, start) = opener.take_values(size);
                    strings.take_over(data, start, num_values)?;
                    break;
                }
                strings.append_plain(page.values, num_values)?;
            }
            (Some(Encoding::RLE_DICTIONARY), Some(entries)) => {
                if is_all && let Some((data, start)) = entries.take(page.values, num_values)? {
                    strings.take_over(data, start, num_values)?;
                    break;
                }
                strings.append_indices(page.values, num_values, entries)?;
            }
            _ => return Ok(None),
        }
        if num_values < rows {
            validity.resize(start, true);
            strings.spread(&page, leaf, start, rows, &mut validity)?;
        }
    }
    if let Some(entries) = dictionary {
        opener.keep_dictionary(entries.dictionary);
    }
    if strings.len() < num_rows {
        return Err(Error::corrupt(format!(
            "{num_rows} rows were expected, the pages hold {}",
            strings.len()
        )));
    }
    let nulls = (!validity.is_empty()).then(|| {
        validity.resize(num_rows, true);
        NullBuffer::from(validity)
    });
    Ok(Some(strings.finish(nulls)))
}

/// Splits off the first of strings that are stored one by one behind their lengths.
fn split_string(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    bytes
        .split_first_chunk::<4>()
        .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize))
        .ok_or_else(|| Error::corrupt("a string is longer than its page"))
}

/// Bytes of `num_values` strings in `bytes`, without their lengths.
fn size_of_strings(bytes: &[u8], num_values: usize) -> Result<usize> {
    num_values
        .checked_mul(4)
        .and_then(|lengths| bytes.len().checked_sub(lengths))
        .ok_or_else(|| Error::corrupt(format!("{num_values} strings in {} bytes", bytes.len())))
}

/// Whether `num_values` strings stored in `size` bytes are better moved together where
/// they are than copied: if they are large, and their lengths small beside them.
fn is_worth_taking(size: usize, num_values: usize) -> bool {
    size >= MIN_KEPT_BYTES && num_values <= size / 32
}

/// A dictionary of strings, where the page has them.
struct Entries {
    dictionary: Dictionary,
    spans: Vec<Range<u32>>,
}

impl Entries {
    fn new(dictionary: Dictionary) -> Result<Self> {
        let values = dictionary.values();
        size_of_strings(values, dictionary.num_values)?;
        let (mut rest, mut spans) = (values, Vec::new());
        reserve(&mut spans, dictionary.num_values)?;
        for _ in 0..dictionary.num_values {
            let (string, behind) = split_string(rest)?;
            // Pages are less than 2 GiB: positions fit 32 bits.
            let end = (values.len() - behind.len()) as u32;
            spans.push(end - string.len() as u32..end);
            rest = behind;
        }
        Ok(Self { dictionary, spans })
    }

    /// The dictionary's buffer, and where its strings begin that `indices` name, if
    /// those are in sequence and most of the dictionary: writers that find no text
    /// twice put all of it there. The entries are gone then.
    fn take(
        &mut self,
        indices: &[u8],
        num_values: usize,
    ) -> Result<Option<(RecycledBuffer, usize)>> {
        if !is_worth_taking(self.dictionary.values().len(), num_values) {
            return Ok(None);
        }
        let Some(first) = sequence(indices, num_values, self.spans.len())? else {
            return Ok(None);
        };
        let [first, .., last] = &self.spans[first..first + num_values] else {
            return Ok(None);
        };
        let (start, size) = (first.start as usize - 4, (last.end - first.start) as usize);
        if !is_worth_taking(size, num_values) || size < self.dictionary.values().len() / 2 {
            return Ok(None);
        }
        Ok(self.dictionary.take_values().map(|data| (data, start)))
    }

    fn len_of(&self, index: u32) -> usize {
        self.spans[index as usize].len()
    }

    fn get(&self, index: u32) -> &[u8] {
        let span = &self.spans[index as usize];
        &self.dictionary.values()[span.start as usize..span.end as usize]
    }
}

/// Calls `each` with the indices of a page, some at a time, and the largest of them.
fn for_each_batch(
    bytes: &[u8],
    num_values: usize,
    mut each: impl FnMut(&[u32], u32) -> Result<()>,
) -> Result<()> {
    let mut buffer = [0; BATCH];
    for run in index_runs(bytes, num_values)? {
        let run = run?;
        if let Run::Repeated { value, .. } = run {
            buffer.fill(value);
        }
        for start in (0..run.count()).step_by(BATCH) {
            let indices = &mut buffer[..BATCH.min(run.count() - start)];
            let largest = match run {
                Run::Repeated { value, .. } => value,
                Run::Packed(packed) => unpack(&packed, start, indices),
            };
            each(indices, largest)?;
        }
    }
    Ok(())
}

/// The first index of a page if each of the others follows the one before.
fn sequence(bytes: &[u8], num_values: usize, num_entries: usize) -> Result<Option<usize>> {
    let (mut first, mut count, mut in_sequence) = (0, 0, true);
    for_each_batch(bytes, num_values, |indices, largest| {
        check_index(largest, num_entries)?;
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

/// UTF-8 is validated in stretches of at least so many bytes, while they are still in
/// the cache.
const VALIDATE_BYTES: usize = 64 << 10;

/// Strings joined, as Arrow keeps them.
struct Strings<T: ByteArrayType> {
    offsets: Vec<T::Offset>,
    /// Texts up to `end`, and room for more.
    data: RecycledBuffer,
    end: usize,
    /// Number of offsets and bytes that are known to be good.
    valid: (usize, usize),
}

impl<T: ByteArrayType> Strings<T> {
    fn new() -> Self {
        Self {
            offsets: vec![T::Offset::default()],
            data: RecycledBuffer::default(),
            end: 0,
            valid: (1, 0),
        }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Appends strings that are stored one by one.
    fn append_plain(&mut self, mut bytes: &[u8], num_values: usize) -> Result<()> {
        self.reserve(size_of_strings(bytes, num_values)?)?;
        reserve(&mut self.offsets, num_values)?;
        for _ in 0..num_values {
            let (string, rest) = split_string(bytes)?;
            self.push(string)?;
            bytes = rest;
        }
        self.validate()
    }

    /// Appends the dictionary entries that a page's indices name. Their size is known
    /// before any is copied: few bits can name a long entry very often.
    fn append_indices(&mut self, bytes: &[u8], num_values: usize, entries: &Entries) -> Result<()> {
        let mut size = 0u64;
        for_each_batch(bytes, num_values, |indices, largest| {
            check_index(largest, entries.spans.len())?;
            let lengths = indices.iter().map(|&index| entries.len_of(index) as u64);
            size += lengths.sum::<u64>();
            Ok(())
        })?;
        self.reserve(usize::try_from(size).unwrap_or(usize::MAX))?;
        reserve(&mut self.offsets, num_values)?;
        for_each_batch(bytes, num_values, |indices, _| {
            let mut indices = indices.iter();
            indices.try_for_each(|&index| self.push(entries.get(index)))
        })?;
        self.validate()
    }

    /// Takes `num_values` strings, stored one by one from `start` to the end of `data`,
    /// and moves them together there.
    fn take_over(&mut self, data: RecycledBuffer, start: usize, num_values: usize) -> Result<()> {
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
        if size > MAX_DECODED_PAGE_BYTES {
            return Err(Error::limit(format!(
                "a page decodes to {size} bytes, the limit is {MAX_DECODED_PAGE_BYTES}"
            )));
        }
        if size > self.data.len() {
            let mut data = RecycledBuffer::new(size.max(self.end * 2))?;
            data[..self.end].copy_from_slice(&self.data[..self.end]);
            self.data = data;
        }
        Ok(())
    }

    /// Appends a string for which there is room.
    fn push(&mut self, string: &[u8]) -> Result<()> {
        let end = self.end + string.len();
        self.data[self.end..end].copy_from_slice(string);
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

    /// Checks what was appended since the last time, all at once: the whole is UTF-8,
    /// and every string begins where a character does.
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
        self.valid.0 = self.offsets.len();
        Ok(())
    }

    fn finish(self, nulls: Option<NullBuffer>) -> ArrayRef {
        debug_assert_eq!(self.valid, (self.offsets.len(), self.end));
        let offsets = ScalarBuffer::from(self.offsets);
        // All of the memory counts as the array's, not only what is in use.
        let data = Buffer::from(Bytes::from_owner(self.data.into_whole()));
        let data = data.slice_with_length(0, self.end);
        // SAFETY: offsets begin with 0, only grow and end with the length of the data;
        // if it is text, `validate` has seen every string.
        let array: GenericByteArray<T> = unsafe {
            let offsets = OffsetBuffer::new_unchecked(offsets);
            GenericByteArray::new_unchecked(offsets, data, nulls)
        };
        Arc::new(array)
    }
}
