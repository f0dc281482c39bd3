//! Decompression contexts and buffers.

use super::kept::KeptPages;
use super::scratch::Scratch;
use crate::codec::{Codec, Decompressor};
use crate::error::Result;

/// Decompressors of pages, and the memory they write to.
#[derive(Default)]
pub(super) struct Areas {
    pub decompressor: Decompressor,
    pub scratch: Scratch,
    pub kept: KeptPages,
}

impl Areas {
    /// Decompresses `stored`, or borrows it if it is kept or not compressed. Returns
    /// whether the page may take over the scratch buffer.
    pub fn decompress<'a>(
        &'a mut self,
        codec: Codec,
        stored: &'a [u8],
        size: usize,
    ) -> Result<(&'a [u8], bool)> {
        if codec == Codec::Uncompressed && stored.len() == size {
            return Ok((stored, false));
        }
        if let Some(bytes) = self.kept.find(codec, stored, size) {
            return Ok((bytes, false));
        }
        let scratch = &mut self.scratch;
        scratch.fill(&mut self.decompressor, codec, stored, size)?;
        Ok((&scratch.memory[..size], scratch.is_takeable()))
    }
}
