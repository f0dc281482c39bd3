//! Sizes of the values of a column once another reader decodes them, known before it does: found
//! from page headers and dictionaries, in little memory.

use parquet::basic::{Encoding, Type};

use super::locate::ChunkReader;
use super::options::BuildOptions;
use crate::decode::{decoded_size, plain_bits, string_lengths};
use crate::error::{Error, Result};
use crate::footer::{Footer, read_tail};
use crate::header::{PageHeader, PageKind};
use crate::levels::count_levels;
use crate::limits::{MAX_DECODED_PAGE_BYTES, check_page_size};
use crate::schema::{ColumnSchema, Leaf};
use crate::storage::{FileId, Storage};

/// Bytes that come with a value: levels, an offset or a view.
const BESIDE: u64 = 16;

/// Sizes of values as arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expansion {
    /// Bytes of all of them.
    pub all: u64,
    /// Bytes of a row, on average in the page where rows are largest; of a dictionary, its
    /// longest entry. All bytes, where a row may hold any number of values.
    pub of_row: u64,
}

/// Returns what the values of a column take in some row groups. Chunks of more than
/// `most_stored` bytes are left out.
///
/// A page that takes more than pages may, and one that claims more than it can hold, is
/// refused.
pub fn expansion(
    store: &dyn Storage,
    path: &str,
    column: &str,
    groups: &[usize],
    options: &BuildOptions,
    most_stored: u64,
) -> Result<Expansion> {
    let stamp = store.stamp(path)?;
    let file = FileId {
        path: path.into(),
        stamp,
    };
    let tail = read_tail(store, &file)?;
    let named = match &options.naming {
        Some(naming) => naming.rename(tail.footer())?,
        None => tail.footer().into(),
    };
    let footer = Footer::parse(&named, tail.footer_start, column)?;
    let schema = ColumnSchema::resolve(&footer.schema, column, options.naming.is_some())?;
    let mut total = Expansion::default();
    for &number in groups {
        options.check_cancelled()?;
        let group = footer.row_groups.get(number);
        let group = group.ok_or_else(|| Error::invalid(format!("no row group {number}")))?;
        for (chunk, leaf) in group.chunks.iter().zip(&schema.leaves) {
            if chunk.total_compressed_size > most_stored {
                continue;
            }
            let mut reader =
                ChunkReader::new(store, &file, chunk, leaf, tail.footer_start, options);
            let found =
                of_chunk(&mut reader).map_err(|error| error.in_chunk(number as u32, &leaf.path))?;
            total.all = total.all.saturating_add(found.all);
            total.of_row = total.of_row.max(match leaf.max_repetition {
                0 => found.of_row,
                _ => found.all,
            });
        }
    }
    Ok(total)
}

fn of_chunk(reader: &mut ChunkReader<'_>) -> Result<Expansion> {
    let (mut found, mut lengths) = (Expansion::default(), None);
    let (leaf, codec) = (reader.leaf, reader.chunk.codec);
    let (mut offset, mut levels) = (reader.chunk.byte_range().start, 0u64);
    while levels < reader.chunk.num_values {
        let header = reader.header(offset)?;
        let (stored, size) = (header.stored_size() as u64, header.uncompressed_size);
        if size > codec.max_decompressed_size(header.compressed_size) {
            return Err(Error::limit(format!(
                "a page claims to hold {size} bytes in {} compressed ones",
                header.compressed_size
            )));
        }
        if let PageKind::Dictionary { num_values } = header.kind {
            if leaf.physical == Type::BYTE_ARRAY {
                let page = reader.bytes(offset, stored)?;
                let (count, values) = reader.opener.dictionary_page(&page, codec)?;
                lengths = Some(string_lengths(values, count)?);
            } else if (num_values as u64).saturating_mul(plain_bits(leaf)) > size as u64 * 8 {
                return Err(Error::corrupt(format!(
                    "the dictionary claims {num_values} values in {size} bytes"
                )));
            }
        }
        if let Some(count) = header.num_levels() {
            let width = of_value(&header, leaf, lengths.as_deref());
            let mut sum = width.saturating_mul(count as u64);
            if sum > MAX_DECODED_PAGE_BYTES as u64 {
                let page = reader.bytes(offset, stored)?;
                let body = &page[header.header_size..];
                let page = reader.opener.data_page(&header, body, codec, leaf)?;
                let present = count_levels(&page, leaf)?.num_values;
                sum = decoded_size(&page, leaf, present as usize, lengths.as_deref())?;
            }
            sum = check_page_size(sum.saturating_add((count as u64).saturating_mul(BESIDE)))?;
            found.all = found.all.saturating_add(sum);
            found.of_row = found.of_row.max(width.saturating_add(BESIDE));
            levels += count as u64;
        }
        offset += stored;
    }
    Ok(found)
}

/// Bytes that a value of a page takes: the most of a dictionary, else the mean.
fn of_value(header: &PageHeader, leaf: &Leaf, lengths: Option<&[u32]>) -> u64 {
    let plain = plain_bits(leaf).div_ceil(8);
    let count = header.num_levels().unwrap_or(0).max(1) as u64;
    let page = header.uncompressed_size as u64;
    match (leaf.physical, header.encoding()) {
        (Type::BYTE_ARRAY, Some(Encoding::RLE_DICTIONARY)) => {
            let lengths = lengths.unwrap_or_default();
            u64::from(lengths.iter().copied().max().unwrap_or(0))
        }
        (_, Some(Encoding::DELTA_BYTE_ARRAY)) => page,
        (Type::BYTE_ARRAY, _) => page.div_ceil(count),
        _ => plain,
    }
}
