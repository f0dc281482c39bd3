//! One stored page: checksum, decompression, and where its levels and values lie.

use parquet::basic::Encoding;

use crate::buffers::RecycledBuffer;
use crate::codec::{Codec, Decompressor};
use crate::decode::integers::reserve;
use crate::error::{Error, Kind, Result};
use crate::header::{PageHeader, PageKind};
use crate::limits::MAX_UNCOMPRESSED_PAGE_BYTES;
use crate::schema::Leaf;

/// Scratch buffers larger than this are given back after each page: every thread has
/// some, which together would be more than the pages they were for.
const KEEP_BYTES: usize = 2 << 20;

/// Decompresses pages into a buffer that is kept between pages; one per thread.
#[derive(Default)]
pub struct PageOpener {
    /// Contexts of the codecs.
    pub decompressor: Decompressor,
    /// Verify CRCs where they are present.
    pub verify_checksums: bool,
    scratch: Scratch,
    /// Another one, for dictionaries that are kept while data pages are opened.
    dictionary: Scratch,
    /// Levels of old files, converted to the encoding of new ones.
    levels: [Vec<u8>; 2],
}

/// A data page, decompressed.
#[derive(Debug)]
pub struct DataPage<'a> {
    /// Its header.
    pub header: &'a PageHeader,
    /// Run-length encoded repetition levels, without length prefix; empty if the
    /// column has none.
    pub repetition: &'a [u8],
    /// Run-length encoded definition levels, likewise.
    pub definition: &'a [u8],
    /// Encoded values.
    pub values: &'a [u8],
    /// Whether they can be had with their memory, by [`PageOpener::take_values`].
    pub(crate) is_takeable: bool,
}

impl PageOpener {
    /// An opener without buffers yet, that verifies checksums or does not.
    pub fn new(verify_checksums: bool) -> Self {
        Self {
            verify_checksums,
            ..Self::default()
        }
    }

    /// Opens a data page; `stored` is the page without its header.
    pub fn data_page<'a>(
        &'a mut self,
        header: &'a PageHeader,
        stored: &'a [u8],
        codec: Codec,
        leaf: &Leaf,
    ) -> Result<DataPage<'a>> {
        self.check(header, stored)?;
        match header.kind {
            PageKind::DataV1 { .. } => self.data_page_v1(header, stored, codec, leaf),
            PageKind::DataV2 { .. } => self.data_page_v2(header, stored, codec, leaf),
            PageKind::Dictionary { .. } | PageKind::Other => Err(Error::corrupt(
                "a data page was expected, found another kind",
            )),
        }
    }

    /// The buffer that ends with the `size` bytes of values of the page that was opened
    /// last, which must have said that they can be taken.
    pub(crate) fn take_values(&mut self, size: usize) -> (RecycledBuffer, usize) {
        let memory = self.scratch.take();
        let start = memory.len() - size;
        (memory, start)
    }

    /// Decompresses a dictionary page (`page` begins with its header) and returns
    /// the number of values and their PLAIN bytes.
    pub fn dictionary_page<'a>(
        &'a mut self,
        page: &'a [u8],
        codec: Codec,
    ) -> Result<(usize, &'a [u8])> {
        let (num_values, header) = self.dictionary_header(page)?;
        let (values, _) = decompress(
            &mut self.decompressor,
            &mut self.scratch,
            codec,
            &page[header.header_size..header.stored_size()],
            header.uncompressed_size,
        )?;
        Ok((num_values, values))
    }

    /// As [`PageOpener::dictionary_page`], in a buffer of its own: give it back by
    /// [`PageOpener::keep_dictionary`].
    pub(crate) fn take_dictionary(&mut self, page: &[u8], codec: Codec) -> Result<Dictionary> {
        let (num_values, header) = self.dictionary_header(page)?;
        let (stored, size) = (
            &page[header.header_size..header.stored_size()],
            header.uncompressed_size,
        );
        check_size(codec, stored.len(), size)?;
        let mut scratch = std::mem::take(&mut self.dictionary);
        scratch.reserve(size)?;
        self.decompressor
            .decompress(codec, stored, scratch.page())?;
        Ok(Dictionary {
            num_values,
            scratch,
        })
    }

    /// Gives back what large pages took, for any thread's next one: call it when a page
    /// is done.
    pub fn release_large(&mut self) {
        self.scratch.release_large();
        self.dictionary.release_large();
    }

    pub(crate) fn keep_dictionary(&mut self, dictionary: Dictionary) {
        self.dictionary = dictionary.scratch;
    }

    /// The header of a dictionary page, which is found to be whole.
    fn dictionary_header(&self, page: &[u8]) -> Result<(usize, PageHeader)> {
        let header = PageHeader::parse(page)?
            .ok_or_else(|| Error::corrupt("the dictionary page ends inside its header"))?;
        let PageKind::Dictionary { num_values } = header.kind else {
            return Err(Error::corrupt(
                "a dictionary page was expected, found another kind",
            ));
        };
        let stored = page
            .get(header.header_size..header.stored_size())
            .ok_or_else(|| Error::corrupt("the dictionary page ends early"))?;
        self.check(&header, stored)?;
        Ok((num_values, header))
    }

    fn check(&self, header: &PageHeader, stored: &[u8]) -> Result<()> {
        if stored.len() != header.compressed_size {
            return Err(Error::corrupt(format!(
                "the page header promises {} stored bytes, {} are there",
                header.compressed_size,
                stored.len()
            )));
        }
        if let Some(expected) = header.crc
            && self.verify_checksums
        {
            let found = crc32fast::hash(stored);
            if found != expected {
                return Err(Error::new(
                    Kind::Checksum,
                    format!("the page's CRC-32 is {found:08x}, its header says {expected:08x}"),
                ));
            }
        }
        Ok(())
    }

    /// Version 1: levels and values in one compressed area, levels length-prefixed.
    fn data_page_v1<'a>(
        &'a mut self,
        header: &'a PageHeader,
        stored: &'a [u8],
        codec: Codec,
        leaf: &Leaf,
    ) -> Result<DataPage<'a>> {
        let PageKind::DataV1 {
            num_values,
            definition_encoding,
            repetition_encoding,
            ..
        } = header.kind
        else {
            return Err(Error::invalid("not a version 1 page"));
        };
        let [repetition_buffer, definition_buffer] = &mut self.levels;
        let (bytes, is_takeable) = decompress(
            &mut self.decompressor,
            &mut self.scratch,
            codec,
            stored,
            header.uncompressed_size,
        )?;
        let (repetition, bytes) = split_levels(
            bytes,
            repetition_encoding,
            leaf.max_repetition,
            num_values,
            repetition_buffer,
        )?;
        let (definition, values) = split_levels(
            bytes,
            definition_encoding,
            leaf.max_definition,
            num_values,
            definition_buffer,
        )?;
        Ok(DataPage {
            header,
            repetition,
            definition,
            values,
            is_takeable,
        })
    }

    /// Version 2: levels first and never compressed, their sizes in the header.
    fn data_page_v2<'a>(
        &'a mut self,
        header: &'a PageHeader,
        stored: &'a [u8],
        codec: Codec,
        leaf: &Leaf,
    ) -> Result<DataPage<'a>> {
        let PageKind::DataV2 {
            repetition_size,
            definition_size,
            is_compressed,
            ..
        } = header.kind
        else {
            return Err(Error::invalid("not a version 2 page"));
        };
        let levels_size = repetition_size + definition_size;
        let (levels, area) = stored
            .split_at_checked(levels_size)
            .ok_or_else(|| Error::corrupt("the page is shorter than its levels"))?;
        let (repetition, definition) = levels.split_at(repetition_size);
        let size = header
            .uncompressed_size
            .checked_sub(levels_size)
            .ok_or_else(|| Error::corrupt("the page's size is smaller than that of its levels"))?;
        // Old Arrow writers compress and say that they did not: believe it only if
        // the sizes agree.
        let as_stored = !is_compressed && area.len() == size;
        let (values, is_takeable): (&[u8], bool) = match () {
            () if size == 0 => (&[], false), // Nothing may be stored for nothing.
            () if as_stored => (area, false),
            () => decompress(&mut self.decompressor, &mut self.scratch, codec, area, size)?,
        };
        let of = |max, levels: &'a [u8]| if max > 0 { levels } else { &[] };
        Ok(DataPage {
            header,
            repetition: of(leaf.max_repetition, repetition),
            definition: of(leaf.max_definition, definition),
            values,
            is_takeable,
        })
    }
}

/// Decompresses `stored` into `scratch`, or borrows it if it is not compressed; says
/// whether the scratch buffer may be taken for the page's.
fn decompress<'a>(
    decompressor: &mut Decompressor,
    scratch: &'a mut Scratch,
    codec: Codec,
    stored: &'a [u8],
    size: usize,
) -> Result<(&'a [u8], bool)> {
    if codec == Codec::Uncompressed && stored.len() == size {
        return Ok((stored, false));
    }
    check_size(codec, stored.len(), size)?;
    scratch.reserve(size)?;
    decompressor.decompress(codec, stored, scratch.page())?;
    Ok((&scratch.memory[..size], scratch.is_takeable()))
}

/// Refuses a size that no page may have, or not one of so few stored bytes.
fn check_size(codec: Codec, stored: usize, size: usize) -> Result<()> {
    if size > MAX_UNCOMPRESSED_PAGE_BYTES || size > codec.max_decompressed_size(stored) {
        return Err(Error::limit(format!(
            "the page claims to hold {size} bytes in {stored} compressed ones"
        )));
    }
    Ok(())
}

/// A dictionary page, decompressed.
pub(crate) struct Dictionary {
    pub(crate) num_values: usize,
    scratch: Scratch,
}

impl Dictionary {
    /// Its PLAIN values.
    pub(crate) fn values(&self) -> &[u8] {
        &self.scratch.memory[..self.scratch.size]
    }

    /// Its buffer, which begins with the values, unless that is far too large.
    pub(crate) fn take_values(&mut self) -> Option<RecycledBuffer> {
        self.scratch.is_takeable().then(|| self.scratch.take())
    }
}

/// A buffer that is kept between pages.
#[derive(Default)]
struct Scratch {
    memory: RecycledBuffer,
    /// Bytes of it that the last page takes.
    size: usize,
}

impl Scratch {
    /// Makes room for a page of `size` bytes.
    fn reserve(&mut self, size: usize) -> Result<()> {
        if self.memory.len() < size {
            // Nothing of the old contents is needed.
            self.memory = RecycledBuffer::default();
            self.memory = RecycledBuffer::new(size)?;
        }
        self.size = size;
        Ok(())
    }

    /// Of the page nobody knows yet what it holds.
    fn page(&mut self) -> &mut [u8] {
        &mut self.memory[..self.size]
    }

    fn release_large(&mut self) {
        if self.memory.capacity() > KEEP_BYTES {
            self.memory = RecycledBuffer::default();
        }
    }

    /// Whether the memory may be handed on with the page: not if most of it would be
    /// held for nothing.
    fn is_takeable(&self) -> bool {
        self.memory.capacity() <= self.size.saturating_mul(2)
    }

    fn take(&mut self) -> RecycledBuffer {
        let mut memory = std::mem::take(&mut self.memory);
        memory.truncate(self.size);
        memory
    }
}

/// Bits of a level between 0 and `max`.
pub(crate) fn level_width(max: i16) -> u32 {
    u16::BITS - max.unsigned_abs().leading_zeros()
}

/// Splits the levels off the front of a version 1 page.
fn split_levels<'a>(
    bytes: &'a [u8],
    encoding: Encoding,
    max: i16,
    num_levels: usize,
    converted: &'a mut Vec<u8>,
) -> Result<(&'a [u8], &'a [u8])> {
    if max == 0 {
        return Ok((&[], bytes));
    }
    let short = || Error::corrupt("the page ends inside its levels");
    #[allow(deprecated, reason = "old files still use BIT_PACKED")]
    match encoding {
        Encoding::RLE => {
            let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
            let size = u32::from_le_bytes(*size) as usize;
            rest.split_at_checked(size).ok_or_else(short)
        }
        Encoding::BIT_PACKED => {
            let width = level_width(max);
            let size = (num_levels * width as usize).div_ceil(8);
            let (packed, rest) = bytes.split_at_checked(size).ok_or_else(short)?;
            convert_bit_packed(packed, width, num_levels, converted)?;
            Ok((converted.as_slice(), rest))
        }
        other => Err(Error::corrupt(format!(
            "levels must be RLE or BIT_PACKED, found {other}"
        ))),
    }
}

/// Rewrites levels packed from the most significant bit as one bit-packed run of
/// the RLE encoding, which packs from the least significant.
fn convert_bit_packed(
    packed: &[u8],
    width: u32,
    num_levels: usize,
    converted: &mut Vec<u8>,
) -> Result<()> {
    converted.clear();
    let size = num_levels.div_ceil(8) * width as usize;
    reserve(converted, 10 + size)?;
    let mut header = (num_levels.div_ceil(8) << 1) | 1;
    while header >= 0x80 {
        converted.push((header as u8) | 0x80);
        header >>= 7;
    }
    converted.push(header as u8);
    let start = converted.len();
    converted.resize(start + size, 0);
    let width = width as usize;
    for bit in 0..num_levels * width {
        // Bit `j` of a level, counted from its top, becomes bit `width - 1 - j`.
        let target = bit - bit % width + (width - 1 - bit % width);
        let value = (packed[bit / 8] >> (7 - bit % 8)) & 1;
        converted[start + target / 8] |= value << (target % 8);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
