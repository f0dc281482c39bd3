#![allow(clippy::unwrap_used)]

use super::*;

const RULE: Rule = Rule {
    method: Method::BestFit,
    never_split: false,
    multiple_of: 1,
};
const METHODS: [Method; 3] = [Method::BestFit, Method::FirstFit, Method::Greedy];

/// Checks what holds for every packing; returns the documents split needlessly.
fn check(lengths: &[u32], length: u32, rule: Rule) -> usize {
    let packing = pack(lengths, length, rule).unwrap();
    let total: u64 = lengths.iter().map(|&tokens| u64::from(tokens)).sum();
    let expected = total.div_ceil(u64::from(length)) as usize;
    if !rule.never_split && rule.multiple_of < 2 {
        assert_eq!(packing.num_sequences(), expected, "{lengths:?}");
    }
    let mut next = vec![0; lengths.len()];
    let mut num_pieces = vec![0u32; lengths.len()];
    for sequence in 0..packing.num_sequences() {
        let mut offset = 0;
        let pieces = packing.sequence(sequence).unwrap();
        assert!(!pieces.is_empty());
        for piece in pieces {
            let row = piece.row as usize;
            assert!(piece.num_tokens > 0);
            assert_eq!((piece.offset, piece.first_token), (offset, next[row]));
            offset += piece.num_tokens.next_multiple_of(rule.multiple_of);
            next[row] += piece.num_tokens;
            num_pieces[row] += 1;
        }
        assert!(offset <= length);
    }
    assert_eq!(next, lengths, "every token once, in order");
    let is_split = |(pieces, tokens): &(u32, &u32)| *pieces > 1 && **tokens <= length;
    num_pieces.into_iter().zip(lengths).filter(is_split).count()
}

#[test]
fn every_token_once_whatever_the_lengths() {
    let mut state = 7u64;
    let mut random = |end: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % end
    };
    for round in 0..400 {
        let length = [1, 2, 7, 64, 2048][round % 5];
        let count = random(200) as usize;
        let lengths: Vec<u32> = (0..count)
            .map(|_| match round % 6 {
                0 => length / 2 + 1,
                1 => length,
                2 => length + 1 + random(5 * u64::from(length)) as u32,
                3 => random(2 * u64::from(length)) as u32,
                4 => (f64::from(length) / (1.0 + random(999) as f64)) as u32,
                _ => (20.0 / (0.001 + random(1000) as f64 / 1000.0).powf(1.3)) as u32,
            })
            .collect();
        for method in METHODS {
            for (never_split, multiple_of) in [(false, 1), (true, 1), (false, 2), (true, 16)] {
                if !u32::is_multiple_of(length, multiple_of) {
                    continue;
                }
                let rule = Rule {
                    method,
                    never_split,
                    multiple_of,
                };
                let num_split = check(&lengths, length, rule);
                assert!(!(never_split || multiple_of > 1) || num_split == 0);
            }
        }
    }
}

#[test]
fn at_most_one_document_is_split_where_small_ones_abound() {
    let mut state = 3u64;
    for _ in 0..50 {
        let lengths: Vec<u32> = (0..600)
            .map(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let uniform = ((state >> 40) as f64 + 1.0) / (1u64 << 24) as f64;
                (30.0 / uniform.powf(0.8)) as u32 + 1
            })
            .collect();
        assert!(check(&lengths, 2048, RULE) <= 1);
    }
}

#[test]
fn whole_documents_fill_sequences_best() {
    let packing = pack(&[3, 5, 2, 0, 6], 8, Rule::default()).unwrap();
    assert_eq!(packing.num_sequences(), 2);
    let rows = |sequence| {
        let pieces = packing.sequence(sequence).unwrap().iter();
        pieces.map(|piece| piece.row).collect::<Vec<_>>()
    };
    assert_eq!((rows(0), rows(1)), (vec![2, 4], vec![0, 1]));
}

#[test]
fn nothing_makes_no_sequence() {
    assert_eq!(pack(&[], 8, Rule::default()).unwrap().num_sequences(), 0);
    assert_eq!(
        pack(&[0, 0], 8, Rule::default()).unwrap().num_sequences(),
        0
    );
    assert!(pack(&[1], 0, Rule::default()).is_err());
    let multiple = Rule {
        multiple_of: 3,
        ..RULE
    };
    assert!(pack(&[1], 8, multiple).is_err());
}
