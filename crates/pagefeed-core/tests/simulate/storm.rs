//! A long run whose storage is slow at times in the middle: what the engine holds and
//! how long it waits is the same before and after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pagefeed_core::engine::{
    Engine, EngineConfig, Layout, Loading, Page, PageEntry, PageSource, Plan, TokenType,
};
use pagefeed_core::error::Result;
use pagefeed_core::sync::simulated::{Random, fail, sleep};
use pagefeed_core::tokens::{TokenPage, Tokens};

/// Tokens of a page, of which a batch is made.
const LENGTH: usize = 16;
/// Batches that are planned, and those of each part of the run: a storm asks for a few
/// more ahead, and for pages before they are due; then both fall again.
const PLANNED: usize = 1_000;
const CALM: usize = 800;
const STORMY: usize = 640;
const FALLING: usize = 3_000;
/// Batches until the first ones of a new plan are there.
const SETTLING: usize = 20;
/// One page in this number is slow in a storm.
const SLOW: u64 = 160;
const PAUSE: Duration = Duration::from_micros(100);

/// The run, as a seed makes it.
pub struct Storm {
    /// While one waits for a slow page, others continue to the batch that needs it.
    num_threads: usize,
    /// Whether all batches are dropped after the storm, or many come in time.
    clears: bool,
}

#[derive(Default)]
struct Weather {
    is_stormy: AtomicBool,
}

impl PageSource for Weather {
    fn entry(&self, _: u64) -> Result<PageEntry> {
        Ok(PageEntry::new(10, LENGTH * 8 + 16))
    }

    fn decode(&self, page: u64, _: Loading<'_>) -> Result<Page> {
        let is_slow = self.is_stormy.load(Ordering::Relaxed) && page.is_multiple_of(SLOW);
        sleep(match is_slow {
            true => Duration::from_millis(8),
            false => Duration::from_micros(2),
        });
        Ok(Page::Tokens(TokenPage {
            tokens: Tokens::I64(vec![page as i64; LENGTH]),
            row_offsets: vec![0, LENGTH as u32],
            ..TokenPage::default()
        }))
    }
}

/// A part of the run: most bytes of pages in its second half, batches that wait at its
/// end, and batches that were late.
#[derive(Debug)]
struct Seen {
    bytes: u64,
    num_ahead: usize,
    num_late: u64,
}

impl Storm {
    pub fn draw(random: &mut Random) -> Self {
        Self {
            num_threads: random.within(2..=3) as usize,
            clears: random.one_in(4),
        }
    }

    pub fn live(self) {
        let config = EngineConfig {
            num_threads: self.num_threads,
            budget: 4 << 20,
            token_type: TokenType::I64,
            batch_rows: 1,
            row_length: LENGTH,
            columns: Vec::new(),
            row_payload: 0,
            padding: 0,
            layout: Layout::default(),
        };
        let weather = Arc::new(Weather::default());
        let source = Arc::clone(&weather) as Arc<dyn PageSource>;
        let Ok(engine) = Engine::new(source, config) else {
            fail("no engine");
        };
        let mut next = 0..0;
        self.take(&engine, CALM, &mut next);
        let before = self.take(&engine, CALM, &mut next);
        weather.is_stormy.store(true, Ordering::Relaxed);
        let storm = self.take(&engine, STORMY, &mut next);
        weather.is_stormy.store(false, Ordering::Relaxed);
        let is_worse = storm.bytes > 4 * before.bytes && storm.num_ahead > before.num_ahead;
        if storm.num_late == 0 || !is_worse {
            fail(&format!("no storm: {before:?}, {storm:?}"));
        }
        let falling = match self.clears {
            true => {
                next = next.end..next.end;
                drop(engine.clear());
                SETTLING
            }
            false => FALLING,
        };
        self.take(&engine, falling, &mut next);
        let after = self.take(&engine, CALM, &mut next);
        let has_more = after.bytes > before.bytes + before.bytes / 10;
        if has_more || after.num_ahead > before.num_ahead || after.num_late > before.num_late {
            fail(&format!("a storm leaves its mark: {before:?}, {after:?}"));
        }
    }

    /// Takes some batches of those planned, and plans further ones.
    fn take(&self, engine: &Engine, count: usize, planned: &mut std::ops::Range<u64>) -> Seen {
        let begin = engine.stats().unwrap_or_default();
        let mut bytes = 0;
        for number in 0..count {
            if planned.end - planned.start < PLANNED as u64 / 2 {
                let pages = planned.end..planned.start + PLANNED as u64;
                planned.end = pages.end;
                if engine.submit(plan(pages)).is_err() {
                    fail("a plan is refused");
                }
            }
            match engine.next_batch(Duration::from_secs(60)) {
                Ok(Some(batch)) => drop(batch),
                _ => fail("a batch does not come"),
            }
            planned.start += 1;
            if number > count / 2 {
                bytes = bytes.max(engine.stats().unwrap_or_default().held_bytes);
            }
            sleep(PAUSE);
        }
        sleep(100 * PAUSE);
        let end = engine.stats().unwrap_or_default();
        let num_ready = end.batches_ready - begin.batches_ready;
        Seen {
            bytes,
            num_ahead: engine.num_finished(),
            num_late: count as u64 - num_ready,
        }
    }
}

/// A batch of each page.
fn plan(pages: std::ops::Range<u64>) -> Plan {
    let count = (pages.end - pages.start) as usize;
    Plan {
        batch_offsets: (0..=count as u32).collect(),
        page: pages.collect(),
        row: vec![0; count],
        first_token: vec![0; count],
        num_tokens: vec![LENGTH as u32; count],
        destination_row: vec![0; count],
        destination_offset: vec![0; count],
        ..Plan::default()
    }
}
