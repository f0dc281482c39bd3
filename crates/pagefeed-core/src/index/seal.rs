//! The checksum of a segment: over all of its bytes but its own, which lie in the
//! metadata of the Arrow file's footer.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::read_footer_length;
use arrow_ipc::{Footer, root_as_footer};

use crate::error::{Error, Result};

/// Key of the checksum.
pub const CHECKSUM: &str = "pagefeed.checksum";
/// Placeholder of the checksum, a CRC-32 as hexadecimal digits.
pub const UNSEALED: &str = "00000000";
/// Bytes of a file, at most, that is copied: if it is cut, no process that maps it ends.
pub const COPIED_BYTES: u64 = 1 << 20;
/// Bytes of the footer's length and the magic at the end of an Arrow file.
const TRAILER: usize = 10;

/// Replaces [`UNSEALED`] in a file by its checksum.
pub fn seal(file: &File) -> Result<()> {
    let bytes = map(file)?;
    let range = checksum_range(&bytes)?;
    let checksum = checksum(&bytes, &range);
    Ok(file.write_all_at(checksum.as_bytes(), range.start as u64)?)
}

/// Refuses bytes that changed since they were sealed.
pub fn verify(bytes: &[u8]) -> Result<()> {
    let range = checksum_range(bytes)?;
    let expected = checksum(bytes, &range);
    if bytes[range.clone()] == *expected.as_bytes() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "its checksum is {}, that of its bytes {expected}",
        String::from_utf8_lossy(&bytes[range])
    )))
}

/// The footer of an Arrow file, and where it begins.
pub fn footer(bytes: &[u8]) -> Result<(usize, Footer<'_>)> {
    let (before, trailer) = bytes
        .split_last_chunk::<TRAILER>()
        .ok_or_else(|| Error::corrupt(format!("a file of {} bytes", bytes.len())))?;
    let start = before
        .len()
        .checked_sub(read_footer_length(*trailer)?)
        .ok_or_else(truncated)?;
    let footer =
        root_as_footer(&before[start..]).map_err(|error| Error::corrupt(error.to_string()))?;
    Ok((start, footer))
}

/// The bytes of a file, copied if they are few.
pub fn map(file: &File) -> Result<Buffer> {
    let size = file.metadata()?.len();
    if size <= COPIED_BYTES {
        let mut copy = MutableBuffer::from_len_zeroed(size as usize);
        file.read_exact_at(copy.as_slice_mut(), 0)?;
        return Ok(copy.into());
    }
    // SAFETY: segments are written elsewhere, renamed into place and never changed.
    let map = unsafe { memmap2::Mmap::map(file)? };
    let (start, length) = (NonNull::from(&map[..]).cast(), map.len());
    // SAFETY: the mapping stays where it is for as long as the buffer owns it.
    Ok(unsafe { Buffer::from_custom_allocation(start, length, Arc::new(map)) })
}

/// The file ends too early.
pub fn truncated() -> Error {
    Error::corrupt("the file is truncated")
}

fn checksum_range(bytes: &[u8]) -> Result<Range<usize>> {
    let (_, footer) = footer(bytes)?;
    let mut pairs = footer.custom_metadata().into_iter().flatten();
    let found = pairs.find(|pair| pair.key() == Some(CHECKSUM));
    let value = found.and_then(|pair| pair.value());
    let value = value.filter(|value| value.len() == UNSEALED.len());
    let value = value.ok_or_else(|| Error::corrupt("it has no checksum"))?;
    // The value is a piece of these bytes.
    let start = value.as_ptr() as usize - bytes.as_ptr() as usize;
    Ok(start..start + value.len())
}

fn checksum(bytes: &[u8], range: &Range<usize>) -> String {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..range.start]);
    hasher.update(UNSEALED.as_bytes());
    hasher.update(&bytes[range.end..]);
    format!("{:08x}", hasher.finalize())
}
