//! The memory of batches: recycled, because fresh memory costs a page fault every
//! 4 KiB.

use std::ops::DerefMut;
use std::sync::Weak;

use memmap2::MmapMut;

use super::Content;
use super::worker::Shared;
use crate::decode::TokenPage;
use crate::error::Result;

/// Memory of one batch. Mapped rather than allocated: aligned, zeroed, and given back
/// to the system when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    memory: MmapMut,
    pub(super) written: Written,
}

impl Buffer {
    pub fn new(num_bytes: usize) -> Result<Self> {
        // An empty mapping is refused.
        Ok(Self {
            memory: MmapMut::map_anon(num_bytes.max(1))?,
            written: Written::default(),
        })
    }

    /// The first `num_tokens` as tokens.
    pub fn tokens<T: crate::gather::BatchToken>(&mut self, num_tokens: usize) -> &mut [T] {
        let bytes = self.memory.deref_mut();
        assert!(num_tokens * size_of::<T>() <= bytes.len());
        // SAFETY: mappings are aligned to pages, the length was checked, and tokens
        // are plain integers.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), num_tokens) }
    }
}

/// A run of tokens of one row of a page, and its place in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct Document {
    /// Row of the batch.
    pub batch_row: u32,
    /// First token of that row.
    pub start: u32,
    /// Number of tokens, separators included.
    pub num_tokens: u32,
    /// Row of the page.
    pub row: u32,
    /// Page it comes from.
    pub page: u64,
    /// First token of the row, separators included.
    pub first_token: u32,
    /// Tokens of the whole row, separators included.
    pub row_tokens: u32,
}

/// What a batch came to, beside its tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// By their place, if they were asked for.
    pub documents: Vec<Document>,
    pub num_padding: u64,
    pub num_splits: u64,
}

impl Written {
    /// Forgets a batch, but not the memory.
    pub fn clear(&mut self) {
        self.documents.clear();
        (self.num_padding, self.num_splits) = (0, 0);
    }
}

/// A finished batch: `batch_rows * row_length` tokens, row-major. Dropping it gives
/// its memory back to the engine.
pub struct Batch<P: Content = TokenPage> {
    /// Always there until dropped.
    buffer: Option<P::Buffer>,
    num_bytes: usize,
    engine: Weak<Shared<P>>,
}

impl<P: Content> Batch<P> {
    pub(super) fn new(buffer: P::Buffer, num_bytes: usize, engine: Weak<Shared<P>>) -> Self {
        Self {
            buffer: Some(buffer),
            num_bytes,
            engine,
        }
    }

    /// Takes out what the batch holds.
    pub(super) fn take_contents(&mut self) -> P::Buffer
    where
        P::Buffer: Default,
    {
        self.buffer.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Batch {
    /// The tokens as bytes in native order, aligned to 64.
    pub fn bytes(&self) -> &[u8] {
        self.buffer
            .as_ref()
            .map_or(&[], |buffer| &buffer.memory[..self.num_bytes])
    }

    /// What it holds, in its order: empty unless the layout asked for it.
    pub fn documents(&self) -> &[Document] {
        self.buffer
            .as_ref()
            .map_or(&[], |buffer| &buffer.written.documents)
    }

    /// The tokens, to be written to: nobody else looks at a batch once delivered.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.buffer {
            Some(buffer) => &mut buffer.memory[..self.num_bytes],
            None => &mut [],
        }
    }
}

impl<P: Content> std::fmt::Debug for Batch<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Batch({} bytes)", self.num_bytes)
    }
}

impl<P: Content> Drop for Batch<P> {
    fn drop(&mut self) {
        if let (Some(buffer), Some(engine)) = (self.buffer.take(), self.engine.upgrade()) {
            engine.take_back(buffer);
        }
    }
}
