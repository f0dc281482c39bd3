//! Pages that will be opened again, as they were decompressed.
//!
//! The pages of a column's leaves end at different rows: a page of short strings goes
//! along with many pages of long strings, and one with the end of a record goes
//! along with the page before it. It is decompressed once for all that follow each other.

use super::scratch::Scratch;
use crate::codec::Codec;

/// Most bytes that a thread keeps.
pub(super) const MAX_KEPT_BYTES: usize = 3 << 20;

/// Pages by their stored bytes, the most recently used last.
#[derive(Default)]
pub(super) struct KeptPages(Vec<KeptPage>);

struct KeptPage {
    codec: Codec,
    stored: Vec<u8>,
    scratch: Scratch,
}

impl KeptPage {
    fn num_bytes(&self) -> usize {
        self.stored.capacity() + self.scratch.memory.capacity()
    }
}

impl KeptPages {
    /// Returns the decompressed bytes of `stored`, if they are kept.
    pub fn find(&mut self, codec: Codec, stored: &[u8], size: usize) -> Option<&[u8]> {
        let is_same = |page: &KeptPage| {
            page.scratch.contents().len() == size && page.codec == codec && page.stored == stored
        };
        let found = self.0.iter().position(is_same)?;
        self.0[found..].rotate_left(1);
        self.0.last().map(|page| page.scratch.contents())
    }

    /// Bytes of all kept pages.
    pub fn num_bytes(&self) -> usize {
        self.0.iter().map(KeptPage::num_bytes).sum()
    }

    /// Keeps the contents of `scratch`, and gives it other memory.
    pub fn keep(&mut self, codec: Codec, stored: &[u8], scratch: &mut Scratch) {
        let size = stored.len() + scratch.memory.capacity();
        if size > MAX_KEPT_BYTES {
            return;
        }
        let spare = self.shrink(MAX_KEPT_BYTES - size);
        let mut spare = spare.map(|page| page.scratch).unwrap_or_default();
        spare.forget();
        self.0.push(KeptPage {
            codec,
            stored: stored.to_vec(),
            scratch: std::mem::replace(scratch, spare),
        });
    }

    /// Drops the pages used longest ago until the rest has at most `most` bytes;
    /// returns one of them.
    fn shrink(&mut self, most: usize) -> Option<KeptPage> {
        let mut left = most;
        let fitting = self.0.iter().rev().take_while(|page| {
            let fits = page.num_bytes() <= left;
            left -= page.num_bytes().min(left);
            fits
        });
        let num_dropped = self.0.len() - fitting.count();
        self.0.drain(..num_dropped).next_back()
    }

    /// Drops pages until the rest has at most `bytes` bytes.
    pub fn keep_at_most(&mut self, bytes: usize) {
        self.shrink(bytes);
    }
}
