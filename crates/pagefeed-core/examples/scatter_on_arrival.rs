//! Two ways from decoded pages to shuffled batches, with nothing but the moving of tokens.
//!
//! Held: pages wait in memory, as narrow as they were decoded, and each batch takes its
//! rows from them. On arrival: a page's rows go straight into the batches that wait for
//! them, wide, all batches of the window being open. Both write each page once as a
//! decoder does, and read a few tokens of each finished batch.
//!
//! ```text
//! cargo run --release -p pagefeed-core --example scatter_on_arrival
//! ```

use std::time::Instant;

const ROW: usize = 2048;
const PAGE_ROWS: usize = 16;
const BATCH_ROWS: usize = 64;
const BATCH: usize = BATCH_ROWS * ROW;
/// Batches whose memory is used in turn while pages are held.
const READY: usize = 16;
const ROUNDS: usize = 5;

/// Numbers that look random (a linear congruential generator's upper bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Result of decoding: every token of a page is written once.
fn decode(page: &mut [u16], number: usize) {
    for (place, token) in page.iter_mut().enumerate() {
        *token = (place ^ number) as u16;
    }
}

fn widen(source: &[u16], target: &mut [i64]) {
    for (token, &value) in target.iter_mut().zip(source) {
        *token = i64::from(value);
    }
}

fn touch(batch: &[i64]) -> i64 {
    batch.iter().step_by(512).sum()
}

/// A window of pages is held; a batch takes rows of random pages in it.
fn held(window_pages: usize, num_batches: usize, numbers: &mut Numbers) -> (f64, i64) {
    let mut pages = vec![1u16; window_pages * PAGE_ROWS * ROW];
    let mut batches = vec![1i64; READY * BATCH];
    let (begin, mut sum) = (Instant::now(), 0);
    for batch in 0..num_batches {
        for number in 0..BATCH_ROWS / PAGE_ROWS {
            let slot = (batch * BATCH_ROWS / PAGE_ROWS + number) % window_pages;
            let start = slot * PAGE_ROWS * ROW;
            decode(&mut pages[start..start + PAGE_ROWS * ROW], batch);
        }
        let target = &mut batches[batch % READY * BATCH..][..BATCH];
        for row in target.chunks_exact_mut(ROW) {
            let place = numbers.below(window_pages * PAGE_ROWS);
            widen(&pages[place * ROW..][..ROW], row);
        }
        sum += touch(target);
    }
    (begin.elapsed().as_secs_f64(), sum)
}

/// All batches of a window are open; a page's rows go to random ones of them.
fn on_arrival(window_pages: usize, num_batches: usize, numbers: &mut Numbers) -> (f64, i64) {
    let window_rows = window_pages * PAGE_ROWS;
    let num_open = window_rows / BATCH_ROWS;
    let mut page = vec![1u16; PAGE_ROWS * ROW];
    let mut batches = vec![1i64; num_open * BATCH];
    let (begin, mut sum) = (Instant::now(), 0);
    for batch in 0..num_batches {
        for _ in 0..BATCH_ROWS / PAGE_ROWS {
            decode(&mut page, batch);
            for row in page.chunks_exact(ROW) {
                let place = numbers.below(window_rows);
                widen(row, &mut batches[place * ROW..][..ROW]);
            }
        }
        sum += touch(&batches[batch % num_open * BATCH..][..BATCH]);
    }
    (begin.elapsed().as_secs_f64(), sum)
}

fn main() {
    let window_pages = 1524; // A window of 24,384 rows.
    let num_batches = 3000;
    let per_token = 1e9 / (num_batches * BATCH) as f64;
    let mut numbers = Numbers(1);
    for _ in 0..ROUNDS {
        let (held_seconds, first) = held(window_pages, num_batches, &mut numbers);
        let (arrival_seconds, second) = on_arrival(window_pages, num_batches, &mut numbers);
        println!(
            "seconds for 1e9 tokens: held {:.2}, on arrival {:.2} ({})",
            held_seconds * per_token,
            arrival_seconds * per_token,
            first ^ second,
        );
    }
}
