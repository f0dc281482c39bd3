//! The footer's thrift structures, read in one pass. Counts and ranges are checked
//! here, so that later code need not trust the file.

use std::ops::Range;

use super::{Chunk, Footer, RowGroup};
use crate::codec::Codec;
use crate::error::{Error, Kind, Result};
use crate::schema::PADDED_KEY;
use crate::schema::converted;
use crate::schema::hint::{self, ARROW_SCHEMA_KEY};
use crate::schema::rewrite::{INT96, SPARK_KEY};
use crate::schema::tree::SchemaTree;
use crate::thrift::{Reader, Wire, put_varint, read_fields};

/// A writer whose null counts of chunks are those of the dictionary: none. (So did
/// Arrow C++ before 6, for strings only.)
const COUNTS_NULLS_OF_DICTIONARIES: &[u8] = b"Arrow2";

/// A writer that pads its pages: see [`PADDED_KEY`].
const PADS_PAGES: &[u8] = b"fastparquet-python";

/// Facts that all chunks are checked against.
struct Context<'a> {
    /// Offset of the footer; pages and indexes are before it.
    footer_start: u64,
    tree: &'a SchemaTree,
    /// Leaves whose chunks are kept.
    selected: Range<usize>,
    column: &'a str,
}

pub(super) fn missing(what: &str) -> Error {
    Error::corrupt(format!("the footer lacks {what}"))
}

fn encrypted(what: &str) -> Error {
    Error::new(
        Kind::Encrypted,
        format!("{what} is encrypted, which pagefeed does not read; decrypt the file first"),
    )
}

impl Footer {
    /// Parses the thrift bytes of a footer that begins at `footer_start` of its
    /// file, keeping the chunks of `column`.
    pub fn parse(bytes: &[u8], footer_start: u64, column: &str) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut schema = None;
        let (mut num_rows, mut row_groups) = (None, None);
        let (mut arrow_schema, mut spark) = (None, None);
        let (mut selected, mut created_by) = (0..0, &b""[..]);
        read_fields!(reader, {
            (2, Wire::List) => {
                let start = reader.position();
                let tree = SchemaTree::parse(reader)?;
                selected = tree.select(column)?;
                let elements = converted::known_only(&bytes[start..reader.position()])?;
                schema = Some((elements, tree));
            },
            (3, Wire::I64) => num_rows = Some(reader.count("the number of rows")?),
            (4, Wire::List) => {
                let (_, tree) = schema.as_ref().ok_or_else(|| missing("a schema"))?;
                let context = Context {
                    footer_start,
                    tree,
                    selected: selected.clone(),
                    column,
                };
                row_groups = Some(parse_row_groups(reader, &context)?);
            },
            (5, Wire::List) => {
                let mut again = reader.clone();
                arrow_schema = find_value(reader, ARROW_SCHEMA_KEY)?;
                spark = find_value(&mut again, SPARK_KEY)?;
            },
            (6, Wire::Binary) => created_by = reader.binary()?,
            (8, _) => return Err(encrypted("the file")),
        })?;
        let (schema, tree) = schema.ok_or_else(|| missing("a schema"))?;
        let num_rows = num_rows.ok_or_else(|| missing("the number of rows"))?;
        let mut row_groups = row_groups.ok_or_else(|| missing("the row groups"))?;
        check_rows(num_rows, row_groups.iter().map(|group| group.num_rows))?;
        if created_by.starts_with(COUNTS_NULLS_OF_DICTIONARIES) {
            let chunks = row_groups.iter_mut().flat_map(|group| &mut group.chunks);
            chunks.for_each(|chunk| chunk.miscounts_nulls = chunk.dictionary_page_offset.is_some());
        }
        let hint = arrow_schema.and_then(hint::decode);
        let hint = hint.map(|fields| hint::encode(&fields));
        let mut metadata = hint
            .as_deref()
            .map_or(vec![], |it| vec![(ARROW_SCHEMA_KEY, it)]);
        let has_int96 = selected
            .clone()
            .any(|leaf| tree.physical_type(leaf) == Some(INT96));
        if has_int96 && spark.is_some() {
            metadata.push((SPARK_KEY, ""));
        }
        if created_by.starts_with(PADS_PAGES) {
            metadata.push((PADDED_KEY, ""));
        }
        Ok(Self {
            schema: empty_footer(&schema, &metadata),
            row_groups,
        })
    }
}

/// Checks the row counts. Some writers leave the total at 0; the counts of row groups
/// are verified page by page.
pub(super) fn check_rows(num_rows: u64, mut groups: impl Iterator<Item = u64>) -> Result<()> {
    let sum = groups.try_fold(0u64, |sum, rows| sum.checked_add(rows));
    if sum.is_none() || (num_rows != 0 && sum != Some(num_rows)) {
        return Err(Error::corrupt(format!(
            "the footer promises {num_rows} rows, its row groups hold {}",
            sum.map_or("too many".to_string(), |sum| sum.to_string())
        )));
    }
    Ok(())
}

/// Makes a footer with this schema and no rows: version 1, the schema, no rows, no row
/// groups, and the metadata that say how columns are read.
fn empty_footer(schema: &[u8], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut footer = vec![0x15, 0x02, 0x19];
    footer.extend_from_slice(schema);
    footer.extend([0x16, 0x00, 0x19, 0x0c]);
    if !metadata.is_empty() {
        // So few that the size fits the header of a list of structs.
        footer.extend([0x19, (metadata.len() as u8) << 4 | 0x0c]);
    }
    for (key, value) in metadata {
        for text in [key, value] {
            footer.push(0x18);
            put_varint(&mut footer, text.len() as u64);
            footer.extend_from_slice(text.as_bytes());
        }
        footer.push(0);
    }
    footer.push(0);
    footer
}

/// Returns the value of a key in the metadata of a footer.
pub fn value_of<'a>(footer: &'a [u8], key: &str) -> Result<Option<&'a str>> {
    let mut value = None;
    let mut reader = Reader::new(footer);
    read_fields!(reader, {
        (5, Wire::List) => value = find_value(reader, key)?,
    })?;
    Ok(value)
}

/// Returns the value of a key, if it exists and is UTF-8.
fn find_value<'a>(reader: &mut Reader<'a>, wanted: &str) -> Result<Option<&'a str>> {
    let mut text = None;
    for _ in 0..reader.list_of(Wire::Struct)? {
        let (mut key, mut value) = (&b""[..], None);
        read_fields!(reader, {
            (1, Wire::Binary) => key = reader.binary()?,
            (2, Wire::Binary) => value = Some(reader.binary()?),
        })?;
        if key == wanted.as_bytes() {
            text = value.and_then(|value| std::str::from_utf8(value).ok());
        }
    }
    Ok(text)
}

fn parse_row_groups(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Vec<RowGroup>> {
    let count = reader.list_of(Wire::Struct)?;
    let mut row_groups = Vec::new();
    for index in 0..count {
        let group = parse_row_group(reader, context).map_err(|error| {
            error.in_chunk(u32::try_from(index).unwrap_or(u32::MAX), context.column)
        })?;
        row_groups.push(group);
    }
    Ok(row_groups)
}

fn parse_row_group(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<RowGroup> {
    let (mut num_rows, mut chunks) = (None, None);
    read_fields!(reader, {
        (1, Wire::List) => chunks = Some(parse_chunks(reader, context)?),
        (3, Wire::I64) => num_rows = Some(reader.count("the row group's number of rows")?),
    })?;
    Ok(RowGroup {
        num_rows: num_rows.ok_or_else(|| missing("a row group's number of rows"))?,
        chunks: chunks.ok_or_else(|| missing("a row group's column chunks"))?,
    })
}

fn parse_chunks(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Vec<Chunk>> {
    let count = reader.list_of(Wire::Struct)?;
    if count != context.tree.num_leaves() {
        return Err(Error::corrupt(format!(
            "a row group has {count} column chunks, the schema {} leaves",
            context.tree.num_leaves()
        )));
    }
    let mut chunks = Vec::with_capacity(context.selected.len());
    for leaf in 0..count {
        if context.selected.contains(&leaf) {
            chunks.push(parse_chunk(reader, leaf, context)?);
        } else {
            reader.skip(Wire::Struct)?;
        }
    }
    Ok(chunks)
}

fn parse_chunk(reader: &mut Reader<'_>, leaf: usize, context: &Context<'_>) -> Result<Chunk> {
    let mut chunk = None;
    let (mut offset_index, mut column_index) = ((None, None), (None, None));
    read_fields!(reader, {
        (1, Wire::Binary) => {
            let path = String::from_utf8_lossy(reader.binary()?).into_owned();
            if !path.is_empty() {
                return Err(Error::unsupported(format!(
                    "the column chunk lies in another file, {path:?}"
                )));
            }
        },
        (3, Wire::Struct) => chunk = Some(parse_chunk_metadata(reader, leaf, context)?),
        (4, Wire::I64) => offset_index.0 = Some(reader.count("the offset index offset")?),
        (5, Wire::I32) => offset_index.1 = Some(reader.size("the offset index size")?),
        (6, Wire::I64) => column_index.0 = Some(reader.count("the column index offset")?),
        (7, Wire::I32) => column_index.1 = Some(reader.size("the column index size")?),
        (8, _) => return Err(encrypted("the column")),
    })?;
    let mut chunk = chunk.ok_or_else(|| missing("a column chunk's metadata"))?;
    chunk.offset_index = index_range(offset_index, context.footer_start, "offset index")?;
    chunk.column_index = index_range(column_index, context.footer_start, "column index")?;
    Ok(chunk)
}

fn index_range(
    (offset, size): (Option<u64>, Option<usize>),
    footer_start: u64,
    what: &str,
) -> Result<Option<Range<u64>>> {
    let (Some(offset), Some(size)) = (offset, size) else {
        return Ok(None);
    };
    let end = offset.saturating_add(size as u64);
    if end > footer_start {
        return Err(Error::corrupt(format!(
            "the {what} at {offset}..{end} runs into the footer at {footer_start}"
        )));
    }
    Ok((size > 0).then_some(offset..end))
}

fn parse_chunk_metadata(
    reader: &mut Reader<'_>,
    leaf: usize,
    context: &Context<'_>,
) -> Result<Chunk> {
    let (mut physical, mut codec, mut num_values, mut total) = (None, None, None, None);
    let (mut data_page, mut dictionary_page) = (None, None);
    let (mut num_nulls, mut dictionary_pages) = (None, None);
    let (mut has_dictionary, mut levels) = (false, [Vec::new(), Vec::new()]);
    read_fields!(reader, {
        (1, Wire::I32) => physical = Some(reader.i32()?),
        (2, Wire::List) => has_dictionary = parse_encodings(reader)?,
        (4, Wire::I32) => codec = Some(Codec::from_thrift(reader.i32()?)?),
        (5, Wire::I64) => num_values = Some(reader.count("the chunk's number of values")?),
        (7, Wire::I64) => total = Some(reader.count("the chunk's compressed size")?),
        (9, Wire::I64) => data_page = Some(reader.count("the data page offset")?),
        (11, Wire::I64) => dictionary_page = Some(reader.count("the dictionary page offset")?),
        (12, Wire::Struct) => num_nulls = parse_null_count(reader)?,
        (13, Wire::List) => dictionary_pages = Some(parse_encoding_stats(reader)?),
        (16, Wire::Struct) => levels = parse_level_counts(reader)?,
    })?;
    if physical != context.tree.physical_type(leaf) {
        return Err(Error::corrupt(
            "the column chunk's type is not the schema's type",
        ));
    }
    let num_values = num_values.ok_or_else(|| missing("a chunk's number of values"))?;
    let [repetition_levels, definition_levels] = levels;
    let chunk = Chunk {
        codec: codec.ok_or_else(|| missing("a chunk's codec"))?,
        num_values,
        data_page_offset: data_page.ok_or_else(|| missing("a chunk's data page offset"))?,
        // Some writers store 0 for "none": the magic bytes lie there.
        dictionary_page_offset: dictionary_page.filter(|offset| *offset > 0),
        total_compressed_size: total.ok_or_else(|| missing("a chunk's compressed size"))?,
        dictionary_pages,
        has_dictionary,
        // Counts from levels cannot be wrong as statistics can.
        num_nulls: levels_below(&definition_levels, num_values).or(num_nulls),
        miscounts_nulls: false,
        repetition_levels,
        definition_levels,
        offset_index: None,
        column_index: None,
    };
    let Range { start, end } = chunk.byte_range();
    if chunk.num_values > 0 && (start < 4 || end > context.footer_start) {
        return Err(Error::corrupt(format!(
            "the column chunk at {start}..{end} is not between the file's magic and its \
             footer at {}",
            context.footer_start
        )));
    }
    Ok(chunk)
}

/// Reads `null_count` of a `Statistics` structure, if it is there and plausible.
pub(crate) fn parse_null_count(reader: &mut Reader<'_>) -> Result<Option<u64>> {
    let mut null_count = None;
    read_fields!(reader, {
        (3, Wire::I64) => null_count = u64::try_from(reader.i64()?).ok(),
    })?;
    Ok(null_count)
}

/// Levels below the maximum, by a histogram of all, if it makes sense.
fn levels_below(histogram: &[u64], num_levels: u64) -> Option<u64> {
    let (&last, _) = histogram.split_last()?;
    let sum = histogram
        .iter()
        .try_fold(0_u64, |sum, &count| sum.checked_add(count));
    (sum? == num_levels).then(|| num_levels - last)
}

/// Whether one of a chunk's encodings needs a dictionary.
fn parse_encodings(reader: &mut Reader<'_>) -> Result<bool> {
    let (wire, count) = reader.list()?;
    let mut has_dictionary = false;
    for _ in 0..count {
        // A hint alone: an unknown encoding does not spoil the column.
        match wire {
            Wire::I32 => has_dictionary |= matches!(reader.i32()?, 2 | 8),
            _ => reader.skip_element(wire, 0)?,
        }
    }
    Ok(has_dictionary)
}

/// Repetition and definition levels of a `SizeStatistics` structure.
fn parse_level_counts(reader: &mut Reader<'_>) -> Result<[Vec<u64>; 2]> {
    let mut levels = [Vec::new(), Vec::new()];
    read_fields!(reader, {
        (2, Wire::List) => levels[0] = reader.counts("a level count")?,
        (3, Wire::List) => levels[1] = reader.counts("a level count")?,
    })?;
    Ok(levels)
}

/// Number of dictionary-encoded data pages.
fn parse_encoding_stats(reader: &mut Reader<'_>) -> Result<u64> {
    let mut dictionary_pages = 0u64;
    for _ in 0..reader.list_of(Wire::Struct)? {
        let (mut page_type, mut encoding, mut count) = (-1, -1, 0);
        read_fields!(reader, {
            (1, Wire::I32) => page_type = reader.i32()?,
            (2, Wire::I32) => encoding = reader.i32()?,
            (3, Wire::I32) => count = reader.size("a page count")? as u64,
        })?;
        if matches!(page_type, 0 | 3) && matches!(encoding, 2 | 8) {
            dictionary_pages = dictionary_pages.saturating_add(count);
        }
    }
    Ok(dictionary_pages)
}
