//! Rate of copying rows from pages into batches, against `memcpy`.
//!
//! `cargo run --release -p pagefeed-core --example copying`

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use pagefeed_core::gather::{Ahead, BatchToken, copy_segment};
use pagefeed_core::tokens::{TokenPage, Tokens};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn gather_speed<T: BatchToken>(name: &str, tokens: Tokens, zero: T) {
    // As the engine does: rows of 2048 from many pages into a few recycled batches.
    const ROWS: usize = 64;
    const LENGTH: usize = 2048;
    let num_rows = tokens.len() / LENGTH;
    let page = TokenPage {
        tokens,
        row_offsets: (0..=num_rows).map(|row| (row * LENGTH) as u32).collect(),
        ..TokenPage::default()
    };
    let mut batches = vec![vec![zero; ROWS * LENGTH]; 4];
    let source_rows = (32 << 20) / LENGTH / size_of::<T>();
    let mut source = vec![zero; source_rows * LENGTH];
    source.fill(T::from_i64(7).unwrap()); // Fresh zeros would all be one page of memory.
    let bytes = (ROWS * LENGTH * size_of::<T>()) as f64;
    let (mut ours, mut memcpy) = (Vec::new(), Vec::new());
    for round in 0..200 {
        let batch = &mut batches[round % 4];
        let begin = Instant::now();
        for (row, target) in batch.chunks_exact_mut(LENGTH).enumerate() {
            let from = (round * 977 + row * 131) % num_rows;
            copy_segment(&page, from as u32, 0, target, Ahead::NONE).unwrap();
        }
        ours.push(begin.elapsed().as_secs_f64());
        black_box(&batch);
        let begin = Instant::now();
        for (row, target) in batch.chunks_exact_mut(LENGTH).enumerate() {
            let from = (round * 977 + row * 131) % source_rows * LENGTH;
            target.copy_from_slice(&source[from..from + LENGTH]);
        }
        memcpy.push(begin.elapsed().as_secs_f64());
        black_box(&batch);
    }
    let rate = |times| bytes / median(times) / 1e9;
    println!(
        "  {name}: {:.1} GB/s written, memcpy of the output {:.1} GB/s",
        rate(ours),
        rate(memcpy)
    );
}

fn main() {
    println!("copying rows of 2048 tokens from 32 MiB of pages");
    let count = 8 << 20;
    gather_speed("u16 -> i64", Tokens::U16(vec![7; 2 * count]), 0i64);
    gather_speed("i32 -> i64", Tokens::I32(vec![7; count]), 0i64);
    gather_speed("i64 -> i64", Tokens::I64(vec![7; count / 2]), 0i64);
    gather_speed("u16 -> i32", Tokens::U16(vec![7; 2 * count]), 0i32);
    gather_speed("i64 -> i32", Tokens::I64(vec![7; count / 2]), 0i32);
    gather_speed("i32 -> u16", Tokens::I32(vec![7; count]), 0u16);
    gather_speed("u16 -> u16", Tokens::U16(vec![7; 2 * count]), 0u16);
}
