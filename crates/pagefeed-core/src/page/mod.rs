//! One stored page: checksum, decompression, and where its levels and values lie.

mod levels;
mod scratch;

use crate::buffers::RecycledBuffer;
use crate::codec::{Codec, Decompressor};
use crate::error::{Error, Kind, Result};
use crate::header::{DataV1, DataV2, PageHeader, PageKind};
use crate::limits::{MAX_COUNTED_PAGE_BYTES, MAX_LEVEL_BYTES};
use crate::schema::Leaf;
use levels::{levels_size, split_levels};
use scratch::{KEEP_BYTES, Scratch, check_size};

pub(crate) use levels::level_width;
pub(crate) use scratch::Dictionary;

/// Decompresses pages into a buffer that is kept between pages; one per thread.
#[derive(Default)]
pub struct PageOpener {
    /// Verify CRCs where they are present.
    pub verify_checksums: bool,
    decompressor: Decompressor,
    scratch: Scratch,
    /// For dictionaries that are kept while data pages are opened.
    dictionary: Scratch,
    /// Levels of old files, converted to the encoding of new ones.
    levels: [Vec<u8>; 2],
}

/// A data page, decompressed.
#[derive(Debug)]
pub struct DataPage<'a> {
    /// Header of the page.
    pub header: &'a PageHeader,
    /// Run-length encoded repetition levels, without length prefix; empty if the
    /// column has none.
    pub repetition: &'a [u8],
    /// Run-length encoded definition levels.
    pub definition: &'a [u8],
    /// Encoded values.
    pub values: &'a [u8],
    /// Whether they can be had with their memory, by [`PageOpener::take_values`].
    pub(crate) is_takeable: bool,
}

/// A data page as stored.
#[derive(Clone, Copy)]
struct StoredPage<'a, 'l> {
    header: &'a PageHeader,
    /// Bytes after the header.
    bytes: &'a [u8],
    codec: Codec,
    leaf: &'l Leaf,
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
        let page = StoredPage {
            header,
            bytes: stored,
            codec,
            leaf,
        };
        match &header.kind {
            PageKind::DataV1(v1) => self.open_v1(v1, page),
            PageKind::DataV2(v2) => self.open_v2(v2, page),
            PageKind::Dictionary { .. } | PageKind::Other => Err(Error::corrupt(
                "a data page was expected, found another kind",
            )),
        }
    }

    /// Opens a data page for its levels: of a large one, only they are decompressed, and
    /// its values may be missing.
    pub fn data_levels<'a>(
        &'a mut self,
        header: &'a PageHeader,
        stored: &'a [u8],
        codec: Codec,
        leaf: &Leaf,
    ) -> Result<DataPage<'a>> {
        let PageKind::DataV1(v1) = &header.kind else {
            return self.data_page(header, stored, codec, leaf);
        };
        let (mut size, whole) = (KEEP_BYTES, header.uncompressed_size);
        self.check(header, stored)?;
        check_size(codec, stored.len(), whole)?;
        while size < whole && self.scratch.fill_head(codec, stored, size)? {
            let needed = levels_size(self.scratch.contents(), v1, leaf);
            if needed <= size {
                let bytes = self.scratch.contents();
                return split_page(header, v1, leaf, bytes, &mut self.levels);
            }
            if needed > MAX_LEVEL_BYTES {
                return Err(Error::limit(format!(
                    "the levels of the page take {needed} bytes, the limit is {MAX_LEVEL_BYTES}"
                )));
            }
            size = needed;
        }
        if whole > MAX_COUNTED_PAGE_BYTES {
            return Err(Error::limit(format!(
                "the page holds {whole} bytes, those that {codec:?} decompresses for their \
                 levels at most {MAX_COUNTED_PAGE_BYTES}: write the file anew with smaller pages"
            )));
        }
        self.data_page(header, stored, codec, leaf)
    }

    /// Takes the buffer that ends with the `size` bytes of values of the page opened
    /// last, which must be takeable.
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
        let stored = &page[header.header_size..header.stored_size()];
        let size = header.uncompressed_size;
        let (values, _) = self
            .scratch
            .decompress(&mut self.decompressor, codec, stored, size)?;
        Ok((num_values, values))
    }

    /// Returns the dictionary like [`PageOpener::dictionary_page`], in a separate buffer;
    /// give it back by [`PageOpener::keep_dictionary`].
    pub(crate) fn take_dictionary(&mut self, page: &[u8], codec: Codec) -> Result<Dictionary> {
        let (num_values, header) = self.dictionary_header(page)?;
        Dictionary::read(
            &mut self.decompressor,
            std::mem::take(&mut self.dictionary),
            codec,
            &page[header.header_size..header.stored_size()],
            header.uncompressed_size,
            num_values,
        )
    }

    /// Frees the memory of large pages for the next one of any thread; call it when a
    /// page is done.
    pub fn release_large(&mut self) {
        self.scratch.release_large();
        self.dictionary.release_large();
    }

    /// Bytes of buffers.
    pub fn kept_bytes(&self) -> usize {
        let levels = self.levels.iter().map(Vec::capacity).sum::<usize>();
        self.scratch.memory.capacity() + self.dictionary.memory.capacity() + levels
    }

    /// Drops the buffers if they have more than `bytes`.
    pub fn keep_at_most(&mut self, bytes: usize) {
        if self.kept_bytes() > bytes {
            (self.scratch, self.dictionary) = (Scratch::default(), Scratch::default());
            self.levels = [Vec::new(), Vec::new()];
        }
    }

    pub(crate) fn keep_dictionary(&mut self, dictionary: Dictionary) {
        self.dictionary = dictionary.into_scratch();
    }

    /// Returns the header of a dictionary page, which is checked to be complete.
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
    fn open_v1<'a>(&'a mut self, v1: &DataV1, page: StoredPage<'a, '_>) -> Result<DataPage<'a>> {
        let StoredPage { header, leaf, .. } = page;
        let size = header.uncompressed_size;
        let (bytes, is_takeable) =
            self.scratch
                .decompress(&mut self.decompressor, page.codec, page.bytes, size)?;
        let page = split_page(header, v1, leaf, bytes, &mut self.levels)?;
        Ok(DataPage {
            is_takeable,
            ..page
        })
    }

    /// Version 2: levels first and never compressed, their sizes in the header.
    fn open_v2<'a>(&'a mut self, v2: &DataV2, page: StoredPage<'a, '_>) -> Result<DataPage<'a>> {
        let StoredPage { header, leaf, .. } = page;
        let levels_size = v2.repetition_size + v2.definition_size;
        let (levels, area) = page
            .bytes
            .split_at_checked(levels_size)
            .ok_or_else(|| Error::corrupt("the page is shorter than its levels"))?;
        let (repetition, definition) = levels.split_at(v2.repetition_size);
        let size = header
            .uncompressed_size
            .checked_sub(levels_size)
            .ok_or_else(|| Error::corrupt("the page's size is smaller than that of its levels"))?;
        // Old Arrow writers compress and say that they did not: believe it only if
        // the sizes agree.
        let as_stored = !v2.is_compressed && area.len() == size;
        let (values, is_takeable): (&[u8], bool) = match () {
            () if size == 0 => (&[], false), // Nothing may be stored for nothing.
            () if as_stored => (area, false),
            () => self
                .scratch
                .decompress(&mut self.decompressor, page.codec, area, size)?,
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

/// Splits a version 1 page into levels and values.
fn split_page<'a>(
    header: &'a PageHeader,
    v1: &DataV1,
    leaf: &Leaf,
    bytes: &'a [u8],
    [repetition_buffer, definition_buffer]: &'a mut [Vec<u8>; 2],
) -> Result<DataPage<'a>> {
    let (repetition, bytes) = split_levels(
        bytes,
        v1.repetition_encoding,
        leaf.max_repetition,
        v1.num_values,
        repetition_buffer,
    )?;
    let (definition, values) = split_levels(
        bytes,
        v1.definition_encoding,
        leaf.max_definition,
        v1.num_values,
        definition_buffer,
    )?;
    Ok(DataPage {
        header,
        repetition,
        definition,
        values,
        is_takeable: false,
    })
}

#[cfg(test)]
mod tests;
