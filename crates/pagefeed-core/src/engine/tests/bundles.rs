//! Bundles, separators and documents, against packing and joining by hand.

use super::fields::borders;
use super::*;
use crate::fields::Field;
use crate::packing::{Method, Rule, pack};

const KEY: u64 = 1 << 62;
const EOS: i64 = 60_000;

/// Pages of each bundle.
fn pages(bundle: u64) -> [u64; 3] {
    [3 * bundle, 3 * bundle + 1, 3 * bundle + 2]
}

/// Rows of a page of `Formula`, with the separators written after each.
fn lines(page: u64, eos: Option<i64>) -> Vec<Vec<i64>> {
    let offsets = [0, 20, 20, num_tokens(page)];
    let row = |pair: &[u64]| {
        let tokens = (pair[0]..pair[1]).map(|token_number| i64::from(token(page, token_number)));
        tokens.chain(eos).collect()
    };
    offsets.windows(2).map(row).collect()
}

fn layout(eos: Option<i64>) -> Layout {
    Layout {
        eos,
        packing: Some(Rule {
            method: Method::BestFit,
            never_split: false,
            multiple_of: 1,
            repeats_bos: false,
        }),
        fields: Fields::new(&[Field::CuSeqlens], false, false),
        ..Layout::default()
    }
}

/// The sequences of a bundle, and where their parts and padding end.
fn sequences(bundle: u64, eos: Option<i64>) -> Vec<(Vec<i64>, Vec<usize>)> {
    let rows: Vec<Vec<i64>> = pages(bundle)
        .into_iter()
        .flat_map(|page| lines(page, eos))
        .collect();
    let lengths: Vec<u32> = rows.iter().map(|line| line.len() as u32).collect();
    let packing = pack(&lengths, LENGTH as u32, layout(eos).packing.unwrap()).unwrap();
    let sequence = |number: usize| {
        let (mut tokens, mut ends) = (Vec::new(), Vec::new());
        for part in packing.sequence(number).unwrap() {
            let first = part.first_token as usize;
            let end = first + part.num_tokens as usize;
            tokens.extend(&rows[part.row as usize][first..end]);
            ends.push(tokens.len());
        }
        if tokens.len() < LENGTH {
            ends.push(LENGTH);
        }
        tokens.resize(LENGTH, 65535);
        (tokens, ends)
    };
    (0..packing.num_sequences()).map(sequence).collect()
}

/// A plan of sequences (bundle, number), one batch for every `ROWS` of them.
fn plan_of(wanted: &[(u64, usize)], eos: Option<i64>) -> Plan {
    let mut plan = Plan::default();
    for (position, (bundle, number)) in wanted.iter().enumerate() {
        if position % ROWS == 0 {
            plan.batch_offsets.push(position as u32);
        }
        plan.page.push(KEY + bundle);
        plan.row.push(*number as u32);
        plan.destination_row.push((position % ROWS) as u32);
    }
    plan.batch_offsets.push(wanted.len() as u32);
    plan.first_token = vec![0; wanted.len()];
    plan.num_tokens = vec![LENGTH as u32; wanted.len()];
    plan.destination_offset = vec![0; wanted.len()];
    let used: std::collections::BTreeSet<u64> = wanted.iter().map(|position| position.0).collect();
    plan.bundles.slice_offsets.push(0);
    for bundle in used {
        plan.bundles.key.push(KEY + bundle);
        let num_sequences = sequences(bundle, eos).len() as u32;
        plan.bundles.num_sequences.push(num_sequences);
        plan.bundles.slice_page.extend(pages(bundle));
        plan.bundles.slice_row.extend([0; 3]);
        plan.bundles.slice_rows.extend([3; 3]);
        let end = plan.bundles.slice_page.len() as u32;
        plan.bundles.slice_offsets.push(end);
    }
    plan
}

#[test]
fn packed_bundles_are_what_packing_says_at_any_budget() {
    for (seed, budget) in [(1, 1 << 20), (2, 20_000), (3, 4_000)] {
        let mut random = Random(seed);
        let eos = (seed % 2 == 0).then_some(EOS);
        let mut wanted: Vec<(u64, usize)> = (0..12)
            .flat_map(|bundle| {
                (0..sequences(bundle, eos).len()).map(move |number| (bundle, number))
            })
            .collect();
        for position in (1..wanted.len()).rev() {
            wanted.swap(position, random.below(position as u64 + 1) as usize);
        }
        let config = EngineConfig {
            layout: layout(eos),
            ..config(3, budget, TokenType::I64)
        };
        let engine = Engine::new(Arc::new(Formula::default()), config).unwrap();
        let (first, second) = wanted.split_at(wanted.len() / 2 / ROWS * ROWS);
        for part in [first, second] {
            engine.submit(plan_of(part, eos)).unwrap();
        }
        let mut num_padding = 0;
        for chunk in first.chunks(ROWS).chain(second.chunks(ROWS)) {
            let batch = next(&engine).unwrap();
            let found = values(&batch, TokenType::I64);
            let mut expected = vec![0];
            for (row, (bundle, number)) in chunk.iter().enumerate() {
                let (tokens, ends) = sequences(*bundle, eos).swap_remove(*number);
                assert_eq!(found[row * LENGTH..(row + 1) * LENGTH], tokens);
                expected.extend(ends.into_iter().map(|end| row * LENGTH + end));
            }
            num_padding += found.iter().filter(|&&token| token == 65535).count();
            expected.extend((chunk.len() + 1..=ROWS).map(|row| row * LENGTH));
            assert_eq!(borders(&batch), expected);
        }
        let stats = engine.stats().unwrap();
        assert_eq!(stats.padding_tokens, num_padding as u64);
        assert_eq!(stats.held_bytes, 0);
        assert_eq!(stats.pages_reloaded > 0, budget < 1 << 20);
    }
}

#[test]
fn bundles_that_are_not_as_promised_are_refused() {
    let start = || {
        let config = EngineConfig {
            layout: layout(None),
            ..config(2, 1 << 20, TokenType::I64)
        };
        Engine::new(Arc::new(Formula::default()), config).unwrap()
    };
    let mut more = plan_of(&[(0, 0)], None);
    more.bundles.num_sequences[0] += 1;
    let mut rows = plan_of(&[(0, 0)], None);
    rows.bundles.slice_rows[1] = 4;
    for plan in [more, rows] {
        let engine = start();
        engine.submit(plan).unwrap();
        assert_eq!(next(&engine).err().unwrap().kind(), Kind::Corrupt);
    }
    let mut uneven = plan_of(&[(0, 0)], None);
    uneven.bundles.slice_row.pop();
    let mut falling = plan_of(&[(0, 0)], None);
    falling.bundles.slice_offsets[1] = 9;
    for plan in [uneven, falling] {
        assert_eq!(start().submit(plan).err().unwrap().kind(), Kind::Invalid);
    }
    let engine = start();
    let beyond = plan_of(&[(0, 1000)], None);
    engine.submit(beyond).unwrap();
    assert_eq!(next(&engine).err().unwrap().kind(), Kind::Corrupt);
}

#[test]
fn pages_have_separators_and_tell_their_documents() {
    let config = EngineConfig {
        layout: Layout {
            eos: Some(EOS),
            fields: Fields::new(&[Field::CuSeqlens], false, false),
            ..Layout::default()
        },
        ..config(2, 1 << 20, TokenType::U16)
    };
    let engine = Engine::new(Arc::new(Formula::default()), config).unwrap();
    let mut plan = first_tokens(&[7, 9]);
    (plan.first_token, plan.num_tokens) = (vec![15, 0], vec![12, 5]);
    engine.submit(plan).unwrap();
    let batch = next(&engine).unwrap();
    let line: Vec<i64> = lines(7, Some(EOS)).concat();
    assert_eq!(values(&batch, TokenType::U16)[..12], line[15..27]);
    let found = &borders(&batch)[..8];
    assert_eq!(
        found,
        [0, 6, 7, 12, LENGTH, LENGTH + 5, 2 * LENGTH, 3 * LENGTH]
    );
}

#[test]
fn a_load_of_a_bundle_counts_the_page_that_it_joins() {
    let source = Arc::new(Formula::default());
    let config = EngineConfig {
        layout: layout(None),
        ..config(1, 1 << 20, TokenType::I64)
    };
    let (buffers, decoded) = (config.batch_bytes(), |page| {
        source.entry(page).unwrap().decoded_size
    });
    let engine = Engine::new(source.clone(), config).unwrap();
    engine.submit(plan_of(&[(0, 0)], None)).unwrap();
    let plans = engine.plan_bytes();
    let batch = next(&engine).unwrap();
    let bundle: usize = pages(0).map(decoded).iter().sum();
    let page = pages(0).map(decoded).into_iter().max().unwrap();
    let peak = engine.stats().unwrap().peak_bytes as usize;
    assert!(peak >= plans + bundle + page, "{peak} of {buffers} a batch");
    drop(batch);
}
