//! Spans of streams: tokens of a document whose records name one payload, and the
//! payloads, which lie in two files beside those of the tokens.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, ListArray, StructArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields};

use crate::engine::ExtraReads;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::pages::flat::FlatField;
use crate::storage::{FileId, Storage, read_near};
use crate::sync::{Mutex, PoisonError};
use crate::tokens::{NumberType, TokenPage};

/// The number of a token that has no payload.
const NO_PAYLOAD: u32 = u32::MAX;
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
    /// Number of payloads.
    pub count: u64,
}

impl ShardPayloads {
    /// Refuses files whose sizes differ from those that were written.
    fn check(&self, num_bytes: u64) -> Result<()> {
        let size = self.count.saturating_add(1).saturating_mul(OFFSET_BYTES);
        for (file, size) in [(&self.offsets, size), (&self.payloads, num_bytes)] {
            if file.stamp.size != size {
                return Err(Error::corrupt(format!(
                    "has {} bytes, its header promises {size}: it is truncated, or of another \
                     shard",
                    file.stamp.size
                ))
                .in_file(&file.path));
            }
        }
        Ok(())
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
    /// the number of a payload, 32 bits, after `offset` bytes. `sizes` are the bytes of
    /// the payloads of each shard.
    pub fn new(
        index: &Index,
        storage: Arc<dyn Storage>,
        offset: usize,
        shards: Vec<ShardPayloads>,
        sizes: &[u64],
    ) -> Result<Self> {
        let number = NumberType::U32;
        if shards.len() != index.num_files() || sizes.len() != shards.len() {
            return Err(Error::invalid("payloads of each shard of a dataset"));
        }
        let mut both = shards.iter().zip(sizes);
        both.try_for_each(|(shard, &size)| shard.check(size))?;
        let count: u64 = shards.iter().map(|shard| shard.count).sum();
        let bytes = sizes.iter().sum::<u64>() + SPAN_BYTES * count;
        Ok(Self {
            row_bytes: bytes / index.num_rows().max(1) + OFFSET_BYTES,
            field: FlatField { number, offset },
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

    /// The spans of the rows of all `pages`, in order, whole pages or parts of some: each
    /// of the shard with that number, and the numbers of its payloads the last that come
    /// with its tokens.
    /// An error is about one of the shards.
    pub fn of_pages(&self, pages: &[(u32, &TokenPage)]) -> Result<ArrayRef, (u32, Error)> {
        let mut found = Found::default();
        for &(shard, page) in pages {
            found.add(shard, page).map_err(|error| (shard, error))?;
        }
        let payloads = self.read(&found.payloads)?;
        let first = pages.first().map_or(0, |page| page.0);
        found.into_array(payloads).map_err(|error| (first, error))
    }

    /// The payloads that are `named`, by shard and number.
    fn read(&self, named: &[(u32, u32)]) -> Result<BinaryArray, (u32, Error)> {
        let mut each = named.to_vec();
        each.sort_unstable();
        each.dedup();
        let (mut bytes, mut positions) = (Vec::new(), Vec::with_capacity(each.len()));
        for own in each.chunk_by(|one, next| one.0 == next.0) {
            self.read_shard(own, &mut bytes, &mut positions)
                .map_err(|error| (own[0].0, error))?;
        }
        let range_of = |one: &(u32, u32)| {
            let range = each
                .binary_search(one)
                .map(|number| positions[number].clone());
            range.unwrap_or(0..0)
        };
        let mut ends = Vec::with_capacity(named.len() + 1);
        ends.push(0);
        let mut end = 0usize;
        for one in named {
            end += range_of(one).len();
            ends.push(i32::try_from(end).map_err(|_| {
                let error = Error::limit(
                    "the payloads of the spans of a batch have 2^31 bytes or more: a smaller \
                     batch_size may help",
                );
                (one.0, error)
            })?);
        }
        // As they were read, mostly.
        let are_in_order = named == each && positions.first().is_none_or(|first| first.start == 0);
        let are_close = positions
            .windows(2)
            .all(|pair| pair[0].end == pair[1].start);
        if !(are_in_order && are_close) {
            let mut ordered = Vec::with_capacity(end);
            for one in named {
                ordered.extend_from_slice(bytes.get(range_of(one)).unwrap_or_default());
            }
            bytes = ordered;
        }
        bytes.truncate(end);
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let first = named.first().map_or(0, |one| one.0);
        BinaryArray::try_new(ends, Buffer::from(bytes), None).map_err(|e| (first, e.into()))
    }

    /// Appends payloads of one shard, with rising numbers, to `bytes`, and their ranges
    /// in it to `found`.
    fn read_shard(
        &self,
        named: &[(u32, u32)],
        bytes: &mut Vec<u8>,
        found: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        let shard = self.shards.get(named[0].0 as usize);
        let shard = shard.ok_or_else(|| Error::invalid("a shard that is not there"))?;
        let last = named.last().map_or(0, |each| u64::from(each.1));
        if last >= shard.count {
            return Err(Error::corrupt(format!(
                "a token names payload {last}, the shard has {}",
                shard.count
            )));
        }
        let (mut table, mut at) = (Vec::new(), Vec::with_capacity(named.len()));
        let begin_of = |each: &(u32, u32)| OFFSET_BYTES * u64::from(each.1);
        let wanted: Vec<Range<u64>> = named
            .iter()
            .map(|each| begin_of(each)..begin_of(each) + 2 * OFFSET_BYTES)
            .collect();
        let index_reads = read_near(&*self.storage, &shard.offsets, &wanted, &mut table, &mut at)?;
        let offset = |at: usize| {
            let own = table.get(at..).and_then(<[u8]>::first_chunk);
            own.map_or(u64::MAX, |&own| u64::from_le_bytes(own))
        };
        let wanted: Vec<Range<u64>> = at
            .iter()
            .map(|each| offset(each.start)..offset(each.start + OFFSET_BYTES as usize))
            .collect();
        let end = wanted.iter().try_fold(0, |end, each| {
            (end <= each.start && each.start <= each.end).then_some(each.end)
        });
        if end.is_none_or(|end| end > shard.payloads.stamp.size) {
            return Err(Error::corrupt(format!(
                "{}: payloads must follow one another in their file, without gaps",
                shard.offsets.path
            )));
        }
        let before = bytes.len();
        let payload_reads = read_near(&*self.storage, &shard.payloads, &wanted, bytes, found)?;
        let own = ExtraReads {
            bytes: (table.len() + bytes.len() - before) as u64,
            index_reads,
            payload_reads,
        };
        let mut all = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        *all = [*all, own].into_iter().sum();
        Ok(())
    }
}

/// Spans of some rows.
#[derive(Default)]
struct Found {
    /// Their first tokens, and ends, in tokens of their rows.
    starts: Vec<i64>,
    ends: Vec<i64>,
    /// Shard and payload number of each span.
    payloads: Vec<(u32, u32)>,
    /// Spans of each row.
    lengths: Vec<usize>,
}

impl Found {
    fn into_array(self, payloads: BinaryArray) -> Result<ArrayRef> {
        let DataType::List(item) = spans_type() else {
            return Err(Error::internal("spans are lists"));
        };
        let DataType::Struct(fields) = item.data_type() else {
            return Err(Error::internal("of structs"));
        };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(self.starts)),
            Arc::new(Int64Array::from(self.ends)),
            Arc::new(payloads),
        ];
        let spans = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Ok(Arc::new(ListArray::try_new(item, offsets, spans, None)?))
    }

    fn add(&mut self, shard: u32, page: &TokenPage) -> Result<()> {
        let lacks = || Error::internal("tokens without the numbers of payloads");
        let numbers = page.aligned.last().ok_or_else(lacks)?;
        let ids = numbers.whole(0..numbers.len());
        // Of a part of a page, some tokens of its first and last row are not there.
        let here = |token: u32| (token.saturating_sub(page.skipped) as usize).min(ids.len());
        for row in page.row_offsets.windows(2) {
            let before = self.starts.len();
            let mut token = i64::from(row[0].max(page.skipped)) - i64::from(row[0]);
            let own = ids.get(here(row[0])..here(row[1])).ok_or_else(lacks)?;
            for same in own.chunk_by(|one, next| one == next) {
                let end = token + same.len() as i64;
                let payload = same[0] as u32;
                if payload != NO_PAYLOAD {
                    self.starts.push(token);
                    self.ends.push(end);
                    self.payloads.push((shard, payload));
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
