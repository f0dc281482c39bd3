//! Buffers that pages are decompressed into, kept between pages.

use crate::buffers::RecycledBuffer;
use crate::codec::{Codec, Decompressor};
use crate::error::{Error, Result};
use crate::limits::check_page_size;

/// Larger scratch buffers are freed after each page: every thread has some, which
/// together could exceed the pages.
pub(super) const KEEP_BYTES: usize = 2 << 20;

/// Refuses a size that no page may have, or not one of so few stored bytes.
pub(super) fn check_size(codec: Codec, stored: usize, size: usize) -> Result<()> {
    if size > codec.max_decompressed_size(stored) {
        return Err(Error::limit(format!(
            "the page claims to hold {size} bytes in {stored} compressed ones"
        )));
    }
    check_page_size(size as u64).map(|_| ())
}

/// A dictionary page, decompressed.
pub(crate) struct Dictionary {
    pub(crate) num_values: usize,
    scratch: Scratch,
}

impl Dictionary {
    /// Decompresses one into `scratch`.
    pub(super) fn read(
        decompressor: &mut Decompressor,
        mut scratch: Scratch,
        codec: Codec,
        stored: &[u8],
        size: usize,
        num_values: usize,
    ) -> Result<Self> {
        scratch.fill(decompressor, codec, stored, size)?;
        Ok(Self {
            num_values,
            scratch,
        })
    }

    /// Returns its memory, for the next page.
    pub(super) fn into_scratch(self) -> Scratch {
        self.scratch
    }

    /// Returns its PLAIN values.
    pub(crate) fn values(&self) -> &[u8] {
        self.scratch.contents()
    }

    /// Takes its buffer, which begins with the values, unless it is far too large.
    pub(crate) fn take_values(&mut self) -> Option<RecycledBuffer> {
        self.scratch.is_takeable().then(|| self.scratch.take())
    }
}

/// A buffer that is kept between pages.
#[derive(Default)]
pub(super) struct Scratch {
    pub memory: RecycledBuffer,
    /// Bytes of the buffer that the last page uses.
    size: usize,
}

impl Scratch {
    /// Decompresses a page of `size` bytes into it.
    pub fn fill(
        &mut self,
        decompressor: &mut Decompressor,
        codec: Codec,
        stored: &[u8],
        size: usize,
    ) -> Result<()> {
        check_size(codec, stored.len(), size)?;
        self.reserve(size)?;
        // The contents of the page are not known yet.
        decompressor.decompress(codec, stored, &mut self.memory[..size])
    }

    /// Decompresses `stored` into it, or returns it as it is if it is not compressed; and
    /// whether the page may take over the memory.
    pub fn decompress<'a>(
        &'a mut self,
        decompressor: &mut Decompressor,
        codec: Codec,
        stored: &'a [u8],
        size: usize,
    ) -> Result<(&'a [u8], bool)> {
        if codec == Codec::Uncompressed && stored.len() == size {
            return Ok((stored, false));
        }
        self.fill(decompressor, codec, stored, size)?;
        Ok((self.contents(), self.is_takeable()))
    }

    /// Decompresses the first `size` bytes of a page into it, if its codec can.
    pub fn fill_head(&mut self, codec: Codec, stored: &[u8], size: usize) -> Result<bool> {
        self.reserve(size)?;
        Ok(Decompressor::decompress_head(
            codec,
            stored,
            &mut self.memory[..size],
        ))
    }

    /// The page that was decompressed last.
    pub fn contents(&self) -> &[u8] {
        &self.memory[..self.size]
    }

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

    pub fn release_large(&mut self) {
        if self.memory.capacity() > KEEP_BYTES {
            self.memory = RecycledBuffer::default();
        }
    }

    /// Whether the page may take over the memory: not if most of it would be unused.
    pub fn is_takeable(&self) -> bool {
        self.memory.capacity() <= self.size.saturating_mul(2)
    }

    pub fn take(&mut self) -> RecycledBuffer {
        let mut memory = std::mem::take(&mut self.memory);
        memory.truncate(self.size);
        memory
    }
}
