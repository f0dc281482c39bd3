//! Byte ranges read together.

use std::ops::Range;

use bytes::Bytes;

use super::offset_index::wrong;
use crate::error::{Error, Result};
use crate::limits::MAX_PAGE_INDEX_BYTES;
use crate::storage::{FileId, Storage, coalesce};

/// Gaps of up to this many bytes between ranges are read along.
const MAX_GAP: u64 = 64 << 10;
/// Bytes above which ranges are not coalesced any more.
const MAX_COALESCED: u64 = 16 << 20;

/// Byte ranges of a file, in memory.
pub struct Regions {
    /// `(offset, bytes)`, sorted.
    regions: Vec<(u64, Bytes)>,
}

impl Regions {
    /// Reads `ranges`, except what is in `known` (bytes from an offset on).
    pub fn read(
        store: &dyn Storage,
        file: &FileId,
        mut ranges: Vec<Range<u64>>,
        known: (u64, Bytes),
    ) -> Result<Self> {
        ranges.sort_by_key(|range| (range.start, range.end));
        check(&ranges)?;
        ranges.retain(|range| range.start < known.0);
        let coalesced = coalesce(ranges.into_iter(), MAX_GAP, MAX_COALESCED);
        let region = |(range, _): (Range<u64>, _)| Ok((range.start, store.read(file, range)?));
        let mut regions: Vec<(u64, Bytes)> = coalesced.map(region).collect::<Result<_>>()?;
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

/// Refuses page indexes that overlap, as in files that claim many, and those that are
/// too large together.
fn check(sorted: &[Range<u64>]) -> Result<()> {
    let mut size = 0u64;
    for (number, range) in sorted.iter().enumerate() {
        if let Some(next) = sorted.get(number + 1)
            && next.start < range.end
        {
            return Err(wrong(format!(
                "its parts at {}..{} and {}..{} lie over each other",
                range.start, range.end, next.start, next.end
            )));
        }
        size = size.saturating_add(range.end - range.start);
    }
    if size > MAX_PAGE_INDEX_BYTES {
        return Err(Error::limit(format!(
            "the column's page indexes take {size} bytes, the limit is \
             {MAX_PAGE_INDEX_BYTES}; build with page_index=False to read the page headers \
             instead"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn ranges_must_lie_apart_and_be_small_together() {
        assert!(check(&[]).is_ok());
        assert!(check(&[4..10, 10..12, 20..30]).is_ok());
        for ranges in [[4..10, 4..10], [4..10, 9..12], [4..10, 5..6]] {
            assert_eq!(check(&ranges).unwrap_err().kind(), Kind::Corrupt);
        }
        let half = MAX_PAGE_INDEX_BYTES / 2;
        assert!(check(&[0..half, half..2 * half]).is_ok());
        let error = check(&[0..half, half..2 * half + 1]).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
    }
}
