//! Byte ranges of a request: ranges close together are coalesced, long ones divided.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use pagefeed_core::storage::coalesce;

/// Gaps of up to this many bytes are read along: that is cheaper than the latency of
/// another request.
const GAP: u64 = 256 << 10;

/// Requests that cover some ranges, in rising order and without overlap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requests(pub(crate) Vec<Range<u64>>);

impl Requests {
    /// Covers `ranges` by requests of at most `most` bytes; empty ones need nothing.
    pub(crate) fn covering(ranges: &[Range<u64>], most: u64) -> Self {
        let divided = |range| divided(range, most);
        Self(
            coalesced(ranges, GAP)
                .into_iter()
                .flat_map(divided)
                .collect(),
        )
    }

    /// Adds ranges from the cache and sorts all. Ranges that a request covers anyway are
    /// left out.
    pub(crate) fn with(
        self,
        answers: Vec<Bytes>,
        found: Vec<(Range<u64>, Bytes)>,
    ) -> (Self, Vec<Bytes>) {
        let overlaps = |cached: &Range<u64>| {
            let first = self
                .0
                .partition_point(|request| request.end <= cached.start);
            self.0
                .get(first)
                .is_some_and(|request| request.start < cached.end)
        };
        let mut all: Vec<_> = found
            .into_iter()
            .filter(|(cached, _)| !overlaps(cached))
            .collect();
        all.extend(self.0.iter().cloned().zip(answers));
        all.sort_by_key(|(range, _)| (range.start, range.end));
        let (ranges, bytes) = all.into_iter().unzip();
        (Self(ranges), bytes)
    }

    /// Returns the bytes of ranges, from the answers to the requests.
    pub(crate) fn of_each(&self, answers: &[Bytes], ranges: &[Range<u64>]) -> Vec<Bytes> {
        let of_one = |range| self.bytes(answers, range);
        ranges.iter().map(of_one).collect()
    }

    /// Returns the bytes of a range, from the answers to the requests.
    fn bytes(&self, answers: &[Bytes], range: &Range<u64>) -> Bytes {
        let first = self.0.partition_point(|request| request.end <= range.start);
        let mut whole = BytesMut::new();
        for (request, answer) in self.0.iter().zip(answers).skip(first) {
            let from = range.start.max(request.start);
            let to = range.end.min(request.end);
            if from >= to {
                break;
            }
            let within = (from - request.start) as usize..(to - request.start) as usize;
            if within.len() as u64 == range.end - range.start {
                return answer.slice(within);
            }
            whole.reserve((range.end - from) as usize);
            whole.extend_from_slice(&answer[within]);
        }
        whole.freeze()
    }
}

/// Returns ranges in rising order, coalesced where at most `gap` bytes are between them.
pub(crate) fn coalesced(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    let runs = coalesce(sorted.into_iter().cloned(), gap, u64::MAX);
    runs.map(|(range, _)| range).collect()
}

/// Divides a range into ranges of about one size, none above the limit.
fn divided(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let size = range.end - range.start;
    let count = size.div_ceil(most);
    let at =
        move |n: u64| range.start + (u128::from(size) * u128::from(n) / u128::from(count)) as u64;
    (0..count).map(move |n| at(n)..at(n + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_BYTES: u64 = 8 << 20;

    #[test]
    fn neighbours_are_coalesced_and_long_ranges_divided() {
        let requests =
            Requests::covering(&[1000..2000, 0..500, 5..5, 9 << 20..10 << 20], MOST_BYTES).0;
        assert_eq!(requests, [0..2000, 9 << 20..10 << 20]);
        let requests = Requests::covering(
            std::slice::from_ref(&(100..100 + 3 * MOST_BYTES - 1)),
            MOST_BYTES,
        )
        .0;
        assert_eq!(requests.len(), 3);
        assert!(
            requests
                .iter()
                .all(|request| request.end - request.start <= MOST_BYTES)
        );
        assert_eq!(Requests::covering(&[], MOST_BYTES).0, []);
    }

    #[test]
    fn every_range_gets_its_bytes() {
        let file: Vec<u8> = (0..3 * MOST_BYTES).map(|at| (at % 251) as u8).collect();
        let mut state = 7u64;
        let mut random = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..40 {
            let ranges: Vec<_> = (0..random(5) + 1)
                .map(|_| {
                    let start = random(file.len() as u64);
                    start..(start + random(2 * MOST_BYTES)).min(file.len() as u64)
                })
                .collect();
            let requests = Requests::covering(&ranges, MOST_BYTES);
            let slice = |range: &Range<u64>| &file[range.start as usize..range.end as usize];
            let answers: Vec<_> = requests
                .0
                .iter()
                .map(|r| Bytes::copy_from_slice(slice(r)))
                .collect();
            assert!(
                requests
                    .0
                    .windows(2)
                    .all(|pair| pair[0].end <= pair[1].start)
            );
            for range in &ranges {
                assert!(requests.bytes(&answers, range) == slice(range), "{range:?}");
            }
            // The same where some of it was there before.
            let (mut had, mut missing) = (Vec::new(), Vec::new());
            for range in coalesced(&ranges, 0) {
                let middle = range.start + random(range.end - range.start);
                had.push((range.start..middle, random(3)));
                missing.push(middle..range.end);
            }
            for (range, choice) in &had {
                if *choice == 0 {
                    missing.push(range.clone());
                }
            }
            had.retain(|(range, choice)| *choice > 0 && !range.is_empty());
            let copy = |range: &Range<u64>| Bytes::copy_from_slice(slice(range));
            let found = had
                .into_iter()
                .map(|(range, _)| (range.clone(), copy(&range)));
            let requests = Requests::covering(&missing, MOST_BYTES);
            let answers: Vec<_> = requests.0.iter().map(copy).collect();
            let (all, answers) = requests.with(answers, found.collect());
            for (range, bytes) in ranges.iter().zip(all.of_each(&answers, &ranges)) {
                assert!(bytes == slice(range), "{range:?}");
            }
        }
    }
}
