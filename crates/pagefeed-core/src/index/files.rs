//! The files of an index: arrays of one length, which a mapped index does not
//! copy.

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::Field;

use super::columns::{columns, list_field, list_row, list_values, lists, unexpected};
use crate::error::{Error, Result};
use crate::storage::{FileId, Stamp};

columns! {
    /// Numbers of each file, besides its path.
    FileNumbers,
    /// Builds [`FileNumbers`] file by file.
    FileNumbersBuilder:
    /// Bytes.
    size: u64 as UInt64Type,
    /// Time of the last change.
    modified_ns: i64 as Int64Type,
    /// Inode, or a digest of its version.
    inode: u64 as UInt64Type,
    /// Time of the last change of content, permissions, owner or links.
    changed_ns: i64 as Int64Type,
    /// Digest of some blocks.
    sample: u64 as UInt64Type,
    /// Upper half of the digest of the footer.
    digest_high: u64 as UInt64Type,
    /// Lower half of the digest of the footer.
    digest_low: u64 as UInt64Type,
    /// Number of the schema.
    schema_id: u32 as UInt32Type,
}

/// The files of an index.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) paths: StringArray,
    pub(super) numbers: FileNumbers,
}

impl Files {
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(super) fn path(&self, file: usize) -> &str {
        self.paths.value(file)
    }

    pub(super) fn stamp(&self, file: usize) -> Stamp {
        Stamp {
            size: self.numbers.size[file],
            modified_ns: self.numbers.modified_ns[file],
            inode: self.numbers.inode[file],
            changed_ns: self.numbers.changed_ns[file],
            sample: self.numbers.sample[file],
        }
    }

    pub(super) fn id(&self, file: usize) -> FileId {
        FileId {
            path: self.path(file).into(),
            stamp: self.stamp(file),
        }
    }

    /// Digest of the footer.
    pub(super) fn digest(&self, file: usize) -> u128 {
        let numbers = &self.numbers;
        u128::from(numbers.digest_high[file]) << 64 | u128::from(numbers.digest_low[file])
    }

    pub(super) fn from_batch(batch: &RecordBatch) -> Result<Self> {
        let paths = list_values(batch, "path", 0)?;
        let paths = paths
            .as_string_opt::<i32>()
            .ok_or_else(|| unexpected("path"))?;
        for field in FileNumbers::fields() {
            if list_values(batch, field.name(), 0)?.len() != paths.len() {
                return Err(unexpected("path"));
            }
        }
        Ok(Self {
            paths: paths.clone(),
            numbers: FileNumbers::of_row(batch, 0)?,
        })
    }
}

/// Builds the list of files one by one.
#[derive(Default)]
pub(super) struct FilesBuilder {
    paths: StringBuilder,
    pub(super) numbers: FileNumbersBuilder,
}

impl FilesBuilder {
    pub(super) fn push(
        &mut self,
        path: &str,
        stamp: Stamp,
        digest: u128,
        schema: u32,
    ) -> Result<()> {
        let long = self.paths.values_slice().len() + path.len();
        if i32::try_from(long).is_err() {
            return Err(Error::limit(
                "the names of the files have 2 GiB or more: index them in several datasets",
            ));
        }
        self.paths.append_value(path);
        let numbers = &mut self.numbers;
        numbers.size.push(stamp.size);
        numbers.modified_ns.push(stamp.modified_ns);
        numbers.inode.push(stamp.inode);
        numbers.changed_ns.push(stamp.changed_ns);
        numbers.sample.push(stamp.sample);
        numbers.digest_high.push((digest >> 64) as u64);
        numbers.digest_low.push(digest as u64);
        numbers.schema_id.push(schema);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Files {
        Files {
            paths: self.paths.finish(),
            numbers: self.numbers.finish(),
        }
    }
}
