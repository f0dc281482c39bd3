//! Texts and byte strings: PLAIN and dictionary pages, in rows, structs and lists.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};

use super::entries::{Entries, is_worth_taking};
use super::records::Records;
use super::string_builder::Strings;
use crate::decode::PageRun;
use crate::decode::bounds::{check_indices, decoded_size};
use crate::decode::cursor::{OpenPage, PageCursor};
use crate::encodings::indices::total_length;
use crate::error::Result;
use crate::limits::check_page_size;
use crate::page::{DataPage, PageOpener};
use crate::schema::Leaf;

/// Whether strings of this type can be read here.
pub(crate) fn is_string(data_type: &DataType, leaf: &Leaf) -> bool {
    leaf.physical == PhysicalType::BYTE_ARRAY
        && matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
        )
}

/// Reads the strings of `rows`, numbered in the run, into an array without lists and
/// structs, with the levels that locate them; `None` for other encodings.
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
        let (elements, max) = (
            records.elements(leaf.max_repetition, element)?,
            records.max_definition(),
        );
        let bits = BooleanBuffer::collect_bool(elements.len(), |i| elements[i] == max);
        (bits.count_set_bits() < bits.len()).then_some(bits)
    } else {
        None
    };
    let array = strings.finish(present)?;
    Ok(Some((records, array)))
}

/// Most bytes that the wanted strings of a page can take; they are checked to be there.
/// `None` for other encodings.
fn size_of(open: &OpenPage<'_>, leaf: &Leaf, dictionary: Option<&Entries>) -> Result<Option<u64>> {
    let page = &open.page;
    Ok(match (page.header.encoding(), dictionary) {
        (Some(Encoding::PLAIN), _) => Some(decoded_size(page, leaf, open.num_present, None)?),
        // A page of short indices goes along with many pages of what lies beside it.
        (Some(Encoding::RLE_DICTIONARY), Some(entries)) => {
            check_indices(page, open.num_present)?;
            let size = total_length(page.values, open.values.clone(), entries.lengths())?;
            Some(check_page_size(size)?)
        }
        _ => None,
    })
}

/// Appends `values` of a page. `is_all` says that these are all its values, and all are
/// wanted. Returns the bytes of strings that can be taken over with the memory of the
/// page.
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

/// Appends `values` that are entries of the dictionary, `size` bytes in all.
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
