//! The files of an index: arrays of one length, of which a mapped index has none in memory of
//! its own.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, Field};

use super::segment::{list_field, list_of, list_row, list_values, unexpected};
use crate::error::{Error, Result};
use crate::store::{FileId, Stamp};

/// The files of an index.
#[derive(Debug)]
pub(super) struct Files {
    paths: StringArray,
    sizes: ScalarBuffer<u64>,
    times: ScalarBuffer<i64>,
    inodes: ScalarBuffer<u64>,
    /// Upper and lower halves of the digests of the footers.
    digests: [ScalarBuffer<u64>; 2],
    /// Numbers of the schemas.
    pub(super) schema_ids: ScalarBuffer<u32>,
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
            size: self.sizes[file],
            modified_ns: self.times[file],
            inode: self.inodes[file],
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
        let [high, low] = &self.digests;
        u128::from(high[file]) << 64 | u128::from(low[file])
    }

    pub(super) fn fields() -> Vec<Field> {
        vec![
            list_of("path", DataType::Utf8),
            list_field::<UInt64Type>("size"),
            list_field::<Int64Type>("modified_ns"),
            list_field::<UInt64Type>("inode"),
            list_field::<UInt64Type>("digest_high"),
            list_field::<UInt64Type>("digest_low"),
            list_field::<UInt32Type>("schema_id"),
        ]
    }

    /// An array for each of the fields.
    pub(super) fn to_arrays(&self) -> Vec<ArrayRef> {
        let [high, low] = &self.digests;
        let numbers = |values: &ScalarBuffer<u64>| -> ArrayRef {
            Arc::new(PrimitiveArray::<UInt64Type>::new(values.clone(), None))
        };
        let times = PrimitiveArray::<Int64Type>::new(self.times.clone(), None);
        let schema_ids = PrimitiveArray::<UInt32Type>::new(self.schema_ids.clone(), None);
        vec![
            Arc::new(self.paths.clone()),
            numbers(&self.sizes),
            Arc::new(times),
            numbers(&self.inodes),
            numbers(high),
            numbers(low),
            Arc::new(schema_ids),
        ]
    }

    pub(super) fn from_batch(batch: &RecordBatch) -> Result<Self> {
        let paths = list_values(batch, "path", 0)?;
        let paths = paths
            .as_string_opt::<i32>()
            .ok_or_else(|| unexpected("path"))?;
        let numbers = |name| list_row::<UInt64Type>(batch, name, 0);
        let files = Self {
            paths: paths.clone(),
            sizes: numbers("size")?,
            times: list_row::<Int64Type>(batch, "modified_ns", 0)?,
            inodes: numbers("inode")?,
            digests: [numbers("digest_high")?, numbers("digest_low")?],
            schema_ids: list_row::<UInt32Type>(batch, "schema_id", 0)?,
        };
        let [high, low] = &files.digests;
        let lengths = [
            files.sizes.len(),
            files.times.len(),
            files.inodes.len(),
            high.len(),
            low.len(),
            files.schema_ids.len(),
        ];
        if lengths.iter().any(|length| *length != files.len()) {
            return Err(unexpected("path"));
        }
        Ok(files)
    }
}

/// Files that are gathered one after the other.
#[derive(Default)]
pub(super) struct FilesBuilder {
    paths: StringBuilder,
    sizes: Vec<u64>,
    times: Vec<i64>,
    inodes: Vec<u64>,
    digests: [Vec<u64>; 2],
    /// Numbers of the schemas.
    pub(super) schema_ids: Vec<u32>,
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
        self.sizes.push(stamp.size);
        self.times.push(stamp.modified_ns);
        self.inodes.push(stamp.inode);
        let [high, low] = &mut self.digests;
        high.push((digest >> 64) as u64);
        low.push(digest as u64);
        self.schema_ids.push(schema);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Files {
        Files {
            paths: self.paths.finish(),
            sizes: self.sizes.into(),
            times: self.times.into(),
            inodes: self.inodes.into(),
            digests: self.digests.map(ScalarBuffer::from),
            schema_ids: self.schema_ids.into(),
        }
    }
}
