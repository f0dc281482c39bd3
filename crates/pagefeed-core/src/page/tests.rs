use super::levels::convert_bit_packed;
use super::scratch::KEEP_BYTES;
use super::*;
use crate::decode::tests::{Random, encode_hybrid, header_v1, leaf, list_leaf, pack, prefixed};
use crate::header::DataV2;
use parquet::basic::Encoding;

fn opener() -> PageOpener {
    PageOpener::new(true)
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).unwrap()
}

/// A version 1 page of three levels each and 8 bytes of values.
fn body() -> Vec<u8> {
    let levels = encode_hybrid(&[0, 1, 1], 1, &mut Random(1));
    let definitions = encode_hybrid(&[3, 3, 2], 2, &mut Random(2));
    [prefixed(&levels), prefixed(&definitions), vec![7; 8]].concat()
}

#[test]
fn a_version_1_page_is_split_into_its_parts() {
    let body = body();
    let mut header = header_v1(3, body.len(), Encoding::PLAIN);
    let mut opener = opener();
    let page = opener
        .data_page(&header, &body, Codec::Uncompressed, &list_leaf())
        .unwrap();
    assert_eq!(page.values, [7; 8]);
    assert_eq!(page.values.as_ptr(), body[body.len() - 8..].as_ptr());

    let stored = snappy(&body);
    header.compressed_size = stored.len();
    let page = opener
        .data_page(&header, &stored, Codec::Snappy, &list_leaf())
        .unwrap();
    assert_eq!(page.values, [7; 8]);
    assert_eq!(
        page.repetition.len() + page.definition.len() + 16,
        body.len()
    );
}

#[test]
fn truncated_bodies_are_errors_unless_only_values_are_cut() {
    let body = body();
    for end in 0..body.len() {
        let header = header_v1(3, end, Encoding::PLAIN);
        let result = opener()
            .data_page(&header, &body[..end], Codec::Uncompressed, &list_leaf())
            .map(drop);
        assert_eq!(result.is_ok(), end + 8 >= body.len());
    }
}

#[test]
fn a_wrong_checksum_is_refused_when_asked_for() {
    let body = body();
    let mut header = header_v1(3, body.len(), Encoding::PLAIN);
    header.crc = Some(crc32fast::hash(&body));
    let (codec, leaf) = (Codec::Uncompressed, list_leaf());
    assert!(opener().data_page(&header, &body, codec, &leaf).is_ok());
    let mut damaged = body.clone();
    damaged[body.len() - 1] ^= 1;
    let error = opener()
        .data_page(&header, &damaged, codec, &leaf)
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Checksum);
    let mut lenient = PageOpener::default();
    assert!(lenient.data_page(&header, &damaged, codec, &leaf).is_ok());
}

#[test]
fn bit_packed_levels_become_hybrid_ones() {
    // 3, 0, 2, 1, 3 from the highest bit on: 11 00 10 01 | 11 000000
    let packed = [0b1100_1001, 0b1100_0000];
    let mut converted = Vec::new();
    convert_bit_packed(&packed, 2, 5, &mut converted).unwrap();
    let mut expected = vec![0b11];
    expected.extend(pack(&[3, 0, 2, 1, 3, 0, 0, 0], 2));
    assert_eq!(converted, expected);
}

fn header_v2(sizes: (usize, usize), stored: usize, size: usize, compressed: bool) -> PageHeader {
    let mut header = header_v1(3, stored, Encoding::PLAIN);
    header.uncompressed_size = size;
    header.kind = PageKind::DataV2(DataV2 {
        num_values: 3,
        num_nulls: 0,
        num_rows: 1,
        encoding: Encoding::PLAIN,
        repetition_size: sizes.0,
        definition_size: sizes.1,
        is_compressed: compressed,
    });
    header
}

#[test]
fn version_2_levels_are_not_compressed_and_their_sizes_are_checked() {
    let values = [5u8; 40];
    let stored = [&[1, 2, 3, 4, 5][..], &snappy(&values)].concat();
    let leaf = list_leaf();
    // Old Arrow writers say that they did not compress when they did.
    for compressed in [true, false] {
        let header = header_v2((2, 3), stored.len(), 45, compressed);
        let mut opener = opener();
        let page = opener
            .data_page(&header, &stored, Codec::Snappy, &leaf)
            .unwrap();
        assert_eq!(
            (page.repetition, page.definition),
            (&[1, 2][..], &[3, 4, 5][..])
        );
        assert_eq!(page.values, values);
    }
    let plain = [&[1, 2, 3, 4, 5][..], &values].concat();
    let header = header_v2((2, 3), plain.len(), 45, false);
    let mut opener = opener();
    let page = opener
        .data_page(&header, &plain, Codec::Snappy, &leaf)
        .unwrap();
    assert_eq!(page.values, values);
    for sizes in [(stored.len(), 1), (0, 46), (usize::MAX / 4, 3)] {
        let header = header_v2(sizes, stored.len(), 45, true);
        let error = opener
            .data_page(&header, &stored, Codec::Snappy, &leaf)
            .map(drop);
        assert_eq!(error.unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn an_empty_version_2_area_is_not_decompressed() {
    let header = header_v2((1, 1), 2, 2, true);
    for codec in [Codec::Snappy, Codec::Gzip, Codec::Zstd, Codec::Brotli] {
        let mut opener = opener();
        let page = opener.data_page(&header, &[1, 2], codec, &list_leaf());
        assert!(page.unwrap().values.is_empty());
    }
}

#[test]
fn sizes_that_cannot_be_are_refused_before_memory_is_taken() {
    let mut header = header_v1(3, 10, Encoding::PLAIN);
    header.uncompressed_size = 1 << 30;
    let mut opener = opener();
    for codec in [
        Codec::Snappy,
        Codec::Gzip,
        Codec::Lz4Raw,
        Codec::Uncompressed,
    ] {
        let error = opener
            .data_page(&header, &[0; 10], codec, &list_leaf())
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Limit, "{codec:?}");
    }
    assert_eq!(opener.scratch.memory.len(), 0);
}

#[test]
fn the_scratch_buffer_of_a_giant_is_given_back() {
    let flat = leaf("required int32 x;", 0);
    let mut opener = opener();
    let mut open = |size: usize| {
        let stored = snappy(&vec![0; size]);
        let mut header = header_v1(0, stored.len(), Encoding::PLAIN);
        header.uncompressed_size = size;
        opener
            .data_page(&header, &stored, Codec::Snappy, &flat)
            .unwrap();
        opener.release_large();
        opener.scratch.memory.len()
    };
    assert_eq!(open(KEEP_BYTES), KEEP_BYTES);
    assert_eq!(open(100), KEEP_BYTES);
    assert_eq!(open(KEEP_BYTES + 1), 0);
    assert_eq!(open(100), 100);
}
