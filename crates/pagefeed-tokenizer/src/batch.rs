//! Many texts at once, on some threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use pagefeed_core::error::{Error, Kind, Result, catch_panic};
use pagefeed_core::text::Encode;

/// Below so many bytes per thread, starting one takes longer than it saves.
const BYTES_PER_THREAD: usize = 256 << 10;
/// A thread takes texts of about so many bytes at a time.
const BYTES_AT_ONCE: usize = 64 << 10;

/// The ids of several texts, one after the other.
#[derive(Debug, Default)]
pub struct Encoded {
    /// All ids.
    pub ids: Vec<u32>,
    /// Number of ids of each text.
    pub counts: Vec<u32>,
}

/// Encodes `texts` on at most `num_threads` threads, this one among them.
pub fn encode_batch(encoder: &dyn Encode, texts: &[&str], num_threads: usize) -> Result<Encoded> {
    let parts = divide(texts);
    let num_bytes: usize = texts.iter().map(|text| text.len()).sum();
    let num_threads = num_threads
        .min(num_bytes / BYTES_PER_THREAD)
        .min(parts.len());
    if num_threads < 2 {
        return encode(encoder, texts);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(number) else {
                return Ok(done);
            };
            done.push((number, catch_panic(|| encode(encoder, part))?));
        }
    };
    let mut done: Vec<(usize, Encoded)> = std::thread::scope(|scope| {
        // Where no thread can be started, the others do the work.
        let threads: Vec<_> = (1..num_threads)
            .filter_map(|_| Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut done: Result<Vec<_>> = work();
        for thread in threads {
            let died = |_| Err(Error::new(Kind::Internal, "a thread died"));
            let theirs = thread.join().unwrap_or_else(died);
            done = done.and_then(|mut all| {
                all.extend(theirs?);
                Ok(all)
            });
        }
        done
    })?;
    done.sort_unstable_by_key(|(number, _)| *number);
    let mut all = Encoded::default();
    all.ids
        .reserve_exact(done.iter().map(|(_, part)| part.ids.len()).sum());
    all.counts.reserve_exact(texts.len());
    for (_, part) in done {
        all.ids.extend_from_slice(&part.ids);
        all.counts.extend_from_slice(&part.counts);
    }
    Ok(all)
}

/// Encodes texts that lie one after the other in `bytes`, each from an offset to the next.
///
/// Those that are no UTF-8 come to nothing; their numbers are returned beside the ids.
pub fn encode_joined(
    encoder: &dyn Encode,
    bytes: &[u8],
    offsets: &[i64],
    num_threads: usize,
) -> Result<(Encoded, Vec<usize>)> {
    let mut wrong = Vec::new();
    let mut texts = Vec::with_capacity(offsets.len().saturating_sub(1));
    for (number, borders) in offsets.windows(2).enumerate() {
        let begin = usize::try_from(borders[0]).map_err(|_| outside(number))?;
        let end = usize::try_from(borders[1]).map_err(|_| outside(number))?;
        let text = bytes.get(begin..end).ok_or_else(|| outside(number))?;
        texts.push(simdutf8::basic::from_utf8(text).unwrap_or_else(|_| {
            wrong.push(number);
            ""
        }));
    }
    Ok((encode_batch(encoder, &texts, num_threads)?, wrong))
}

fn outside(number: usize) -> Error {
    Error::invalid(format!("text {number} lies outside of the bytes given"))
}

fn encode(encoder: &dyn Encode, texts: &[&str]) -> Result<Encoded> {
    let mut all = Encoded::default();
    all.counts.reserve_exact(texts.len());
    for text in texts {
        let before = all.ids.len();
        encoder.encode_into(text, &mut all.ids)?;
        let count = u32::try_from(all.ids.len() - before);
        all.counts.push(count.map_err(|_| too_many())?);
    }
    Ok(all)
}

fn too_many() -> Error {
    Error::new(Kind::Limit, "a text has 2**32 tokens or more")
}

/// Runs of texts with about as many bytes each.
fn divide<'t, 's>(texts: &'t [&'s str]) -> Vec<&'t [&'s str]> {
    let mut parts = Vec::new();
    let (mut begin, mut num_bytes) = (0, 0);
    for (number, text) in texts.iter().enumerate() {
        num_bytes += text.len();
        if num_bytes >= BYTES_AT_ONCE {
            parts.push(&texts[begin..=number]);
            (begin, num_bytes) = (number + 1, 0);
        }
    }
    if begin < texts.len() {
        parts.push(&texts[begin..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes;

    impl Encode for Bytes {
        fn encode_into(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
            ids.extend(text.bytes().map(u32::from));
            Ok(())
        }
    }

    #[test]
    fn joined_texts_that_are_no_utf8_are_named() {
        let bytes = b"ab\xFFc";
        let (all, wrong) = encode_joined(&Bytes, bytes, &[0, 2, 2, 3, 4], 2).unwrap();
        assert_eq!(all.ids, [97, 98, 99]);
        assert_eq!(all.counts, [2, 0, 0, 1]);
        assert_eq!(wrong, [2]);
        assert!(encode_joined(&Bytes, bytes, &[], 1).unwrap().1.is_empty());
    }

    #[test]
    fn joined_texts_outside_are_refused() {
        for offsets in [[0, 5], [-1, 2], [3, 2]] {
            assert!(encode_joined(&Bytes, b"abcd", &offsets, 1).is_err());
        }
    }
}
