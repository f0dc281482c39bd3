//! Batches as the consumer has them.

use std::ops::Range;
use std::sync::Weak;

use arrow_array::{ArrayRef, RecordBatch};

use super::assembly::buffer::Buffer;
use super::worker::Shared;
use crate::fields::{Field, Made};

/// A finished batch: `num_rows * row_length` tokens, row-major, and the columns of its
/// cells. Dropping it gives its memory back to the engine.
pub struct Batch {
    /// The buffer; present until dropped.
    buffer: Option<Buffer>,
    engine: Weak<Shared>,
}

impl Batch {
    pub(in crate::engine) fn new(buffer: Buffer, engine: Weak<Shared>) -> Self {
        Self {
            buffer: Some(buffer),
            engine,
        }
    }

    /// Number of rows, including padding.
    pub fn num_rows(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.num_rows)
    }

    /// Takes out the columns that are handed out, an array of all rows each. Works once.
    pub fn take_columns(&mut self) -> Vec<ArrayRef> {
        let buffer = self.buffer.as_mut();
        buffer.map_or_else(Vec::new, |buffer| std::mem::take(&mut buffer.columns))
    }

    /// Tokens of a row of documents, or of a row of each padded column.
    pub fn row_lengths(&self) -> &[usize] {
        let buffer = self.buffer.as_ref();
        buffer.map_or(&[], |buffer| &buffer.row_lengths)
    }

    /// Takes out the metadata table of its documents, if metadata was asked for.
    pub fn take_metadata(&mut self) -> Option<RecordBatch> {
        self.buffer.as_mut()?.metadata.pop()
    }

    /// Tokens and fields as bytes in native order, aligned to 64.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], Buffer::bytes)
    }

    /// Byte range of a field; empty unless it was asked for.
    pub fn range(&self, field: Field) -> Range<usize> {
        let buffer = self.buffer.as_ref();
        buffer.map_or(0..0, |buffer| buffer.sections.range(field))
    }

    /// Byte range of an aligned column.
    pub fn aligned_range(&self, column: usize) -> Range<usize> {
        let buffer = self.buffer.as_ref();
        buffer.map_or(0..0, |buffer| buffer.sections.aligned_range(column))
    }

    /// Results of making the fields; `None` without memory.
    pub fn made(&self) -> Option<&Made> {
        self.buffer.as_ref().map(|buffer| &buffer.made)
    }

    /// Returns the bytes for writing; nothing else reads a delivered batch.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], Buffer::bytes_mut)
    }
}

impl From<Buffer> for Batch {
    /// A batch of no engine: dropping it gives its memory back to the system.
    fn from(buffer: Buffer) -> Self {
        Self::new(buffer, Weak::new())
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Batch")
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let (Some(buffer), Some(engine)) = (self.buffer.take(), self.engine.upgrade()) {
            engine.take_back(buffer);
        }
    }
}
