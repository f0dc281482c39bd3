//! Reading the end of a file: mostly one read.

use bytes::Bytes;
use twox_hash::XxHash3_128;

use crate::error::{Error, Kind, Result};
use crate::limits::MAX_FOOTER_BYTES;
use crate::storage::{FileId, Storage};

/// Bytes read at first: footers, and the page indexes before them, mostly fit.
const GUESS: u64 = 64 << 10;
/// Footer length and magic.
const TRAILER: u64 = 8;

/// The end of a file.
#[derive(Debug)]
pub struct Tail {
    /// Bytes from `start` to the end of the file.
    pub bytes: Bytes,
    /// Offset of `bytes` in the file.
    pub start: u64,
    /// Offset of the footer in the file.
    pub footer_start: u64,
}

impl Tail {
    /// The footer's thrift bytes.
    pub fn footer(&self) -> &[u8] {
        let start = (self.footer_start - self.start) as usize;
        &self.bytes[start..self.bytes.len() - TRAILER as usize]
    }

    /// xxh3 of the footer with its length and magic.
    pub fn digest(&self) -> u128 {
        XxHash3_128::oneshot(&self.bytes[(self.footer_start - self.start) as usize..])
    }
}

/// Reads at least the footer of `file`.
pub fn read_tail(store: &dyn Storage, file: &FileId) -> Result<Tail> {
    let size = file.stamp.size;
    if size < 4 + TRAILER {
        return Err(Error::corrupt(format!(
            "{size} bytes are too short for a Parquet file; it is empty or truncated"
        )));
    }
    let start = size.saturating_sub(GUESS);
    let bytes = store.read(file, start..size)?;
    let footer_size = footer_size(&bytes[bytes.len() - TRAILER as usize..], size)?;
    let footer_start = size - TRAILER - footer_size;
    if footer_start >= start {
        return Ok(Tail {
            bytes,
            start,
            footer_start,
        });
    }
    Ok(Tail {
        bytes: store.read(file, footer_start..size)?,
        start: footer_start,
        footer_start,
    })
}

fn footer_size(trailer: &[u8], file_size: u64) -> Result<u64> {
    let (length, magic) = trailer.split_at(4);
    match magic {
        b"PAR1" => {}
        b"PARE" => {
            return Err(Error::new(
                Kind::Encrypted,
                "the file is encrypted, which pagefeed does not read; decrypt it first",
            ));
        }
        magic => {
            return Err(Error::corrupt(format!(
                "not a Parquet file, or a truncated one: it should end with PAR1, found \
                 \"{}\"",
                magic.escape_ascii()
            )));
        }
    }
    let length = length
        .iter()
        .rev()
        .fold(0, |n, byte| n << 8 | u64::from(*byte));
    if length > MAX_FOOTER_BYTES {
        return Err(Error::limit(format!(
            "the footer claims {length} bytes, the limit is {MAX_FOOTER_BYTES}"
        )));
    }
    if length > file_size - TRAILER - 4 {
        return Err(Error::corrupt(format!(
            "the footer claims {length} bytes of a file of {file_size}; it is truncated"
        )));
    }
    Ok(length)
}
