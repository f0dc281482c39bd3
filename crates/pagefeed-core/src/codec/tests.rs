use std::io::Write;

use super::*;
use crate::Kind;

const CODECS: [Codec; 7] = [
    Codec::Uncompressed,
    Codec::Snappy,
    Codec::Gzip,
    Codec::Brotli,
    Codec::Lz4Hadoop,
    Codec::Zstd,
    Codec::Lz4Raw,
];

/// Text that compresses, with some noise in it.
fn sample(size: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..size)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if i % 7 == 0 {
                (state >> 24) as u8
            } else {
                b'a' + (i % 5) as u8
            }
        })
        .collect()
}

fn gzip_member(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new()
        .filename("name")
        .comment("comment")
        .extra(vec![1, 2, 3])
        .write(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Length, all literals, at most 60 bytes each: enough to be valid snappy.
fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

/// A block of literals only.
fn lz4_block(bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![(bytes.len().min(15) as u8) << 4];
    if bytes.len() >= 15 {
        let mut rest = bytes.len() - 15;
        while rest >= 255 {
            block.push(255);
            rest -= 255;
        }
        block.push(rest as u8);
    }
    block.extend_from_slice(bytes);
    block
}

fn hadoop(pieces: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in pieces {
        let block = lz4_block(piece);
        out.extend((piece.len() as u32).to_be_bytes());
        out.extend((block.len() as u32).to_be_bytes());
        out.extend(block);
    }
    out
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
    let size = zstd_safe::compress(&mut out[..], bytes, 3).unwrap();
    out.truncate(size);
    out
}

/// Uncompressed meta-blocks: an empty stream for nothing, else one stored block.
fn brotli_stored(bytes: &[u8]) -> Vec<u8> {
    assert!((1..=65536).contains(&bytes.len()));
    // WBITS=16 (one bit 0), ISLAST=0, MNIBBLES=4 (00), MLEN-1 (16 bits), ISUNCOMPRESSED.
    let head = ((bytes.len() as u32 - 1) << 4) | (1 << 20);
    let mut out = head.to_le_bytes()[..3].to_vec();
    out.extend_from_slice(bytes);
    out.push(3); // ISLAST, ISLASTEMPTY
    out
}

fn compress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Codec::Uncompressed => bytes.to_vec(),
        Codec::Snappy => snappy(bytes),
        Codec::Gzip => gzip_member(bytes),
        Codec::Brotli => brotli_stored(bytes),
        Codec::Lz4Hadoop => hadoop(&[bytes]),
        Codec::Zstd => zstd(bytes),
        Codec::Lz4Raw => lz4_block(bytes),
    }
}

fn open(codec: Codec, stored: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut output = vec![0xee; size];
    Decompressor::default().decompress(codec, stored, &mut output)?;
    Ok(output)
}

#[test]
fn every_codec_gives_back_what_was_stored_with_one_context() {
    let mut decompressor = Decompressor::default();
    for size in [1, 2, 100, 65536, 300, 7] {
        for codec in CODECS {
            let bytes = sample(size);
            let mut output = vec![0; size];
            let stored = compress(codec, &bytes);
            decompressor
                .decompress(codec, &stored, &mut output)
                .unwrap();
            assert_eq!(output, bytes, "{codec:?}, {size} bytes");
            assert!(codec.max_decompressed_size(stored.len()) >= size);
        }
    }
}

#[test]
fn another_size_than_promised_is_an_error() {
    for codec in CODECS {
        let stored = compress(codec, &sample(1000));
        for size in [0, 1, 999, 1001, 5000] {
            let error = open(codec, &stored, size).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{codec:?}, {size} bytes");
        }
    }
}

#[test]
fn truncated_and_flipped_bytes_never_panic() {
    for codec in CODECS {
        let stored = compress(codec, &sample(300));
        for end in 0..stored.len() {
            assert!(
                open(codec, &stored[..end], 300).is_err(),
                "{codec:?}, {end}"
            );
        }
        for position in 0..stored.len() {
            for bit in 0..8 {
                let mut damaged = stored.clone();
                damaged[position] ^= 1 << bit;
                let _ = open(codec, &damaged, 300);
            }
        }
    }
}

#[test]
fn gzip_members_and_zstd_frames_are_joined() {
    let bytes = sample(5000);
    let (head, tail) = bytes.split_at(1234);
    for codec in [Codec::Gzip, Codec::Zstd] {
        let stored = [compress(codec, head), compress(codec, tail)].concat();
        assert_eq!(open(codec, &stored, 5000).unwrap(), bytes);
    }
}

#[test]
fn a_gzip_member_with_a_wrong_checksum_is_refused() {
    let mut stored = gzip_member(&sample(100));
    let crc = stored.len() - 8;
    stored[crc] ^= 1;
    assert!(open(Codec::Gzip, &stored, 100).is_err());
}

#[test]
fn lz4_is_read_in_all_three_wrappings() {
    let bytes = sample(5000);
    let several = hadoop(&[&bytes[..10], &bytes[10..4000], &bytes[4000..]]);
    assert_eq!(open(Codec::Lz4Hadoop, &several, 5000).unwrap(), bytes);
    let block = lz4_block(&bytes);
    assert_eq!(open(Codec::Lz4Hadoop, &block, 5000).unwrap(), bytes);
    // Magic, version 1 with independent blocks, 64 KiB, header checksum, one stored
    // block (high bit), end mark.
    let mut frame = FRAME_HEADER.to_vec();
    frame.extend((5000u32 | 1 << 31).to_le_bytes());
    frame.extend(&bytes);
    frame.extend([0; 4]);
    assert_eq!(open(Codec::Lz4Hadoop, &frame, 5000).unwrap(), bytes);
    assert!(open(Codec::Lz4Hadoop, &frame, 4999).is_err());
}

const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

#[test]
fn nothing_stored_for_nothing_is_fine() {
    for codec in CODECS {
        assert_eq!(open(codec, &[], 0).unwrap(), []);
        assert!(open(codec, &[], 1).is_err());
    }
}

#[test]
fn codes_of_the_format() {
    assert_eq!(Codec::from_thrift(6).unwrap(), Codec::Zstd);
    assert_eq!(Codec::from_thrift(3).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(Codec::from_thrift(8).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(Codec::from_thrift(-1).unwrap_err().kind(), Kind::Corrupt);
}
