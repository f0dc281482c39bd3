//! Byte ranges read together.

use std::ops::Range;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::limits::MAX_FOOTER_BYTES;
use crate::store::{FileId, Store};

/// Bytes between two ranges that are read along rather than in a read of their own.
const MAX_GAP: u64 = 64 << 10;
/// Bytes above which ranges are not joined any more.
const MAX_JOINED: u64 = 16 << 20;

/// Some regions of a file, in memory.
pub struct Regions {
    /// `(offset, bytes)`, sorted.
    regions: Vec<(u64, Bytes)>,
}

impl Regions {
    /// Reads `ranges`, as far as `known` (bytes from an offset on) does not hold them.
    pub fn read(
        store: &Store,
        file: &FileId,
        mut ranges: Vec<Range<u64>>,
        known: (u64, Bytes),
    ) -> Result<Self> {
        if let Some(range) = ranges.iter().find(|r| r.end - r.start > MAX_FOOTER_BYTES) {
            return Err(Error::limit(format!(
                "a page index of {} bytes, the limit is {MAX_FOOTER_BYTES}",
                range.end - range.start
            )));
        }
        ranges.retain(|range| range.start < known.0);
        ranges.sort_by_key(|range| (range.start, range.end));
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last)
                    if range.start <= last.end + MAX_GAP
                        && range.end.max(last.end) - last.start <= MAX_JOINED =>
                {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range),
            }
        }
        let mut regions = Vec::with_capacity(joined.len() + 1);
        for range in joined {
            regions.push((range.start, store.read(file, range)?));
        }
        regions.push(known);
        Ok(Self { regions })
    }

    /// The bytes of a range that was asked for.
    pub fn get(&self, range: &Range<u64>) -> Result<&[u8]> {
        let after = self
            .regions
            .partition_point(|(start, _)| *start <= range.start);
        self.regions[..after]
            .iter()
            .rev()
            .find_map(|(start, bytes)| {
                let from = (range.start - start) as usize;
                bytes.get(from..from + (range.end - range.start) as usize)
            })
            .ok_or_else(|| Error::corrupt("a page index lies outside of what was read"))
    }
}
