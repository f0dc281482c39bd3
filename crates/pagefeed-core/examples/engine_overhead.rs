//! Overhead of the engine: scheduling per page and per batch, and
//! memory against the budget.
//!
//! `cargo run --release -p pagefeed-core --example engine_overhead`

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pagefeed_core::Result;
use pagefeed_core::engine::{
    Batch, Engine, EngineConfig, Layout, Loading, Page, PageEntry, PageSource, Plan, TokenType,
};
use pagefeed_core::tokens::{TokenPage, Tokens};

/// Pages of 16-bit tokens that cost `work`.
struct Copied {
    rows: usize,
    row_length: usize,
    work: Duration,
}

impl PageSource for Copied {
    fn decode(&self, page: u64, _: Loading<'_>) -> Result<Page> {
        let begin = Instant::now();
        let tokens = vec![page as u16; self.rows * self.row_length];
        let row_offsets = (0..=self.rows).map(|row| (row * self.row_length) as u32);
        while begin.elapsed() < self.work {
            std::hint::spin_loop();
        }
        Ok(Page::Tokens(TokenPage {
            tokens: Tokens::U16(tokens),
            row_offsets: row_offsets.collect(),
            ..TokenPage::default()
        }))
    }

    fn entry(&self, _: u64) -> Result<PageEntry> {
        let bytes = self.rows * self.row_length * 2 + self.rows * 4 + 4;
        Ok(PageEntry::new(0, bytes))
    }
}

fn config(num_threads: usize, batch_rows: usize, row_length: usize) -> EngineConfig {
    EngineConfig {
        num_threads,
        budget: 256 << 20,
        token_type: TokenType::I64,
        batch_rows,
        row_length,
        columns: Vec::new(),
        row_payload: 0,
        padding: 0,
        layout: Layout::default(),
    }
}

/// Seconds of processor time of all threads so far: unlike the clock on the wall it
/// does not count what other processes take.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
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
/// value in each cache line; seconds per batch (wall and processor) and per call of
/// `next_batch`.
fn run(source: Copied, config: EngineConfig, num_batches: u64) -> (f64, f64, Vec<f64>) {
    let (batch_rows, length) = (config.batch_rows as u64, source.row_length as u32);
    let page_rows = source.rows as u64;
    let engine = Engine::new(Arc::new(source), config).unwrap();
    let piece = 128;
    let mut submitted = 0;
    let mut waits = Vec::new();
    let (begin, begin_cpu) = (Instant::now(), cpu_seconds());
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
    let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - begin_cpu);
    let stats = engine.stats().unwrap();
    assert_eq!(stats.pages_reloaded, 0);
    (wall / num_batches as f64, cpu / num_batches as f64, waits)
}

fn scheduling() {
    println!("scheduling: processor time for pages and batches without content, 64 segments each");
    for num_threads in [1, 2] {
        let per_batch = |page_rows| {
            let source = || Copied {
                rows: page_rows,
                row_length: 1,
                work: Duration::ZERO,
            };
            let once = |_| run(source(), config(num_threads, 64, 1), 4000).1 * 1e6;
            median((0..5).map(once).collect())
        };
        let (few, many) = (per_batch(64), per_batch(2));
        // 1 page a batch against 32 pages a batch.
        let page = (many - few) / 31.0;
        println!(
            "  {num_threads} threads: {page:.2} us a page, {:.2} us a batch without its pages",
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

/// Private memory of the process now, in MiB.
fn private_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kibibytes.unwrap_or(0u64) >> 10
}

fn hash(value: u64) -> u64 {
    let z = value.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// Pages of very different sizes.
struct Uneven;

const UNEVEN_LENGTH: u64 = 512;

impl Uneven {
    fn rows(page: u64) -> u64 {
        1 + hash(page) % 8 * (hash(page) >> 8) % 64
    }
}

impl PageSource for Uneven {
    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        let source = Copied {
            rows: Self::rows(page) as usize,
            row_length: UNEVEN_LENGTH as usize,
            work: Duration::ZERO,
        };
        source.decode(page, loading)
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        let bytes = Self::rows(page) * (UNEVEN_LENGTH * 2 + 4) + 4;
        Ok(PageEntry::new(0, bytes as usize))
    }
}

/// Row of a page at a place of the order.
type Sequence = (u64, u64, u32);

/// Rows of uneven pages, each delayed by up to `window` rows.
fn delayed(num_pages: u64, window: u64) -> Vec<Sequence> {
    let mut sequences = Vec::new();
    for page in 0..num_pages {
        for row in 0..Uneven::rows(page) {
            let position = sequences.len() as u64;
            sequences.push((
                position + hash(position ^ 1 << 40) % window,
                page,
                row as u32,
            ));
        }
    }
    sequences.sort_unstable();
    sequences
}

/// Batches of 64 sequences each.
fn batches(sequences: &[Sequence]) -> Plan {
    let count = sequences.len();
    Plan {
        batch_offsets: (0..=count as u32 / 64).map(|batch| batch * 64).collect(),
        page: sequences.iter().map(|sequence| sequence.1).collect(),
        row: sequences.iter().map(|sequence| sequence.2).collect(),
        first_token: vec![0; count],
        num_tokens: vec![UNEVEN_LENGTH as u32; count],
        destination_row: (0..count as u32).map(|sequence| sequence % 64).collect(),
        destination_offset: vec![0; count],
        ..Plan::default()
    }
}

/// Private memory while data many times the budget flows through. Pages are held for
/// about a window's length.
fn memory() {
    println!("private memory against a budget of 64 MiB, pages of 1 to 448 KiB");
    for window_mib in [32, 128] {
        let sequences = delayed(50_000, (window_mib << 20) / 2 / UNEVEN_LENGTH);
        let before = private_memory();
        let config = EngineConfig {
            budget: 64 << 20,
            ..config(2, 64, UNEVEN_LENGTH as usize)
        };
        let engine = Engine::new(Arc::new(Uneven), config).unwrap();
        let mut most = before;
        let mut pieces = sequences.chunks_exact(64 * 128);
        for _ in 0..sequences.len() / 64 / 128 * 128 {
            if engine.num_pending() < 256 {
                let piece = pieces.next();
                piece
                    .into_iter()
                    .for_each(|sequences| engine.submit(batches(sequences)).unwrap());
                most = private_memory().max(most);
            }
            black_box(engine.next_batch(Duration::from_secs(10)).unwrap().unwrap());
        }
        let stats = engine.stats().unwrap();
        println!(
            "  window of {window_mib} MiB: {} MiB, {} of it counted; {} MiB of batches, {} loads, \
             {} of them again",
            most - before,
            stats.peak_bytes >> 20,
            (stats.tokens * 8) >> 20,
            stats.pages_loaded,
            stats.pages_reloaded
        );
    }
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
            let (seconds, cpu, mut waits) = run(source, config(num_threads, 64, 2048), 4000);
            waits.sort_by(f64::total_cmp);
            let at = |share: f64| waits[(waits.len() as f64 * share) as usize] * 1e6;
            println!(
                "  {num_threads} threads, {work_us} us a page: {:.0} us a batch (processor {:.0}), {:.0} Mtok/s; \
                 next(): median {:.0} us, p99 {:.0} us",
                seconds * 1e6,
                cpu * 1e6,
                64.0 * 2048.0 / seconds / 1e6,
                at(0.5),
                at(0.99)
            );
        }
    }
}

fn main() {
    memory();
    throughput();
    scheduling();
}
