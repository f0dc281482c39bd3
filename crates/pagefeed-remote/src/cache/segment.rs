//! Bytes of one range in a separate file: checked when they are read.

use std::fs::{File, OpenOptions};
use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use twox_hash::XxHash3_64;

const MAGIC: u64 = u64::from_le_bytes(*b"PFPAGES1");
/// Bytes with one checksum, so that a page of a long range can be read alone.
const BLOCK: u64 = 64 << 10;
/// Numbers in a header: magic, object, start, size.
const FIELDS: usize = 4;

/// Header of a cached file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Digest of the object and its version.
    pub(super) object: u64,
    /// Offset in the object.
    pub(super) start: u64,
    pub(super) size: u64,
}

/// Bytes of a file that holds `size` bytes of an object.
pub(super) fn bytes_on_disk(size: u64) -> u64 {
    (FIELDS as u64 + size.div_ceil(BLOCK) + 1) * 8 + size
}

impl Segment {
    pub(super) fn end(&self) -> u64 {
        self.start + self.size
    }

    /// Bytes before those of the object: fields, checksums, and the checksum of the
    /// header.
    fn header_size(&self) -> usize {
        (bytes_on_disk(self.size) - self.size) as usize
    }

    fn fields(&self) -> [u64; FIELDS] {
        [MAGIC, self.object, self.start, self.size]
    }

    /// Writes a new file at `draft`, and names it `path` when it is whole.
    pub(super) fn write(&self, draft: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
        let sums = bytes.chunks(BLOCK as usize).map(XxHash3_64::oneshot);
        let words = self.fields().into_iter().chain(sums);
        let mut header: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        header.extend(XxHash3_64::oneshot(&header).to_le_bytes());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(draft)?;
        file.write_all(&header)?;
        file.write_all(bytes)?;
        drop(file);
        std::fs::rename(draft, path)
    }

    /// Reads the bytes of `range`, which is inside; `None` if the file is damaged.
    pub(super) fn read(&self, path: &Path, range: &Range<u64>) -> Option<Bytes> {
        let mut file = File::open(path).ok()?;
        let mut header = vec![0; self.header_size()];
        file.read_exact(&mut header).ok()?;
        let (words, sum) = header.split_at(header.len() - 8);
        if XxHash3_64::oneshot(words).to_le_bytes() != sum {
            return None;
        }
        let word = |n: usize| {
            let bytes = words.get(n * 8..n * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let fields = self.fields().into_iter().enumerate();
        if fields.into_iter().any(|(n, field)| word(n) != Some(field)) {
            return None;
        }
        let (from, to) = (range.start - self.start, range.end - self.start);
        let (first, last) = (from / BLOCK, to.div_ceil(BLOCK));
        let (begin, end) = (first * BLOCK, (last * BLOCK).min(self.size));
        let mut bytes = vec![0; (end - begin) as usize];
        file.seek(SeekFrom::Start(header.len() as u64 + begin))
            .ok()?;
        file.read_exact(&mut bytes).ok()?;
        let blocks = (first..last).zip(bytes.chunks(BLOCK as usize));
        for (n, block) in blocks {
            if word(FIELDS + n as usize) != Some(XxHash3_64::oneshot(block)) {
                return None;
            }
        }
        let bytes = Bytes::from(bytes);
        Some(bytes.slice((from - begin) as usize..(to - begin) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_anywhere_is_seen() {
        let folder = std::env::temp_dir().join(format!("pagefeed-segment-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (draft, path) = (folder.join("draft"), folder.join("whole"));
        let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let segment = Segment {
            object: 7,
            start: 1000,
            size: bytes.len() as u64,
        };
        segment.write(&draft, &path, &bytes).unwrap();
        for range in [1000..201_000, 1000..1001, 70_000..140_000, 200_999..201_000] {
            let expected = &bytes[(range.start - 1000) as usize..(range.end - 1000) as usize];
            assert_eq!(segment.read(&path, &range).unwrap(), expected);
        }
        let other = Segment {
            object: 8,
            ..segment
        };
        assert!(
            other.read(&path, &(1000..1001)).is_none(),
            "of another version"
        );
        let whole = std::fs::read(&path).unwrap();
        for offset in [0, 9, 17, 40, 100, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[offset] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(segment.read(&path, &(1000..201_000)).is_none(), "{offset}");
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(segment.read(&path, &(1000..201_000)).is_none(), "cut off");
        assert!(
            segment.read(&path, &(1000..1001)).is_some(),
            "what is there"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
