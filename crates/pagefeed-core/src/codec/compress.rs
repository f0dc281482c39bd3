//! Compression of pages that are written.

use lz4_flex::block::{compress_into, get_maximum_output_size};
use zstd_safe::{CCtx, compress_bound};

use super::Codec;
use crate::error::{Error, Result};

/// The level of pyarrow. Higher levels take longer than reading the bytes they save.
const ZSTD_LEVEL: i32 = 1;

/// Compresses with contexts that are kept between pages; one per thread.
#[derive(Default)]
pub struct Compressor {
    zstd: Option<CCtx<'static>>,
    snappy: Option<snap::raw::Encoder>,
}

impl Compressor {
    /// Appends `page`, compressed, to `output`.
    pub fn compress(&mut self, codec: Codec, page: &[u8], output: &mut Vec<u8>) -> Result<()> {
        let most = match codec {
            Codec::Uncompressed => page.len(),
            Codec::Snappy => snap::raw::max_compress_len(page.len()),
            Codec::Zstd => compress_bound(page.len()),
            Codec::Lz4Raw => get_maximum_output_size(page.len()),
            _ => return Err(Error::unsupported(format!("{codec:?} is not written"))),
        };
        let begin = output.len();
        output.resize(begin + most, 0);
        let target = &mut output[begin..];
        let written = match codec {
            Codec::Snappy => self
                .snappy
                .get_or_insert_with(snap::raw::Encoder::new)
                .compress(page, target)
                .map_err(|error| error.to_string()),
            Codec::Zstd => self.zstd(page, target),
            Codec::Lz4Raw => compress_into(page, target).map_err(|error| error.to_string()),
            _ => {
                target.copy_from_slice(page);
                Ok(most)
            }
        };
        let failed = |why| Error::internal(format!("{codec:?} failed: {why}"));
        output.truncate(begin + written.map_err(failed)?);
        Ok(())
    }

    fn zstd(&mut self, page: &[u8], target: &mut [u8]) -> Result<usize, String> {
        if self.zstd.is_none() {
            self.zstd = CCtx::try_create();
        }
        let context = self.zstd.as_mut().ok_or("no memory for a context")?;
        context
            .compress(target, page, ZSTD_LEVEL)
            .map_err(|code| zstd_safe::get_error_name(code).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decompressor;
    use super::*;

    #[test]
    fn pages_come_back_as_they_were() {
        let page: Vec<u8> = (0..100_000_u32)
            .flat_map(|n| (n % 777).to_le_bytes())
            .collect();
        let mut compressor = Compressor::default();
        for codec in [
            Codec::Uncompressed,
            Codec::Snappy,
            Codec::Zstd,
            Codec::Lz4Raw,
        ] {
            for page in [&page[..], &page[..1], &[]] {
                let mut stored = vec![7];
                compressor.compress(codec, page, &mut stored).unwrap();
                let mut decompressed = vec![0; page.len()];
                Decompressor::default()
                    .decompress(codec, &stored[1..], &mut decompressed)
                    .unwrap();
                assert_eq!(decompressed, page, "{codec:?}");
            }
        }
        assert!(
            compressor
                .compress(Codec::Brotli, &page, &mut vec![])
                .is_err()
        );
    }
}
