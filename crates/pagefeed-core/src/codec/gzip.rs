//! Gzip (RFC 1952), of one or several members.

use std::io::Read;

use flate2::bufread::MultiGzDecoder;

/// Error about a stream that is longer than the output.
pub(super) const MORE: &str = "it holds more bytes than the page header promises";

/// Decompresses all members of `stored`; returns the bytes written.
pub(super) fn decompress(stored: &[u8], output: &mut [u8]) -> Result<usize, String> {
    let mut decoder = MultiGzDecoder::new(stored);
    let written = fill(&mut decoder, output)?;
    check_end(&mut decoder)?;
    Ok(written)
}

/// Decompresses the first bytes; returns how many.
pub(super) fn head(stored: &[u8], output: &mut [u8]) -> Option<usize> {
    fill(&mut MultiGzDecoder::new(stored), output).ok()
}

/// Reads until `output` is full or nothing is left; returns the bytes read.
pub(super) fn fill(decoder: &mut impl Read, output: &mut [u8]) -> Result<usize, String> {
    let mut written = 0;
    while written < output.len() {
        match decoder.read(&mut output[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(written)
}

/// Refuses a stream that continues, or whose end is damaged.
pub(super) fn check_end(decoder: &mut impl Read) -> Result<(), String> {
    match decoder.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(MORE.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
