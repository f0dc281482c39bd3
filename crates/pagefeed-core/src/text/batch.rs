//! Encodes many texts at once, on several threads.

use crate::error::{Error, Kind, Result};
use crate::parallel::on_threads;
use crate::simd::vectorized;
use crate::text::Encode;

/// With fewer bytes per thread, starting a thread takes longer than it saves.
const BYTES_PER_THREAD: usize = 128 << 10;
/// A thread takes texts of about this many bytes at a time.
const BYTES_AT_ONCE: usize = 64 << 10;

/// The ids of several texts, one after another.
#[derive(Debug, Default)]
pub struct Encoded {
    /// All ids.
    pub ids: Vec<u32>,
    /// Number of ids of each text.
    pub counts: Vec<u32>,
}

impl Encoded {
    /// Returns the largest id; 0 without ids.
    pub fn largest(&self) -> u32 {
        vectorized(&self.ids, &mut [(); 0], |ids, _| {
            ids.iter().copied().fold(0, u32::max)
        })
    }

    fn add(&mut self, more: &Self) {
        self.ids.extend_from_slice(&more.ids);
        self.counts.extend_from_slice(&more.counts);
    }
}

/// Encodes `texts` on at most `num_threads` threads, this one among them.
pub fn encode_batch(encoder: &dyn Encode, texts: &[&str], num_threads: usize) -> Result<Encoded> {
    let mut all = Encoded::default();
    encode_chunks(encoder, texts, num_threads, &mut |encoded| {
        match all.counts.is_empty() {
            true => std::mem::swap(&mut all, encoded),
            false => all.add(encoded),
        }
        Ok(())
    })?;
    Ok(all)
}

/// Called with the ids of the next texts.
pub type TakeEncoded<'a> = dyn FnMut(&mut Encoded) -> Result<()> + 'a;

/// Encodes `texts` and passes the ids to `take` in order: on one thread in chunks that
/// fit a processor's cache, on several threads all at once.
fn encode_chunks(
    encoder: &dyn Encode,
    texts: &[&str],
    num_threads: usize,
    take: &mut TakeEncoded<'_>,
) -> Result<()> {
    let chunks = divide(texts);
    let num_bytes: usize = texts.iter().map(|text| text.len()).sum();
    let num_threads = num_threads.min(num_bytes / BYTES_PER_THREAD);
    if num_threads < 2 {
        let mut some = Encoded::default();
        for chunk in chunks {
            some.ids.clear();
            some.counts.clear();
            encode(encoder, chunk, &mut some)?;
            take(&mut some)?;
        }
        return Ok(());
    }
    let done = on_threads(num_threads, chunks.len(), || {
        |index: usize| {
            let mut some = Encoded::default();
            encode(encoder, chunks[index], &mut some)?;
            Ok(some)
        }
    })?;
    let mut all = Encoded::default();
    all.ids
        .reserve_exact(done.iter().map(|encoded| encoded.ids.len()).sum());
    all.counts.reserve_exact(texts.len());
    done.iter().for_each(|encoded| all.add(encoded));
    take(&mut all)
}

/// Encodes the texts in `bytes`, each from one of `offsets` to the next.
///
/// Texts that are not UTF-8 are left out, and their numbers are returned.
pub fn encode_concatenated(
    encoder: &dyn Encode,
    bytes: &[u8],
    offsets: &[i64],
    num_threads: usize,
    take: &mut TakeEncoded<'_>,
) -> Result<Vec<usize>> {
    let mut wrong = Vec::new();
    let mut texts = Vec::with_capacity(offsets.len().saturating_sub(1));
    for (index, borders) in offsets.windows(2).enumerate() {
        let begin = usize::try_from(borders[0]).map_err(|_| outside(index))?;
        let end = usize::try_from(borders[1]).map_err(|_| outside(index))?;
        let text = bytes.get(begin..end).ok_or_else(|| outside(index))?;
        match simdutf8::basic::from_utf8(text) {
            Ok(text) => texts.push(text),
            Err(_) => wrong.push(index),
        }
    }
    encode_chunks(encoder, &texts, num_threads, take)?;
    Ok(wrong)
}

fn outside(index: usize) -> Error {
    Error::invalid(format!("text {index} lies outside of the bytes given"))
}

fn encode(encoder: &dyn Encode, texts: &[&str], all: &mut Encoded) -> Result<()> {
    for text in texts {
        let before = all.ids.len();
        encoder.encode_into(text, &mut all.ids)?;
        let count = u32::try_from(all.ids.len() - before);
        all.counts.push(count.map_err(|_| too_many())?);
    }
    Ok(())
}

fn too_many() -> Error {
    Error::new(Kind::Limit, "a text has 2**32 tokens or more")
}

/// Divides texts into runs of about equally many bytes.
fn divide<'t, 's>(texts: &'t [&'s str]) -> Vec<&'t [&'s str]> {
    let mut runs = Vec::new();
    let (mut begin, mut num_bytes) = (0, 0);
    for (index, text) in texts.iter().enumerate() {
        num_bytes += text.len();
        if num_bytes >= BYTES_AT_ONCE {
            runs.push(&texts[begin..=index]);
            (begin, num_bytes) = (index + 1, 0);
        }
    }
    if begin < texts.len() {
        runs.push(&texts[begin..]);
    }
    runs
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

    fn concatenated(bytes: &[u8], offsets: &[i64]) -> Result<(Encoded, Vec<usize>)> {
        let mut all = Encoded::default();
        let wrong = encode_concatenated(&Bytes, bytes, offsets, 2, &mut |encoded| {
            all.add(encoded);
            Ok(())
        })?;
        Ok((all, wrong))
    }

    #[test]
    fn concatenated_texts_that_are_no_utf8_are_left_out() {
        let (all, wrong) = concatenated(b"ab\xFFc", &[0, 2, 2, 3, 4]).unwrap();
        assert_eq!(all.ids, [97, 98, 99]);
        assert_eq!(all.counts, [2, 0, 1]);
        assert_eq!(wrong, [2]);
        assert!(concatenated(b"ab", &[]).unwrap().1.is_empty());
    }

    #[test]
    fn concatenated_texts_outside_are_refused() {
        for offsets in [[0, 5], [-1, 2], [3, 2]] {
            assert!(concatenated(b"abcd", &offsets).is_err());
        }
    }

    #[test]
    fn ids_are_the_same_on_any_number_of_threads() {
        let texts: Vec<String> = (0..2000).map(|n| "a".repeat(n % 700)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let single = encode_batch(&Bytes, &texts, 1).unwrap();
        let two = encode_batch(&Bytes, &texts, 2).unwrap();
        assert_eq!((&single.ids, &single.counts), (&two.ids, &two.counts));
        assert_eq!(single.counts.len(), texts.len());
    }
}
