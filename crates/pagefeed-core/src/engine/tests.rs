//! The engine against a naive reference, on a source that computes its pages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use super::*;
use crate::fields::{Field, Fields};
use crate::storage::{Fetched, Waiting};
use crate::tokens::{TokenPage, Tokens};

mod ahead;
mod bundles;
mod counters;
mod eviction;
mod failures;
mod fetching;
mod fields;
mod replanned;

const LONG: Duration = Duration::from_secs(60);

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

fn num_tokens(page: u64) -> u64 {
    50 + page * 37 % 101
}

fn token(page: u64, position: u64) -> u16 {
    (page * 131 + position * 7) as u16
}

/// A page of three rows, the middle one empty, in one of all types.
fn page_of(page: u64) -> Page {
    let values = (0..num_tokens(page)).map(|position| token(page, position));
    Page::Tokens(TokenPage {
        tokens: match page % 4 {
            0 => Tokens::U16(values.collect()),
            1 => Tokens::I32(values.map(i32::from).collect()),
            2 => Tokens::U32(values.map(u32::from).collect()),
            _ => Tokens::I64(values.map(i64::from).collect()),
        },
        row_offsets: vec![0, 20, 20, num_tokens(page) as u32],
        ..TokenPage::default()
    })
}

/// Pages that are computed.
#[derive(Default)]
struct Formula {
    fails: HashSet<u64>,
    panics: HashSet<u64>,
    delay: Duration,
    /// Loads per page.
    loads: Mutex<HashMap<u64, usize>>,
    /// While set, loads and fetches wait.
    is_held: AtomicBool,
    /// Pages that are fetched at one time, apart from being decoded.
    in_flight: usize,
    wanted: Option<usize>,
    /// Consecutive pages that lie in one file, if not only one.
    file_pages: u64,
    /// Stored bytes of a page, if not ten.
    stored: Option<usize>,
    /// Pages that were announced.
    announced: Mutex<Vec<u64>>,
    /// Pages of each fetch.
    fetched: Mutex<Vec<Vec<u64>>>,
    /// Pages that cannot be fetched.
    lost: HashSet<u64>,
    /// Fetches under way, and the most of them at one time.
    fetching: Mutex<(usize, usize)>,
}

impl Formula {
    fn wait(&self) {
        while self.is_held.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(self.delay);
    }

    fn fetch_now(&self, pages: &[u64]) -> Result<Vec<Fetched>> {
        self.fetched.lock().unwrap().push(pages.to_vec());
        let mut fetching = self.fetching.lock().unwrap();
        fetching.0 += 1;
        fetching.1 = fetching.1.max(fetching.0);
        drop(fetching);
        self.wait();
        self.fetching.lock().unwrap().0 -= 1;
        assert!(
            !pages.iter().any(|page| self.panics.contains(page)),
            "a bad page"
        );
        if pages.iter().any(|page| self.lost.contains(page)) {
            return Err(Error::new(
                Kind::Io(std::io::ErrorKind::TimedOut),
                "no answer",
            ));
        }
        Ok(pages.iter().map(|_| Fetched::default()).collect())
    }
}

impl PageSource for Formula {
    fn num_in_flight(&self) -> usize {
        self.in_flight
    }

    fn num_wanted(&self) -> usize {
        self.wanted.unwrap_or(self.in_flight)
    }

    fn fetch<'a>(&'a self, pages: &'a [u64]) -> Waiting<'a, Result<Vec<Fetched>>> {
        Box::pin(async { self.fetch_now(pages) })
    }

    /// Each fetch blocks a thread.
    fn spawn(&self, mut fetch: Waiting<'static, ()>) {
        std::thread::spawn(move || {
            let is_done = fetch.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(is_done.is_ready());
        });
    }

    fn decode(&self, page: u64, _: Loading<'_>) -> Result<Page> {
        *self.loads.lock().unwrap().entry(page).or_default() += 1;
        self.wait();
        assert!(!self.panics.contains(&page), "a bad page");
        if self.fails.contains(&page) {
            return Err(Error::new(
                Kind::Checksum,
                format!("page {page} is damaged"),
            ));
        }
        Ok(page_of(page))
    }

    fn entry(&self, page: u64) -> Result<PageEntry> {
        Ok(PageEntry {
            file: (page / self.file_pages.max(1)) as usize,
            ..PageEntry::new(
                self.stored.unwrap_or(10),
                num_tokens(page) as usize * 8 + 16,
            )
        })
    }

    fn will_need(&self, page: u64) {
        self.announced.lock().unwrap().push(page);
    }
}

const ROWS: usize = 5;
const LENGTH: usize = 64;

fn config(num_threads: usize, budget: usize, token_type: TokenType) -> EngineConfig {
    EngineConfig {
        num_threads,
        budget,
        token_type,
        batch_rows: ROWS,
        row_length: LENGTH,
        columns: Vec::new(),
        row_payload: 0,
        padding: 65535,
        layout: Layout::default(),
    }
}

/// A plan and the batches it must give.
fn random_plan(random: &mut Random, num_batches: usize, num_pages: u64) -> (Plan, Vec<Vec<i64>>) {
    random_plan_of(ROWS, random, num_batches, num_pages)
}

/// The same for batches of another number of rows.
fn random_plan_of(
    rows: usize,
    random: &mut Random,
    num_batches: usize,
    num_pages: u64,
) -> (Plan, Vec<Vec<i64>>) {
    let mut plan = Plan {
        batch_offsets: vec![0],
        batch_rows: Some(rows),
        ..Plan::default()
    };
    let mut expected = Vec::new();
    for _ in 0..num_batches {
        let mut batch = vec![65535i64; rows * LENGTH];
        let mut segments = Vec::new();
        for row in 0..rows as u64 {
            let mut offset = random.below(3);
            while offset < LENGTH as u64 && random.below(8) > 0 {
                let page = random.below(num_pages);
                let room = (LENGTH as u64 - offset).min(num_tokens(page));
                let count = random.below(room + 1);
                let start = random.below(num_tokens(page) - count + 1);
                // Rows 0 and 1 begin at 0 and 20; a token may lie in a later row.
                let from_row = if start < 20 { 0 } else { random.below(3) };
                let first = start - if from_row == 0 { 0 } else { 20 };
                for i in 0..count {
                    batch[(row * LENGTH as u64 + offset + i) as usize] =
                        i64::from(token(page, start + i));
                }
                segments.push((page, from_row, first, count, row, offset));
                offset += count + random.below(2) * random.below(9);
            }
        }
        if random.below(2) == 0 {
            segments.reverse();
        }
        for (page, row, first_token, num_tokens, destination_row, offset) in segments {
            plan.page.push(page);
            plan.row.push(row as u32);
            plan.first_token.push(first_token as u32);
            plan.num_tokens.push(num_tokens as u32);
            plan.destination_row.push(destination_row as u32);
            plan.destination_offset.push(offset as u32);
        }
        plan.batch_offsets.push(plan.page.len() as u32);
        expected.push(batch);
    }
    (plan, expected)
}

fn values(batch: &Batch, token_type: TokenType) -> Vec<i64> {
    let tokens = &batch.bytes()[batch.range(Field::InputIds)];
    let chunks = tokens.chunks_exact(token_type.num_bytes());
    chunks
        .map(|bytes| match token_type {
            TokenType::I64 => i64::from_ne_bytes(bytes.try_into().unwrap()),
            TokenType::I32 => i32::from_ne_bytes(bytes.try_into().unwrap()).into(),
            TokenType::U16 => u16::from_ne_bytes(bytes.try_into().unwrap()).into(),
        })
        .collect()
}

/// One batch: the first tokens of each page, one page per row.
fn first_tokens(pages: &[u64]) -> Plan {
    let count = pages.len();
    Plan {
        batch_offsets: vec![0, count as u32],
        page: pages.to_vec(),
        row: vec![0; count],
        first_token: vec![0; count],
        num_tokens: vec![10; count],
        destination_row: (0..count as u32).collect(),
        destination_offset: vec![0; count],
        ..Plan::default()
    }
}

fn next(engine: &Engine) -> Result<Batch> {
    engine
        .next_batch(LONG)
        .map(|batch| batch.expect("the engine hangs"))
}

#[test]
fn random_plans_give_the_reference_at_any_budget_and_thread_count() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let token_type = [TokenType::I64, TokenType::I32, TokenType::U16][random.below(3) as usize];
        let num_threads = 1 + random.below(8) as usize;
        let batch_bytes = config(1, 0, token_type).batch_bytes();
        let budget = batch_bytes + [0, 900, 5_000, 40_000, 1 << 24][random.below(5) as usize];
        let source = Arc::new(Formula {
            in_flight: [0, 0, 1, 5][random.below(4) as usize],
            ..Formula::default()
        });
        let config = config(num_threads, budget, token_type);
        let engine = Engine::new(source.clone(), config).unwrap();
        let num_pages = 1 + random.below(60);
        let mut waiting: Vec<Vec<i64>> = Vec::new();
        let mut kept = Vec::new();
        for _ in 0..4 {
            let num_batches = random.below(40) as usize;
            let (plan, expected) = random_plan(&mut random, num_batches, num_pages);
            engine.submit(plan).unwrap();
            waiting.extend(expected);
            assert_eq!(engine.num_pending(), waiting.len());
            let num_taken = random.below(waiting.len() as u64 + 1) as usize;
            for expected in waiting.drain(..num_taken) {
                let batch = next(&engine).unwrap();
                assert_eq!(batch.bytes().as_ptr() as usize % 64, 0);
                assert_eq!(values(&batch, token_type), expected, "seed {seed}");
                if random.below(4) == 0 {
                    kept.push((batch, expected));
                }
            }
        }
        for expected in waiting {
            assert_eq!(values(&next(&engine).unwrap(), token_type), expected);
        }
        for (batch, expected) in kept {
            assert_eq!(values(&batch, token_type), expected, "reused too early");
        }
        assert_eq!(engine.num_pending(), 0);
    }
}

#[test]
fn each_page_is_loaded_once_when_memory_allows() {
    let source = Arc::new(Formula::default());
    let engine = Engine::new(source.clone(), config(3, 1 << 24, TokenType::I64)).unwrap();
    let (plan, expected) = random_plan(&mut Random(7), 200, 40);
    let used: HashSet<u64> = plan.page.iter().copied().collect();
    engine.submit(plan).unwrap();
    for expected in expected {
        assert_eq!(values(&next(&engine).unwrap(), TokenType::I64), expected);
    }
    assert!(
        source
            .loads
            .lock()
            .unwrap()
            .values()
            .all(|&loads| loads == 1)
    );
    let stats = engine.stats().unwrap();
    assert_eq!(
        (stats.pages_loaded, stats.pages_reloaded),
        (used.len() as u64, 0)
    );
    assert_eq!(stats.bytes_read, 10 * used.len() as u64);
    assert_eq!((stats.batches, stats.held_bytes), (200, 0));
    assert_eq!(stats.tokens, 200 * (ROWS * LENGTH) as u64);
}

/// A batch of pages of which each following one needs all but one.
fn sliding(batch: u64) -> Plan {
    first_tokens(&[0, 3, 6, 9, 12].map(|row| batch + row))
}

#[test]
fn plans_count_until_they_are_taken() {
    let source = Arc::new(Formula::default());
    source.is_held.store(true, Ordering::Relaxed);
    let engine = Engine::new(source.clone(), config(2, 1 << 20, TokenType::U16)).unwrap();
    let empty = engine.plan_bytes();
    let (plan, expected) = random_plan(&mut Random(3), 300, 50);
    let segments = plan.page.len();
    engine.submit(plan).unwrap();
    let planned = engine.plan_bytes();
    assert!((40 * segments..80 * segments + 50_000).contains(&planned));
    source.is_held.store(false, Ordering::Relaxed);
    expected.iter().for_each(|_| drop(next(&engine).unwrap()));
    assert!(engine.stats().unwrap().peak_bytes as usize > planned);
    let table = engine.plan_bytes();
    assert!(table < planned / 4);
    engine.submit(sliding(0)).unwrap();
    assert!(engine.plan_bytes() > table);
    engine.clear().unwrap();
    assert_eq!(engine.plan_bytes(), empty);
}

#[test]
fn memory_stays_within_the_budget_and_is_used_again() {
    let budget = 72_000;
    let source = Arc::new(Formula::default());
    let engine = Engine::new(source.clone(), config(2, budget, TokenType::U16)).unwrap();
    // A sliding window of pages, each used by several batches: pages come and go. None
    // goes before its next use is known.
    source.is_held.store(true, Ordering::Relaxed);
    for batch in 0..40 {
        engine.submit(sliding(batch)).unwrap();
    }
    source.is_held.store(false, Ordering::Relaxed);
    for batch in 0..600 {
        if batch + 40 < 600 {
            engine.submit(sliding(batch + 40)).unwrap();
        }
        let tokens = values(&next(&engine).unwrap(), TokenType::U16);
        assert_eq!(tokens[4 * LENGTH + 3], i64::from(token(batch + 12, 3)));
    }
    let stats = engine.stats().unwrap();
    assert_eq!((stats.pages_loaded, stats.pages_reloaded), (612, 0));
    assert!(stats.peak_bytes as usize <= budget, "{stats:?}");
}

#[test]
fn pages_that_do_not_fit_are_read_again_and_counted() {
    let batch_bytes = config(1, 0, TokenType::I64).batch_bytes();
    let source = Arc::new(Formula::default());
    let config = config(2, 4 * batch_bytes, TokenType::I64);
    let engine = Engine::new(source.clone(), config).unwrap();
    let (plan, expected) = random_plan(&mut Random(3), 60, 50);
    engine.submit(plan).unwrap();
    for expected in expected {
        assert_eq!(values(&next(&engine).unwrap(), TokenType::I64), expected);
    }
    let loads: usize = source.loads.lock().unwrap().values().sum();
    let stats = engine.stats().unwrap();
    assert_eq!(stats.pages_loaded, loads as u64);
    assert!(stats.pages_reloaded > 0);
    let distinct = source.loads.lock().unwrap().len() as u64;
    assert_eq!(stats.pages_reloaded, stats.pages_loaded - distinct);
}

#[test]
fn clearing_at_any_moment_leaves_a_working_engine() {
    let source = Arc::new(Formula {
        delay: Duration::from_micros(30),
        ..Formula::default()
    });
    let engine = Engine::new(source, config(4, 30_000, TokenType::I32)).unwrap();
    let mut random = Random(11);
    for _ in 0..100 {
        let (plan, expected) = random_plan(&mut random, 20, 30);
        engine.submit(plan).unwrap();
        for expected in expected.iter().take(random.below(20) as usize) {
            assert_eq!(&values(&next(&engine).unwrap(), TokenType::I32), expected);
        }
        engine.clear().unwrap();
    }
    let (plan, expected) = random_plan(&mut random, 20, 30);
    engine.submit(plan).unwrap();
    for expected in expected {
        assert_eq!(values(&next(&engine).unwrap(), TokenType::I32), expected);
    }
    assert_eq!(engine.stats().unwrap().held_bytes, 0);
}
