//! Page headers.

use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::limits::{
    MAX_COMPRESSED_PAGE_BYTES, MAX_PAGE_HEADER_BYTES, MAX_UNCOMPRESSED_PAGE_BYTES,
};
use crate::thrift::{Reader, Wire, read_fields};

/// Facts of a header about the bytes after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// Bytes of the header itself.
    pub header_size: usize,
    /// Bytes of the page as stored, without the header.
    pub compressed_size: usize,
    /// Bytes of the page once decompressed.
    pub uncompressed_size: usize,
    /// CRC-32 of the bytes as stored, if the writer computed it.
    pub crc: Option<u32>,
    /// Kind of the page.
    pub kind: PageKind,
}

/// The four kinds of page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// The distinct values the data pages of the chunk refer to.
    Dictionary {
        /// Number of distinct values.
        num_values: usize,
    },
    /// Version 1: levels and values are compressed together.
    DataV1(DataV1),
    /// Version 2: levels first, never compressed.
    DataV2(DataV2),
    /// An index page or one of an unknown kind: to be skipped.
    Other,
}

/// A data page of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataV1 {
    /// Number of levels: values, nulls and empty lists.
    pub num_values: usize,
    /// Encoding of the values.
    pub encoding: Encoding,
    /// Encoding of the definition levels.
    pub definition_encoding: Encoding,
    /// Encoding of the repetition levels.
    pub repetition_encoding: Encoding,
}

/// A data page of version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataV2 {
    /// Number of levels: values, nulls and empty lists.
    pub num_values: usize,
    /// Number of levels below the maximum. Old writers get it wrong.
    pub num_nulls: usize,
    /// Number of rows. Old writers get it wrong.
    pub num_rows: usize,
    /// Encoding of the values.
    pub encoding: Encoding,
    /// Bytes of the repetition levels.
    pub repetition_size: usize,
    /// Bytes of the definition levels.
    pub definition_size: usize,
    /// Whether the values are compressed (Arrow before 3.0 says no and
    /// compresses them all the same).
    pub is_compressed: bool,
}

impl PageHeader {
    /// Bytes of header and page.
    pub fn stored_size(&self) -> usize {
        self.header_size + self.compressed_size
    }

    /// Number of levels of a data page, `None` for the other kinds.
    pub fn num_levels(&self) -> Option<usize> {
        match self.kind {
            PageKind::DataV1(DataV1 { num_values, .. })
            | PageKind::DataV2(DataV2 { num_values, .. }) => Some(num_values),
            PageKind::Dictionary { .. } | PageKind::Other => None,
        }
    }

    /// Encoding of the values of a data page, `None` for the other kinds.
    pub fn encoding(&self) -> Option<Encoding> {
        match self.kind {
            PageKind::DataV1(DataV1 { encoding, .. })
            | PageKind::DataV2(DataV2 { encoding, .. }) => Some(encoding),
            PageKind::Dictionary { .. } | PageKind::Other => None,
        }
    }

    /// Parses the header at the start of `bytes`. Returns `None` if they are only a
    /// prefix of a header: call again with more.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let bytes = &bytes[..bytes.len().min(MAX_PAGE_HEADER_BYTES)];
        let mut reader = Reader::new(bytes);
        match parse(&mut reader) {
            Ok(header) => Ok(Some(header)),
            Err(_) if reader.exhausted() && bytes.len() < MAX_PAGE_HEADER_BYTES => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Encoding by its number in the format; the old name of the dictionary encoding
/// is folded into the new one.
fn encoding(code: i32) -> Result<Encoding> {
    Ok(match code {
        0 => Encoding::PLAIN,
        2 | 8 => Encoding::RLE_DICTIONARY,
        3 => Encoding::RLE,
        #[allow(deprecated, reason = "old files still use it for levels")]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        10 => return Err(Error::unsupported("the encoding ALP (10) is not supported")),
        _ => return Err(Error::unsupported(format!("unknown encoding {code}"))),
    })
}

fn bounded(size: usize, limit: usize, what: &str) -> Result<usize> {
    if size > limit {
        return Err(Error::limit(format!(
            "{what} is {size} bytes, the limit is {limit}"
        )));
    }
    Ok(size)
}

fn missing(what: &str) -> Error {
    Error::corrupt(format!("the page header lacks {what}"))
}

fn parse(reader: &mut Reader<'_>) -> Result<PageHeader> {
    let (mut kind, mut compressed, mut uncompressed, mut crc) = (None, None, None, None);
    let (mut data_v1, mut data_v2, mut dictionary) = (None, None, None);
    read_fields!(reader, {
        (1, Wire::I32) => kind = Some(reader.i32()?),
        (2, Wire::I32) => uncompressed = Some(reader.size("the uncompressed page size")?),
        (3, Wire::I32) => compressed = Some(reader.size("the compressed page size")?),
        (4, Wire::I32) => crc = Some(reader.i32()?.cast_unsigned()),
        (5, Wire::Struct) => data_v1 = Some(parse_v1(reader)?),
        (7, Wire::Struct) => dictionary = Some(parse_dictionary(reader)?),
        (8, Wire::Struct) => data_v2 = Some(parse_v2(reader)?),
    })?;
    let kind = match kind.ok_or_else(|| missing("the page type"))? {
        0 => PageKind::DataV1(data_v1.ok_or_else(|| missing("the data page fields"))?),
        2 => dictionary.ok_or_else(|| missing("the dictionary page fields"))?,
        3 => PageKind::DataV2(data_v2.ok_or_else(|| missing("the data page fields"))?),
        _ => PageKind::Other,
    };
    Ok(PageHeader {
        header_size: reader.position(),
        compressed_size: bounded(
            compressed.ok_or_else(|| missing("the compressed size"))?,
            MAX_COMPRESSED_PAGE_BYTES,
            "the page",
        )?,
        uncompressed_size: bounded(
            uncompressed.ok_or_else(|| missing("the uncompressed size"))?,
            MAX_UNCOMPRESSED_PAGE_BYTES,
            "the decompressed page",
        )?,
        crc,
        kind,
    })
}

fn parse_v1(reader: &mut Reader<'_>) -> Result<DataV1> {
    let (mut num_values, mut values) = (None, None);
    let (mut definition, mut repetition) = (Encoding::RLE, Encoding::RLE);
    read_fields!(reader, {
        (1, Wire::I32) => num_values = Some(reader.size("the number of values")?),
        (2, Wire::I32) => values = Some(encoding(reader.i32()?)?),
        (3, Wire::I32) => definition = encoding(reader.i32()?)?,
        (4, Wire::I32) => repetition = encoding(reader.i32()?)?,
    })?;
    Ok(DataV1 {
        num_values: num_values.ok_or_else(|| missing("the number of values"))?,
        encoding: values.ok_or_else(|| missing("the encoding"))?,
        definition_encoding: definition,
        repetition_encoding: repetition,
    })
}

fn parse_v2(reader: &mut Reader<'_>) -> Result<DataV2> {
    let (mut num_values, mut num_nulls, mut num_rows, mut values) = (None, 0, 0, None);
    let (mut definition_size, mut repetition_size, mut is_compressed) = (0, 0, true);
    read_fields!(reader, {
        (1, Wire::I32) => num_values = Some(reader.size("the number of values")?),
        (2, Wire::I32) => num_nulls = reader.size("the number of nulls")?,
        (3, Wire::I32) => num_rows = reader.size("the number of rows")?,
        (4, Wire::I32) => values = Some(encoding(reader.i32()?)?),
        (5, Wire::I32) => definition_size = reader.size("the definition level size")?,
        (6, Wire::I32) => repetition_size = reader.size("the repetition level size")?,
        (7, Wire::True) => is_compressed = true,
        (7, Wire::False) => is_compressed = false,
    })?;
    Ok(DataV2 {
        num_values: num_values.ok_or_else(|| missing("the number of values"))?,
        num_nulls,
        num_rows,
        encoding: values.ok_or_else(|| missing("the encoding"))?,
        repetition_size,
        definition_size,
        is_compressed,
    })
}

/// The dictionary's own encoding is not kept: PLAIN under one of two names.
fn parse_dictionary(reader: &mut Reader<'_>) -> Result<PageKind> {
    let (mut num_values, mut plain) = (None, true);
    read_fields!(reader, {
        (1, Wire::I32) => num_values = Some(reader.size("the dictionary's number of values")?),
        (2, Wire::I32) => plain = matches!(reader.i32()?, 0 | 2),
    })?;
    if !plain {
        return Err(Error::unsupported(
            "the dictionary page is not PLAIN-encoded",
        ));
    }
    Ok(PageKind::Dictionary {
        num_values: num_values.ok_or_else(|| missing("the number of values"))?,
    })
}
