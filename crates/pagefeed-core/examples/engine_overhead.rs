//! What the engine costs beside the work itself: scheduling per page and per batch,
//! copying against `memcpy`, and memory against the budget.
//!
//! `cargo run --release -p pagefeed-core --example engine_overhead`

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagefeed_core::Result;
use pagefeed_core::decode::{TokenPage, Tokens};
use pagefeed_core::engine::{Batch, Engine, EngineConfig, PageSource, Plan, TokenType};
use pagefeed_core::gather::{BatchToken, copy_segment};
use pagefeed_core::page::PageOpener;

/// Pages of 16-bit tokens that cost one copy of what they hold.
struct Copied {
    rows: usize,
    row_length: usize,
    work: Duration,
}

impl PageSource for Copied {
    fn load(&self, _: &mut PageOpener, page: u64, recycle: Option<TokenPage>) -> Result<TokenPage> {
        let begin = Instant::now();
        let (mut tokens, mut row_offsets) = match recycle {
            Some(TokenPage {
                tokens: Tokens::U16(tokens),
                row_offsets,
            }) => (tokens, row_offsets),
            _ => (Vec::new(), Vec::new()),
        };
        tokens.clear();
        tokens.resize(self.rows * self.row_length, page as u16);
        row_offsets.clear();
        row_offsets.extend((0..=self.rows).map(|row| (row * self.row_length) as u32));
        while begin.elapsed() < self.work {
            std::hint::spin_loop();
        }
        Ok(TokenPage {
            tokens: Tokens::U16(tokens),
            row_offsets,
        })
    }

    fn decoded_size(&self, _: u64) -> usize {
        self.rows * self.row_length * 2 + self.rows * 4 + 4
    }

    fn will_need(&self, _: u64) {}
}

fn config(num_threads: usize, batch_rows: usize, row_length: usize) -> EngineConfig {
    EngineConfig {
        num_threads,
        budget: 256 << 20,
        token_type: TokenType::I64,
        batch_rows,
        row_length,
        padding: 0,
        verify_checksums: false,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One batch per step: row `r` of a batch is the next row of lane `r`, whose pages
/// follow each other, so that each page feeds as many batches as it has rows.
fn lanes(steps: std::ops::Range<u64>, batch_rows: u64, page_rows: u64, length: u32) -> Plan {
    let mut plan = Plan {
        batch_offsets: vec![0],
        ..Plan::default()
    };
    for step in steps {
        for row in 0..batch_rows {
            let at = step + row; // Lanes are staggered.
            plan.page.push(at / page_rows * batch_rows + row);
            plan.row.push((at % page_rows) as u32);
            plan.destination_row.push(row as u32);
        }
        plan.batch_offsets.push(plan.page.len() as u32);
    }
    plan.first_token = vec![0; plan.page.len()];
    plan.destination_offset = vec![0; plan.page.len()];
    plan.num_tokens = vec![length; plan.page.len()];
    plan
}

/// Runs `num_batches` batches, submitted in pieces, with a consumer that looks at one
/// value in each cache line; seconds per batch and per call of `next_batch`.
fn run(source: Copied, config: EngineConfig, num_batches: u64) -> (f64, Vec<f64>) {
    let (batch_rows, length) = (config.batch_rows as u64, source.row_length as u32);
    let page_rows = source.rows as u64;
    let engine = Engine::new(Arc::new(source), config).unwrap();
    let piece = 128;
    let mut submitted = 0;
    let mut waits = Vec::new();
    let begin = Instant::now();
    for taken in 0..num_batches {
        while submitted < num_batches && submitted < taken + 3 * piece {
            let end = num_batches.min(submitted + piece);
            engine
                .submit(lanes(submitted..end, batch_rows, page_rows, length))
                .unwrap();
            submitted = end;
        }
        let call = Instant::now();
        let batch: Batch = engine.next_batch(Duration::from_secs(10)).unwrap().unwrap();
        waits.push(call.elapsed().as_secs_f64());
        let sum: u64 = batch
            .bytes()
            .iter()
            .step_by(64)
            .map(|&byte| u64::from(byte))
            .sum();
        black_box(sum);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats = engine.stats().unwrap();
    assert_eq!(stats.pages_reloaded, 0);
    (seconds / num_batches as f64, waits)
}

fn scheduling() {
    println!("scheduling (pages and batches without content, 64 segments a batch)");
    for num_threads in [1, 2] {
        let per_batch = |page_rows| {
            let source = || Copied {
                rows: page_rows,
                row_length: 1,
                work: Duration::ZERO,
            };
            let once = |_| run(source(), config(num_threads, 64, 1), 4000).0 * 1e6;
            median((0..5).map(once).collect())
        };
        let (few, many) = (per_batch(64), per_batch(2));
        // 1 page a batch against 32 pages a batch.
        let page = (many - few) / 31.0;
        println!(
            "  {num_threads} threads: {page:.2} us a page, {:.2} us a batch beside its pages",
            few - page
        );
    }
    let plan = || lanes(0..160, 64, 16, 1);
    let engine = Engine::new(
        Arc::new(Copied {
            rows: 16,
            row_length: 1,
            work: Duration::ZERO,
        }),
        config(1, 64, 1),
    )
    .unwrap();
    let times = (0..20).map(|_| {
        let plan = plan();
        let begin = Instant::now();
        engine.submit(plan).unwrap();
        let seconds = begin.elapsed().as_secs_f64();
        engine.clear().unwrap();
        seconds * 1e6
    });
    println!(
        "  submit of 10,240 segments: {:.0} us",
        median(times.collect())
    );
}

fn gather_speed<T: BatchToken>(name: &str, tokens: Tokens, zero: T) {
    // As the engine does: rows of 2048 from many pages into a few recycled batches.
    const ROWS: usize = 64;
    const LENGTH: usize = 2048;
    let num_rows = tokens.len() / LENGTH;
    let page = TokenPage {
        tokens,
        row_offsets: (0..=num_rows).map(|row| (row * LENGTH) as u32).collect(),
    };
    let mut batches = vec![vec![zero; ROWS * LENGTH]; 4];
    let source = vec![zero; ROWS * LENGTH * 4];
    let bytes = (ROWS * LENGTH * size_of::<T>()) as f64;
    let (mut ours, mut memcpy) = (Vec::new(), Vec::new());
    for round in 0..200 {
        let batch = &mut batches[round % 4];
        let begin = Instant::now();
        for (row, target) in batch.chunks_exact_mut(LENGTH).enumerate() {
            let from = (round * 977 + row * 131) % num_rows;
            copy_segment(&page, from as u32, 0, target).unwrap();
        }
        ours.push(begin.elapsed().as_secs_f64());
        black_box(&batch);
        let begin = Instant::now();
        for (row, target) in batch.chunks_exact_mut(LENGTH).enumerate() {
            let from = (round * 97 + row * 13) % (ROWS * 4) * LENGTH;
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

fn gather_speeds() {
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

/// Private memory of the process in MiB: current and peak resident.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let mebibytes = |name| field(name).unwrap_or(0) >> 10;
    format!(
        "{} MiB now, {} MiB at most",
        mebibytes("RssAnon"),
        mebibytes("VmHWM")
    )
}

fn throughput() {
    println!("batches of 64 rows of 2048 int64 from pages of 16 rows, 16-bit");
    for num_threads in [1, 2] {
        for work_us in [0, 40] {
            let source = Copied {
                rows: 16,
                row_length: 2048,
                work: Duration::from_micros(work_us),
            };
            let (seconds, mut waits) = run(source, config(num_threads, 64, 2048), 4000);
            waits.sort_by(f64::total_cmp);
            let at = |share: f64| waits[(waits.len() as f64 * share) as usize] * 1e6;
            println!(
                "  {num_threads} threads, {work_us} us a page: {:.0} us a batch, {:.0} Mtok/s; \
                 next(): median {:.0} us, p99 {:.0} us; {}",
                seconds * 1e6,
                64.0 * 2048.0 / seconds / 1e6,
                at(0.5),
                at(0.99),
                memory()
            );
        }
    }
}

fn main() {
    throughput();
    scheduling();
    gather_speeds();
}
