//! Held against the crate `snap`, byte for byte and error for error.

use super::*;
use crate::decode::tests::Random;

/// Bytes around the output that must stay as they are.
const CANARIES: usize = 256;
const CANARY: u8 = 0xa5;

/// Our result for `stored`, decompressed between canaries; checks that they live.
fn ours(stored: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let mut memory = vec![CANARY; size + 2 * CANARIES];
    // Reads after the end are found by tools that know where an allocation ends.
    let stored: Box<[u8]> = stored.into();
    let written = decompress(&stored, &mut memory[CANARIES..CANARIES + size]);
    assert!(memory[..CANARIES].iter().all(|&byte| byte == CANARY));
    assert!(memory[CANARIES + size..].iter().all(|&byte| byte == CANARY));
    assert!(written.as_ref().is_ok_and(|&written| written == size) || written.is_err());
    written.map(|size| memory[CANARIES..CANARIES + size].to_vec())
}

/// Whether both decoders refuse `stored`, or give the same.
fn compare(stored: &[u8]) -> bool {
    let size = snap::raw::decompress_len(stored).unwrap_or(0);
    if size > 1 << 20 {
        return false; // The size is a lie, and nothing else is to be learnt.
    }
    let expected = snap::raw::Decoder::new().decompress_vec(stored).ok();
    let size = match split_size(stored) {
        Some(_) => ours(stored, size).ok(),
        None => None,
    };
    assert_eq!(size, expected, "{stored:?}");
    size.is_some()
}

fn push_size(mut size: usize, stored: &mut Vec<u8>) {
    while size >= 0x80 {
        stored.push(size as u8 | 0x80);
        size >>= 7;
    }
    stored.push(size as u8);
}

/// A stream of random elements of every kind; a few of them wrong if `hostile`.
fn random_elements(random: &mut Random, hostile: bool) -> Vec<u8> {
    let (mut elements, mut size) = (Vec::new(), 0usize);
    for _ in 0..random.below(200) {
        let is_literal = size == 0 || random.below(3) == 0;
        let wrong = hostile && random.below(100) == 0;
        if is_literal {
            let length = 1 + match random.below(10) {
                0 => random.below(3000),
                1 => random.below(100),
                _ => random.below(20),
            } as usize;
            let size_bytes = match length {
                0..=60 => 0,
                61..=256 => 1 + random.below(4) as usize,
                _ => 2 + random.below(3) as usize,
            };
            let tag = if size_bytes == 0 {
                length - 1
            } else {
                59 + size_bytes
            };
            elements.push((tag << 2) as u8);
            elements.extend(&(length as u32 - 1).to_le_bytes()[..size_bytes]);
            let present = if wrong { length / 2 } else { length };
            elements.extend((0..present).map(|_| random.below(256) as u8));
            size += length;
            continue;
        }
        let farthest = if wrong { size + 9 } else { size };
        let near = random.below(2) == 0;
        let distance = match near {
            true => 1 + random.below(farthest.min(80) as u64) as usize,
            false => 1 + random.below(farthest as u64) as usize,
        };
        let distance = if wrong && near { 0 } else { distance };
        let kind = 1 + random.below(3) as usize;
        let length = match kind {
            1 => 4 + random.below(8) as usize,
            _ => 1 + random.below(64) as usize,
        };
        match kind {
            1 if distance < 2048 => {
                elements.push((1 | (length - 4) << 2 | (distance >> 8) << 5) as u8);
                elements.push(distance as u8);
            }
            2 if distance < 65536 => {
                elements.push((2 | (length - 1) << 2) as u8);
                elements.extend((distance as u16).to_le_bytes());
            }
            _ => {
                elements.push((3 | (length - 1) << 2) as u8);
                elements.extend((distance as u32).to_le_bytes());
            }
        }
        size += length;
    }
    let mut stored = Vec::new();
    let wrong = hostile && random.below(10) == 0;
    push_size(size + usize::from(wrong), &mut stored);
    stored.extend(elements);
    stored
}

#[test]
fn random_elements_are_decoded_as_snap_does() {
    let mut random = Random(1);
    for _ in 0..3000 {
        assert!(compare(&random_elements(&mut random, false)));
    }
    let accepted = (0..3000).filter(|_| compare(&random_elements(&mut random, true)));
    assert!((300..2700).contains(&accepted.count()));
}

#[test]
fn damaged_streams_are_refused_or_decoded_as_snap_does() {
    let mut random = Random(2);
    for _ in 0..200 {
        let stored = random_elements(&mut random, false);
        for end in 0..stored.len().min(200) {
            compare(&stored[..end]);
        }
        for _ in 0..50 {
            let mut damaged = stored.clone();
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.below(256) as u8;
            compare(&damaged);
        }
        let noise: Vec<u8> = (0..300).map(|_| random.below(256) as u8).collect();
        compare(&[&[0xff, 0x07], &noise[..]].concat());
    }
}

#[test]
fn what_snap_compresses_is_given_back() {
    let mut random = Random(3);
    for size in (0..400).chain([5000, 65536, 65537, 300_000]) {
        // Words of one alphabet, of bytes, and runs of the same byte.
        for alphabet in [1, 4, 26, 256] {
            let mut bytes = Vec::with_capacity(size + 100);
            while bytes.len() < size {
                let (byte, count) = (random.below(alphabet) as u8, 1 + random.below(30));
                match random.below(4) {
                    0 => bytes.extend((0..count).map(|_| byte)),
                    1 if bytes.len() > 100 => {
                        let from = random.below(bytes.len() as u64 - 40) as usize;
                        bytes.extend_from_within(from..from + count as usize);
                    }
                    _ => bytes.extend((0..count).map(|_| random.below(alphabet) as u8)),
                }
            }
            bytes.truncate(size);
            let stored = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
            assert!(ours(&stored, size).unwrap() == bytes, "{size} bytes");
        }
    }
}

#[test]
fn every_distance_and_length_repeats_as_defined() {
    for distance in 1..=70usize {
        for length in 1..=64usize {
            let literal: Vec<u8> = (0..distance as u8).collect();
            let mut expected = literal.clone();
            let mut elements = vec![60 << 2, distance as u8 - 1];
            elements.extend(&literal);
            for _ in 0..3 {
                elements.push((2 | (length - 1) << 2) as u8);
                elements.extend((distance as u16).to_le_bytes());
                for _ in 0..length {
                    expected.push(expected[expected.len() - distance]);
                }
            }
            // Far from the end, and so in the fast loop.
            let tail: Vec<u8> = (0..200).collect();
            elements.extend([60 << 2, tail.len() as u8 - 1]);
            elements.extend(&tail);
            expected.extend(&tail);
            let mut stored = Vec::new();
            push_size(expected.len(), &mut stored);
            stored.extend(elements);
            assert_eq!(ours(&stored, expected.len()).unwrap(), expected);
        }
    }
}

#[test]
fn another_size_is_told_and_nothing_written() {
    let stored = snap::raw::Encoder::new().compress_vec(&[7; 100]).unwrap();
    for size in [0, 99, 101] {
        let mut output = vec![CANARY; size];
        assert_eq!(decompress(&stored, &mut output), Ok(100));
        assert_eq!(output, vec![CANARY; size]);
    }
    for size in [
        &[0x80; 4][..],
        &[0xff; 5],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0],
    ] {
        assert!(decompress(size, &mut []).is_err());
    }
}
