//! Texts and byte strings: PLAIN and dictionary pages, in rows, structs and lists.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};

use super::records::Records;
use super::string_builder::Strings;
use crate::buffers::{MIN_KEPT_BYTES, RecycledBuffer};
use crate::decode::PageRun;
use crate::decode::bounds::{check, decoded_size, string_lengths};
use crate::decode::cursor::{OpenPage, PageCursor};
use crate::decode::encodings::indices::{sequence, total_length};
use crate::error::Result;
use crate::page::{DataPage, Dictionary, PageOpener};
use crate::schema::Leaf;

/// Whether strings of this type can be read here.
pub(crate) fn is_string(data_type: &DataType, leaf: &Leaf) -> bool {
    leaf.physical == PhysicalType::BYTE_ARRAY
        && matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        )
}

/// Reads the strings of `rows`, numbered in the run, into an array without the lists and structs
/// around them, and the levels that say where they belong; `None` if a page is encoded
/// in another way.
pub(crate) fn read(
    opener: &mut PageOpener,
    run: &PageRun,
    leaf: &Leaf,
    data_type: &DataType,
    rows: Range<u64>,
) -> Result<Option<(Records, ArrayRef)>> {
    match data_type {
        DataType::Utf8 => read_as::<Utf8Type>(opener, run, leaf, rows),
        DataType::LargeUtf8 => read_as::<LargeUtf8Type>(opener, run, leaf, rows),
        DataType::Binary => read_as::<BinaryType>(opener, run, leaf, rows),
        DataType::LargeBinary => read_as::<LargeBinaryType>(opener, run, leaf, rows),
        _ => Ok(None),
    }
}

fn read_as<T: ByteArrayType>(
    opener: &mut PageOpener,
    run: &PageRun,
    leaf: &Leaf,
    rows: Range<u64>,
) -> Result<Option<(Records, ArrayRef)>> {
    let mut cursor = PageCursor::new(leaf, run, rows);
    let (mut records, mut strings) = (Records::new(leaf), Strings::<T>::new());
    let mut dictionary = None;
    while let Some(stored) = cursor.next()? {
        if stored.has_indices() && dictionary.is_none() {
            let page = opener.take_dictionary(cursor.dictionary()?, run.codec)?;
            dictionary = Some(Entries::new(page)?);
        }
        let open = cursor.open(opener, &stored)?;
        let (page, values, num_present) = (&open.page, open.values.clone(), open.num_present);
        // Then its memory can become the array's.
        let is_all = strings.is_empty() && values == (0..num_present) && cursor.is_at_end();
        let Some(size) = size_of(&open, leaf, dictionary.as_ref())? else {
            return Ok(None);
        };
        records.append(&open)?;
        let taken = match &mut dictionary {
            Some(entries) if stored.has_indices() => {
                append_indices(&mut strings, page, values, is_all, entries, size)?;
                None
            }
            _ => append_plain(&mut strings, page, values, is_all)?,
        };
        if let Some(size) = taken {
            let (data, start) = opener.take_values(size);
            strings.take_over(data, start, num_present)?;
        }
        cursor.keep(opener, &stored);
    }
    if let Some(entries) = dictionary {
        opener.keep_dictionary(entries.dictionary);
    }
    cursor.finish(opener)?;
    let element = leaf.descriptor.repeated_ancestor_def_level() as u8;
    let present = if records.has_nulls() {
        let (places, max) = (
            records.places(leaf.max_repetition, element)?,
            records.max_definition(),
        );
        let bits = BooleanBuffer::collect_bool(places.len(), |i| places[i] == max);
        (bits.count_set_bits() < bits.len()).then_some(bits)
    } else {
        None
    };
    let array = strings.finish(present)?;
    Ok(Some((records, array)))
}

/// Bytes that the wanted strings of a page take, at most, which are found to be there;
/// `None` if they are encoded in another way.
fn size_of(open: &OpenPage<'_>, leaf: &Leaf, dictionary: Option<&Entries>) -> Result<Option<u64>> {
    let page = &open.page;
    Ok(match (page.header.encoding(), dictionary) {
        (Some(Encoding::PLAIN), _) => Some(decoded_size(page, leaf, open.num_present, None)?),
        // A page of short indices goes along with many pages of what lies beside it.
        (Some(Encoding::RLE_DICTIONARY), Some(entries)) => {
            let size = total_length(page.values, open.values.clone(), entries.lengths())?;
            Some(check(size)?)
        }
        _ => None,
    })
}

/// Appends `values` of a page; `is_all` if those are all of it, and all that is wanted. Of
/// those that are to be taken with the page's memory instead, returns the bytes.
fn append_plain<T: ByteArrayType>(
    strings: &mut Strings<T>,
    page: &DataPage<'_>,
    values: Range<usize>,
    is_all: bool,
) -> Result<Option<usize>> {
    let size = page.values.len();
    if is_all && page.is_takeable && is_worth_taking(size, values.len()) {
        return Ok(Some(size));
    }
    strings.append_plain(page.values, values)?;
    Ok(None)
}

/// The same of `values` that name entries of the dictionary, of `size` bytes together.
fn append_indices<T: ByteArrayType>(
    strings: &mut Strings<T>,
    page: &DataPage<'_>,
    values: Range<usize>,
    is_all: bool,
    entries: &mut Entries,
    size: u64,
) -> Result<()> {
    if is_all && let Some((data, start)) = entries.take(page.values, values.len())? {
        return strings.take_over(data, start, values.len());
    }
    strings.append_indices(page.values, values, entries, size)
}

/// Whether `num_values` strings stored in `size` bytes are better moved together where
/// they are than copied: if they are large, and their lengths small beside them.
fn is_worth_taking(size: usize, num_values: usize) -> bool {
    size >= MIN_KEPT_BYTES && num_values <= size / 32
}

/// A dictionary of strings, where the page has them.
pub(crate) struct Entries {
    dictionary: Dictionary,
    lengths: Vec<u32>,
    /// Where each of them begins.
    starts: Vec<u32>,
}

impl Entries {
    fn new(dictionary: Dictionary) -> Result<Self> {
        let lengths = string_lengths(dictionary.values(), dictionary.num_values)?;
        let mut starts = Vec::new();
        crate::decode::tokens::integers::reserve(&mut starts, lengths.len())?;
        let mut at = 0;
        for length in &lengths {
            starts.push(at + 4);
            at += 4 + length;
        }
        Ok(Self {
            dictionary,
            lengths,
            starts,
        })
    }

    /// Bytes of every entry.
    pub(crate) fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Entry number `index`, which must be one.
    pub(crate) fn get(&self, index: u32) -> &[u8] {
        let start = self.starts[index as usize] as usize;
        &self.dictionary.values()[start..start + self.lengths[index as usize] as usize]
    }

    /// The dictionary's buffer, and where its strings begin that `indices` name, if
    /// those are in sequence and most of the dictionary: writers that find no text
    /// twice put all of it there. The entries are gone then.
    fn take(
        &mut self,
        indices: &[u8],
        num_values: usize,
    ) -> Result<Option<(RecycledBuffer, usize)>> {
        if num_values == 0 || !is_worth_taking(self.dictionary.values().len(), num_values) {
            return Ok(None);
        }
        let Some(first) = sequence(indices, num_values, self.lengths.len())? else {
            return Ok(None);
        };
        let last = first + num_values - 1;
        let start = self.starts[first] as usize - 4;
        let size = (self.starts[last] + self.lengths[last]) as usize - start;
        if !is_worth_taking(size, num_values) || size < self.dictionary.values().len() / 2 {
            return Ok(None);
        }
        Ok(self.dictionary.take_values().map(|data| (data, start)))
    }
}
