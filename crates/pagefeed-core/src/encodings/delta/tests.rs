use super::*;
use crate::Kind;
use crate::decode::tests::{Random, pack};

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(value: i64, out: &mut Vec<u8>) {
    put(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// Encodes lengths in blocks of `miniblocks` parts of `size` differences.
fn encode(lengths: &[u32], miniblocks: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for header_value in [miniblocks * size, miniblocks, lengths.len()] {
        put(header_value as u64, &mut out);
    }
    put_signed(i64::from(lengths.first().copied().unwrap_or(0)), &mut out);
    let pairs = lengths.windows(2);
    let deltas: Vec<i64> = pairs.map(|p| i64::from(p[1]) - i64::from(p[0])).collect();
    for block in deltas.chunks(miniblocks * size) {
        let least = block.iter().copied().min().unwrap();
        put_signed(least, &mut out);
        let parts: Vec<Vec<u32>> = block
            .chunks(size)
            .map(|miniblock| {
                let mut miniblock: Vec<u32> =
                    miniblock.iter().map(|d| (d - least) as u32).collect();
                miniblock.resize(size, 0);
                miniblock
            })
            .collect();
        let width =
            |miniblock: &[u32]| 32 - miniblock.iter().fold(0, |all, v| all | v).leading_zeros();
        out.extend(parts.iter().map(|miniblock| width(miniblock) as u8));
        // Any bytes may follow the last part.
        out.resize(out.len() + miniblocks - parts.len(), 77);
        parts
            .iter()
            .for_each(|miniblock| out.extend(pack(miniblock, width(miniblock))));
    }
    out
}

fn decode(bytes: &[u8]) -> Result<(Vec<u32>, usize)> {
    let mut lengths_read = Vec::new();
    let behind = Delta::new(bytes)?.lengths(|lengths| lengths_read.extend(lengths))?;
    Ok((lengths_read, behind.len()))
}

#[test]
fn lengths_come_back_and_the_end_is_found() {
    let mut random = Random(8);
    for round in 0..300 {
        let count = random.below(700);
        let bound = 1 + random.below(1 << (round % 31));
        let lengths: Vec<u32> = (0..count).map(|_| random.below(bound) as u32).collect();
        let (miniblocks, size) = [(4, 32), (1, 1024), (8, 64), (2, 8)][round % 4];
        let mut bytes = encode(&lengths, miniblocks, size);
        let whole = bytes.len();
        bytes.extend([1, 2, 3]);
        assert_eq!(decode(&bytes).unwrap(), (lengths.clone(), 3));
        assert_eq!(Delta::new(&bytes).unwrap().end().unwrap().len(), 3);
        // Cut, it lacks something, or only padding.
        let cut = random.below(whole as u64) as usize;
        if let Ok((lengths_read, _)) = decode(&bytes[..cut]) {
            assert_eq!(lengths_read, lengths);
        }
    }
}

#[test]
fn lies_are_refused() {
    // Two billion differences in a separate block, of 33 bits.
    let mut huge = Vec::new();
    for header_value in [1 << 31, 1, (1 << 31) - 1, 0] {
        put(header_value, &mut huge);
    }
    let error = |tail: &[u8]| decode(&[&huge[..], tail].concat()).unwrap_err().kind();
    assert_eq!(error(&[]), Kind::Corrupt);
    assert_eq!(error(&[0, 33, 0, 0]), Kind::Corrupt);
    assert_eq!(error(&[0, 200]), Kind::Corrupt);
    for header in [[0, 4, 1, 0], [128, 0, 1, 0], [100, 3, 1, 0], [4, 1, 1, 0]] {
        assert!(decode(&header).is_err());
    }
    // A length below zero, and one above the largest.
    assert!(decode(&[8, 1, 1, 1]).is_err());
    assert!(decode(&[8, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x1f]).is_err());
    let mut random = Random(12);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
        if let Ok(delta) = Delta::new(&bytes)
            && delta.count < 1 << 20
        {
            let _ = delta.end();
            let _ = decode(&bytes);
        }
    }
}
