//! Spans of streams: tokens of a document whose records name one payload, and the
//! payloads, which lie in two files of the shard. Each token names a payload, by numbers
//! that rise in a shard; tokens without a span name a payload of no bytes.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, ListArray, StructArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use bytes::Bytes;

use crate::engine::ExtraReads;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::pages::flat::FlatField;
use crate::storage::{FileId, Storage};
use crate::sync::{Mutex, PoisonError};
use crate::tokens::TokenPage;

/// Bytes of an entry in the file of offsets.
const OFFSET_BYTES: u64 = 8;
/// Bytes that a span takes in a table, its payload apart.
const SPAN_BYTES: u64 = 20;

/// Files with the payloads of a shard.
#[derive(Clone, Debug)]
pub struct ShardPayloads {
    /// File with the offset of each payload, and the end of the last one.
    pub offsets: FileId,
    /// The payloads.
    pub payloads: FileId,
}

impl ShardPayloads {
    /// Number of payloads.
    fn count(&self) -> u64 {
        (self.offsets.stamp.size / OFFSET_BYTES).saturating_sub(1)
    }
}

/// The spans of a dataset of streams.
pub struct StreamSpans {
    shards: Vec<ShardPayloads>,
    storage: Arc<dyn Storage>,
    field: FlatField,
    row_bytes: u64,
    reads: Mutex<ExtraReads>,
}

/// Returns the Arrow type of a column of spans.
pub fn spans_type() -> DataType {
    let bound = |name| Field::new(name, DataType::Int64, true);
    let fields = vec![
        bound("start"),
        bound("end"),
        Field::new("payload", DataType::Binary, true),
    ];
    let item = Field::new("item", DataType::Struct(Fields::from(fields)), true);
    DataType::List(Arc::new(item))
}

impl StreamSpans {
    /// Returns the spans of an index of streams, with one shard a file. Records have
    /// the number of a payload in `field`.
    pub fn new(
        index: &Index,
        storage: Arc<dyn Storage>,
        field: FlatField,
        shards: Vec<ShardPayloads>,
    ) -> Result<Self> {
        if shards.len() != index.num_files() {
            return Err(Error::invalid(
                "give the payloads of each shard of the dataset",
            ));
        }
        let bytes = |shard: &ShardPayloads| shard.payloads.stamp.size + SPAN_BYTES * shard.count();
        let bytes: u64 = shards.iter().map(bytes).sum();
        Ok(Self {
            row_bytes: bytes / index.num_rows().max(1) + OFFSET_BYTES,
            field,
            shards,
            storage,
            reads: Mutex::default(),
        })
    }

    /// Returns the field of a record with the number of its payload.
    pub fn field(&self) -> FlatField {
        self.field
    }

    /// Bytes that the spans of a row take in memory, about.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Returns the reads of payloads so far.
    pub fn extra_reads(&self) -> ExtraReads {
        *self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the spans of the rows of `pages`, in order. Each page, whole or a part, has the
    /// number of its shard; the last numbers that come with its tokens name payloads. An
    /// error names one of the shards.
    pub fn of_pages(&self, pages: &[(u32, &TokenPage)]) -> Result<ArrayRef, (u32, Error)> {
        let ids = pages
            .iter()
            .map(|&(shard, page)| ids_of(page).map_err(|error| (shard, error)));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let (mut found, mut from) = (Found::default(), 0);
        while from < pages.len() {
            let shard = pages[from].0;
            // Neighbours in the file are read together.
            let next = (from + 1..pages.len())
                .find(|&next| pages[next].0 != shard || !follow(&ids[next - 1], &ids[next]));
            let group = from..next.unwrap_or(pages.len());
            self.add(
                shard,
                &pages[group.clone()],
                &ids[group.clone()],
                &mut found,
            )
            .map_err(|error| (shard, error))?;
            from = group.end;
        }
        let first = pages.first().map_or(0, |page| page.0);
        found.into_array().map_err(|error| (first, error))
    }

    /// Adds the spans of the rows of pages whose payloads, by the numbers `ids`, lie one
    /// after the other: one read of the index, one of payloads.
    fn add(
        &self,
        shard: u32,
        pages: &[(u32, &TokenPage)],
        ids: &[Vec<i64>],
        found: &mut Found,
    ) -> Result<()> {
        let shard = self.shards.get(shard as usize);
        let shard = shard
            .ok_or_else(|| Error::invalid("spans name a shard that the dataset does not have"))?;
        let ends = ids.first().zip(ids.last());
        let Some((&first, &last)) = ends.and_then(|(a, b)| a.first().zip(b.last())) else {
            return pages
                .iter()
                .try_for_each(|(_, page)| found.add(page, &[], |_| &[]));
        };
        if last as u64 >= shard.count() {
            return Err(Error::corrupt(format!(
                "a token names payload {last}, the shard has {}",
                shard.count()
            )));
        }
        let wanted = OFFSET_BYTES * first as u64..OFFSET_BYTES * (last as u64 + 2);
        let table = self.storage.read(&shard.offsets, wanted)?;
        let (entries, _) = table.as_chunks();
        let ends: Vec<u64> = entries
            .iter()
            .map(|&entry| u64::from_le_bytes(entry))
            .collect();
        let (begin, end) = (ends[0], ends[ends.len() - 1]);
        if !ends.is_sorted() || end > shard.payloads.stamp.size {
            return Err(Error::corrupt(format!(
                "{}: payloads must follow one another in their file, without gaps; {} has {} \
                 bytes: it is truncated, or of another shard",
                shard.offsets.path, shard.payloads.path, shard.payloads.stamp.size
            )));
        }
        let bytes = match begin < end {
            true => self.storage.read(&shard.payloads, begin..end)?,
            false => Bytes::new(),
        };
        let own = ExtraReads {
            bytes: (table.len() + bytes.len()) as u64,
            index_reads: 1,
            payload_reads: u64::from(begin < end),
        };
        {
            let mut all = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
            *all = [*all, own].into_iter().sum();
        }
        let payload = |id: i64| {
            let at = (id - first) as usize;
            &bytes[(ends[at] - begin) as usize..(ends[at + 1] - begin) as usize]
        };
        let mut both = pages.iter().zip(ids);
        both.try_for_each(|((_, page), ids)| found.add(page, ids, payload))
    }
}

/// Returns the numbers of the payloads that the tokens of a page name.
fn ids_of(page: &TokenPage) -> Result<Vec<i64>> {
    let numbers = page.aligned.last().ok_or_else(without_numbers)?;
    let ids = numbers.whole(0..numbers.len());
    let are_numbered = ids.is_sorted_by(|one, next| (0..=1).contains(&(next - one)));
    if ids.first().is_some_and(|&first| first < 0) || !are_numbered {
        return Err(Error::corrupt(
            "the payloads that tokens name must be numbered one by one",
        ));
    }
    Ok(ids)
}

/// Whether payloads follow others in their file.
fn follow(before: &[i64], ids: &[i64]) -> bool {
    let both = before.last().zip(ids.first());
    both.is_some_and(|(last, first)| (0..=1).contains(&(first - last)))
}

fn without_numbers() -> Error {
    Error::internal("tokens lack the numbers of their payloads")
}

/// Spans of some rows.
#[derive(Default)]
struct Found {
    /// Their first tokens, and ends, in tokens of their rows.
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// Their payloads, joined, and the bytes of each.
    payloads: Vec<u8>,
    sizes: Vec<usize>,
    /// Spans of each row.
    lengths: Vec<usize>,
}

impl Found {
    fn into_array(self) -> Result<ArrayRef> {
        let DataType::List(item) = spans_type() else {
            return Err(Error::internal("spans are lists"));
        };
        let DataType::Struct(fields) = item.data_type() else {
            return Err(Error::internal("of structs"));
        };
        if self.payloads.len() > i32::MAX as usize {
            return Err(Error::limit(
                "the payloads of the spans of a batch have 2^31 bytes or more: a smaller \
                 batch_size may help",
            ));
        }
        let ends = OffsetBuffer::from_lengths(self.sizes);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(self.starts)),
            Arc::new(Int64Array::from(self.ends)),
            Arc::new(BinaryArray::try_new(
                ends,
                Buffer::from(self.payloads),
                None,
            )?),
        ];
        let spans = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Ok(Arc::new(ListArray::try_new(item, offsets, spans, None)?))
    }

    /// Adds the rows of a page whose tokens name the payloads `ids`.
    fn add<'a>(
        &mut self,
        page: &TokenPage,
        ids: &[i64],
        payload: impl Fn(i64) -> &'a [u8],
    ) -> Result<()> {
        // In a part of a page, some tokens of its first and last row are not there.
        let here = |token: u32| (token.saturating_sub(page.skipped) as usize).min(ids.len());
        for row in page.row_offsets.windows(2) {
            let before = self.starts.len();
            let mut token = i64::from(row[0].max(page.skipped)) - i64::from(row[0]);
            let own = ids.get(here(row[0])..here(row[1]));
            for run in own
                .ok_or_else(without_numbers)?
                .chunk_by(|one, next| one == next)
            {
                let end = token + run.len() as i64;
                let bytes = payload(run[0]);
                if !bytes.is_empty() {
                    self.starts.push(token);
                    self.ends.push(end);
                    self.payloads.extend_from_slice(bytes);
                    self.sizes.push(bytes.len());
                }
                token = end;
            }
            self.lengths.push(self.starts.len() - before);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
