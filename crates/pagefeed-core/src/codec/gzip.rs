//! Gzip members (RFC 1952) around one raw inflate context that is kept.

use flate2::{Decompress, FlushDecompress, Status};

/// Error about a stream that is longer than the output.
pub(super) const MORE: &str = "it holds more bytes than the page header promises";

const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

pub(super) struct Inflater(Decompress);

impl Default for Inflater {
    fn default() -> Self {
        Self(Decompress::new(false))
    }
}

impl Inflater {
    /// Decompresses all members of `stored`; returns the bytes written.
    pub(super) fn decompress(
        &mut self,
        mut stored: &[u8],
        output: &mut [u8],
    ) -> Result<usize, String> {
        let mut written = 0;
        while !stored.is_empty() {
            stored = skip_header(stored).ok_or("a gzip header was expected")?;
            let (read, inflated) = self.inflate(stored, &mut output[written..])?;
            let member = &output[written..written + inflated];
            stored = check_trailer(&stored[read..], member)?;
            written += inflated;
        }
        Ok(written)
    }

    /// Inflates the begin of the first member; returns the bytes written.
    pub(super) fn head(&mut self, stored: &[u8], output: &mut [u8]) -> Option<usize> {
        let stored = skip_header(stored)?;
        self.0
            .decompress(stored, output, FlushDecompress::None)
            .ok()?;
        usize::try_from(self.0.total_out()).ok()
    }

    /// Inflates one raw stream; returns the bytes read and written.
    fn inflate(&mut self, stored: &[u8], output: &mut [u8]) -> Result<(usize, usize), String> {
        self.0.reset(false);
        let status = self
            .0
            .decompress(stored, output, FlushDecompress::Finish)
            .map_err(|error| error.to_string())?;
        let (mut read, written) = (self.0.total_in() as usize, self.0.total_out() as usize);
        if status == Status::StreamEnd {
            return Ok((read, written));
        }
        // The end mark may still be unread when the output is full; any byte that
        // comes out instead is one too many.
        let status = self
            .0
            .decompress(&stored[read..], &mut [0], FlushDecompress::Finish)
            .map_err(|error| error.to_string())?;
        read = self.0.total_in() as usize;
        match status {
            _ if self.0.total_out() as usize > written => Err(MORE.to_string()),
            Status::StreamEnd => Ok((read, written)),
            _ => Err("the stream ends early".to_string()),
        }
    }
}

/// Returns the bytes after a member's header; `None` if it is not a header.
fn skip_header(bytes: &[u8]) -> Option<&[u8]> {
    let (fixed, mut rest) = bytes.split_at_checked(10)?;
    if fixed[..3] != [0x1f, 0x8b, 8] {
        return None;
    }
    let flags = fixed[3];
    if flags & FLAG_EXTRA != 0 {
        let (size, tail) = rest.split_first_chunk::<2>()?;
        rest = tail.get(usize::from(u16::from_le_bytes(*size))..)?;
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|&byte| byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

/// Checks the checksum and size after a member; returns the bytes after them.
fn check_trailer<'a>(bytes: &'a [u8], member: &[u8]) -> Result<&'a [u8], String> {
    let (trailer, rest) = bytes
        .split_first_chunk::<8>()
        .ok_or("the stream ends early")?;
    let mut expected = [0; 8];
    expected[..4].copy_from_slice(&crc32fast::hash(member).to_le_bytes());
    expected[4..].copy_from_slice(&(member.len() as u32).to_le_bytes());
    if *trailer != expected {
        return Err("its own checksum does not match".to_string());
    }
    Ok(rest)
}
