//! Texts and byte strings, one a row: PLAIN and dictionary pages.

use std::ops::Range;

use arrow_array::ArrayRef;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use parquet::basic::{Encoding, Type as PhysicalType};

use super::entries::{Entries, is_worth_taking};
use super::string_builder::Strings;
use crate::decode::bounds::{check_indices, decoded_size};
use crate::decode::cursor::{OpenPage, PageCursor};
use crate::encodings::indices::total_length;
use crate::error::Result;
use crate::levels::unpack_levels;
use crate::limits::check_page_size;
use crate::page::{DataPage, PageOpener};
use crate::schema::{ColumnSchema, Leaf};

/// Decodes a column of strings outside of lists and structs; `None` for other columns and
/// encodings.
pub(crate) fn decode(
    opener: &mut PageOpener,
    schema: &ColumnSchema,
    cursor: PageCursor<'_>,
) -> Result<Option<ArrayRef>> {
    let leaf = cursor.leaf;
    let levels = (leaf.max_repetition, leaf.max_definition);
    if leaf.physical != PhysicalType::BYTE_ARRAY
        || levels != (0, i16::from(schema.field.is_nullable()))
    {
        return Ok(None);
    }
    match schema.field.data_type() {
        DataType::Utf8 => read_as::<Utf8Type>(opener, cursor),
        DataType::LargeUtf8 => read_as::<LargeUtf8Type>(opener, cursor),
        DataType::Binary => read_as::<BinaryType>(opener, cursor),
        DataType::LargeBinary => read_as::<LargeBinaryType>(opener, cursor),
        _ => Ok(None),
    }
}

fn read_as<T: ByteArrayType>(
    opener: &mut PageOpener,
    mut cursor: PageCursor<'_>,
) -> Result<Option<ArrayRef>> {
    let (leaf, codec) = (cursor.leaf, cursor.run.codec);
    let (mut strings, mut definition) = (Strings::<T>::new(), Vec::new());
    let mut dictionary = None;
    while let Some(stored) = cursor.next()? {
        if stored.has_indices() && dictionary.is_none() {
            let page = opener.take_dictionary(cursor.dictionary()?, codec)?;
            dictionary = Some(Entries::new(page)?);
        }
        let open = cursor.open(opener, &stored)?;
        let (page, values, num_present) = (&open.page, open.values.clone(), open.num_present);
        // Then its memory can become the array's.
        let is_all = strings.is_empty() && values == (0..num_present) && cursor.is_at_end();
        let Some(size) = size_of(&open, leaf, dictionary.as_ref())? else {
            return Ok(None);
        };
        if leaf.max_definition > 0 {
            unpack_levels(page.definition, 1, open.levels.clone(), &mut definition)?;
        }
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
    }
    if let Some(entries) = dictionary {
        opener.keep_dictionary(entries.dictionary);
    }
    cursor.finish(opener)?;
    let present = BooleanBuffer::collect_bool(definition.len(), |at| definition[at] == 1);
    let has_nulls = present.count_set_bits() < present.len();
    strings.finish(has_nulls.then_some(present)).map(Some)
}

/// Most bytes that the wanted strings of a page can take; they are checked to be there.
/// `None` for other encodings.
fn size_of(open: &OpenPage<'_>, leaf: &Leaf, dictionary: Option<&Entries>) -> Result<Option<u64>> {
    let page = &open.page;
    Ok(match (page.header.encoding(), dictionary) {
        (Some(Encoding::PLAIN), _) => Some(decoded_size(page, leaf, open.num_present, None)?),
        // A page of short indices may have far more rows than the page that is loaded with it.
        (Some(Encoding::RLE_DICTIONARY), Some(entries)) => {
            check_indices(page, leaf, open.num_present)?;
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
