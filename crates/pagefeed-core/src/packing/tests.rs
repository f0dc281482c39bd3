#![allow(clippy::unwrap_used)]

use super::*;

const RULE: Rule = Rule {
    method: Method::BestFit,
    never_split: false,
    multiple_of: 1,
    repeats_bos: false,
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
    let mut ranges = vec![Vec::new(); lengths.len()];
    for sequence in 0..packing.num_sequences() {
        let mut offset = 0;
        let parts = packing.sequence(sequence).unwrap();
        assert!(!parts.is_empty());
        for part in parts {
            assert!(part.num_tokens > 0);
            assert_eq!(part.offset, offset);
            offset += part.num_tokens.next_multiple_of(rule.multiple_of);
            ranges[part.row as usize].push(part.first_token..part.first_token + part.num_tokens);
        }
        assert!(offset <= length);
    }
    for (ranges, &num_tokens) in ranges.iter_mut().zip(lengths) {
        ranges.sort_unstable_by_key(|range| range.start);
        let end = ranges.iter().fold(0, |next, range| {
            assert_eq!(range.start, next, "every token once");
            range.end
        });
        assert_eq!(end, num_tokens);
    }
    let num_parts = ranges.iter().map(Vec::len);
    let is_split = |(parts, tokens): &(usize, &u32)| *parts > 1 && **tokens <= length;
    num_parts.zip(lengths).filter(is_split).count()
}

#[test]
fn lengths_that_stand_for_too_many_sequences_are_refused() {
    // Twelve bytes each: more than any page may take.
    let error = pack(&[u32::MAX, 1], 8, RULE).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Limit, "{error}");
}

#[test]
fn rests_of_long_documents_begin_with_bos() {
    let rule = Rule {
        repeats_bos: true,
        ..RULE
    };
    // 10 tokens in sequences of 4: 4, then bos and 3, then bos and 3.
    assert_eq!(rule.line_tokens(4, 4).unwrap(), 4);
    assert_eq!(rule.line_tokens(5, 4).unwrap(), 6);
    assert_eq!(rule.line_tokens(10, 4).unwrap(), 12);
    assert!(rule.line_tokens(u32::MAX, 4).is_err());
    for method in METHODS {
        let packing = pack(&[10, 3, 5], 4, Rule { method, ..rule }).unwrap();
        let parts = packing.by_row();
        let found: Vec<_> = parts
            .iter()
            .map(|part| (part.row, part.first_token, part.num_tokens))
            .collect();
        let expected = [
            (0, 0, 4),
            (0, 4, 4),
            (0, 8, 4),
            (1, 0, 3),
            (2, 0, 4),
            (2, 4, 2),
        ];
        assert_eq!(found, expected);
    }
    assert!(pack(&[1], 1, rule).is_err());
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
                    ..RULE
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
        let parts = packing.sequence(sequence).unwrap().iter();
        parts.map(|part| part.row).collect::<Vec<_>>()
    };
    let mut found = [rows(0), rows(1)];
    found.sort();
    assert_eq!(found, [vec![0, 1], vec![2, 4]]);
}

/// Packed alone, the first of 200 sequences hold one document, the last ones dozens.
#[test]
fn sequences_of_few_and_of_many_documents_stand_in_random_order() {
    let mut state = 11u64;
    let mut firsts = Vec::new();
    for method in METHODS.repeat(20) {
        let lengths: Vec<u32> = (0..2000)
            .map(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let uniform = ((state >> 40) as f64 + 1.0) / (1u64 << 24) as f64;
                (30.0 / uniform.powf(0.8)) as u32 + 1
            })
            .collect();
        let packing = pack(&lengths, 2048, Rule { method, ..RULE }).unwrap();
        let count = packing.num_sequences();
        let sizes = (0..count).map(|number| packing.sequence(number).unwrap().len() as f64);
        let sizes: Vec<f64> = sizes.collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let spread = mean(
            &sizes
                .iter()
                .map(|size| (size - mean(&sizes)).powi(2))
                .collect::<Vec<_>>(),
        );
        firsts.push((sizes[0] - mean(&sizes)) / spread.sqrt());
        let middle = (count as f64 - 1.0) / 2.0;
        let covered: f64 = (0..count).map(|at| (at as f64 - middle) * sizes[at]).sum();
        let places = (count as f64).powi(2) / 12.0;
        let correlation = covered / count as f64 / (places * spread).sqrt();
        assert!(
            correlation.abs() < 4.5 / (count as f64).sqrt(),
            "{correlation}"
        );
    }
    // The first ones of 60 blocks are not alike either.
    let mean = firsts.iter().sum::<f64>() / firsts.len() as f64;
    assert!(mean.abs() < 4.5 / (firsts.len() as f64).sqrt(), "{mean}");
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
