//! Which bytes are asked for at once: neighbours together, long ranges in parts.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Bytes between two ranges that are rather read than asked for anew: what a request's
/// latency is worth.
const GAP: u64 = 256 << 10;
/// What one request asks for at most: the size at which object stores give the most.
pub(crate) const MOST_BYTES: u64 = 8 << 20;

/// Requests that cover some ranges, in rising order and without overlap.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requests(pub(crate) Vec<Range<u64>>);

impl Requests {
    /// Covers `ranges`; empty ones need nothing.
    pub(crate) fn covering(ranges: &[Range<u64>]) -> Self {
        let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in sorted {
            match joined.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push(range.clone()),
            }
        }
        Self(joined.into_iter().flat_map(parts).collect())
    }

    /// The bytes of a range, given those of the requests.
    pub(crate) fn bytes(&self, answers: &[Bytes], range: &Range<u64>) -> Bytes {
        let first = self.0.partition_point(|request| request.end <= range.start);
        let mut whole = BytesMut::new();
        for (request, answer) in self.0.iter().zip(answers).skip(first) {
            let from = range.start.max(request.start);
            let to = range.end.min(request.end);
            if from >= to {
                break;
            }
            let part = (from - request.start) as usize..(to - request.start) as usize;
            if part.len() as u64 == range.end - range.start {
                return answer.slice(part);
            }
            whole.reserve((range.end - from) as usize);
            whole.extend_from_slice(&answer[part]);
        }
        whole.freeze()
    }
}

/// A range in parts of about one size, none above the limit.
fn parts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let size = range.end - range.start;
    let count = size.div_ceil(MOST_BYTES);
    let at = move |number: u64| {
        range.start + (u128::from(size) * u128::from(number) / u128::from(count)) as u64
    };
    (0..count).map(move |number| at(number)..at(number + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_long_ranges_divided() {
        let found = Requests::covering(&[1000..2000, 0..500, 5..5, 9 << 20..10 << 20]).0;
        assert_eq!(found, [0..2000, 9 << 20..10 << 20]);
        let found = Requests::covering(std::slice::from_ref(&(100..100 + 3 * MOST_BYTES - 1))).0;
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|part| part.end - part.start <= MOST_BYTES));
        assert_eq!(Requests::covering(&[]).0, []);
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
            let requests = Requests::covering(&ranges);
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
        }
    }
}
