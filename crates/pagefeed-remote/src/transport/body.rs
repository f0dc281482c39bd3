//! The bytes of an answer, concatenated in recycled memory.

use std::ops::Range;

use bytes::Bytes;
use pagefeed_core::buffers::RecycledBuffer;
use pagefeed_core::error::Result;

use crate::transport::failure::Failure;
use crate::transport::pulse::arrived;

/// The bytes of a range that have arrived.
pub(crate) struct Body {
    wanted: usize,
    /// Bytes that arrived, including those beyond the range.
    come: usize,
    received: Received,
}

enum Received {
    Nothing,
    /// One chunk, which may be the whole range.
    Chunk(Bytes),
    Chunks(Result<RecycledBuffer>),
}

impl Body {
    pub(crate) fn of(range: &Range<u64>) -> Self {
        Self {
            wanted: usize::try_from(range.end - range.start).unwrap_or(usize::MAX),
            come: 0,
            received: Received::Nothing,
        }
    }

    /// Adds the next bytes.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        let at = self.come;
        self.come = self.come.saturating_add(chunk.len());
        arrived(chunk.len() as u64, self.come as u64);
        match &mut self.received {
            Received::Nothing => self.received = Received::Chunk(chunk),
            Received::Chunk(first) => {
                let mut all = RecycledBuffer::new(self.wanted);
                put(&mut all, 0, first);
                put(&mut all, at, &chunk);
                self.received = Received::Chunks(all);
            }
            Received::Chunks(all) => put(all, at, &chunk),
        }
    }

    /// Returns the whole range. If it has fewer or more bytes, another attempt may
    /// succeed.
    pub(crate) fn whole(self) -> Result<Bytes, Failure> {
        if self.come != self.wanted {
            return Err(Failure::again(format!(
                "{} bytes came of the {} asked for",
                self.come, self.wanted
            )));
        }
        match self.received {
            Received::Nothing => Ok(Bytes::new()),
            Received::Chunk(chunk) => Ok(chunk),
            Received::Chunks(all) => Ok(Bytes::from_owner(all.map_err(Failure::Final)?)),
        }
    }
}

/// Copies as much of `chunk` as fits.
fn put(into: &mut Result<RecycledBuffer>, at: usize, chunk: &[u8]) {
    if let Ok(into) = into
        && let Some(room) = into.get_mut(at..)
    {
        let size = room.len().min(chunk.len());
        room[..size].copy_from_slice(&chunk[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(wanted: u64, chunks: &[&'static [u8]]) -> Result<Bytes, Failure> {
        let mut body = Body::of(&(5..5 + wanted));
        for chunk in chunks {
            body.push(Bytes::from_static(chunk));
        }
        body.whole()
    }

    #[test]
    fn chunks_become_one() {
        for chunks in [&[&b"abcdef"[..]][..], &[b"a", b"", b"bcd", b"ef"]] {
            assert_eq!(body(6, chunks).unwrap(), &b"abcdef"[..]);
        }
        assert_eq!(body(0, &[]).unwrap(), Bytes::new());
    }

    #[test]
    fn fewer_and_more_are_tried_again() {
        for chunks in [&[][..], &[&b"abcde"[..]], &[b"ab", b"cde"], &[b"abcdefg"]] {
            let failure = body(6, chunks).unwrap_err();
            assert!(matches!(failure, Failure::Again { .. }), "{failure:?}");
        }
        let failure = body(6, &[b"abc", b"defg", b"hi"]).unwrap_err();
        assert!(format!("{failure:?}").contains("9 bytes came of the 6 asked for"));
    }
}
