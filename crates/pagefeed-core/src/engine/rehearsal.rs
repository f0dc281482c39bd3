//! The engine without bytes: its schedule decides as usual, and pages that would be read
//! are empty memory of the size they would have.

use std::collections::{HashMap, VecDeque};

use super::Page;
use super::job::{Job, LoadJob};
use super::schedule::State;
use super::worker::Shared;
use crate::error::Result;
use crate::page::PageOpener;
use crate::tokens::{TokenPage, Tokens};

/// Account of a rehearsal.
#[derive(Debug, Default)]
pub struct Rehearsed {
    /// Pages that were loaded, in order.
    pub loaded: Vec<u64>,
    /// Page of each use by a batch, in order, and its bytes in memory.
    pub uses: Vec<(u64, usize)>,
    /// Pages of each kind that were read to know their sizes: their number, their bytes,
    /// and the estimate of these bytes.
    seen: HashMap<usize, (usize, usize, usize)>,
}

impl Rehearsed {
    /// Takes the account; sizes of pages stay known.
    pub fn take(&mut self) -> Self {
        Self {
            loaded: std::mem::take(&mut self.loaded),
            uses: std::mem::take(&mut self.uses),
            seen: HashMap::new(),
        }
    }
}

/// Work that has begun.
#[expect(clippy::large_enum_variant, reason = "there is little of it")]
enum Running {
    Job(Job),
    Fetch(Vec<LoadJob>),
}

/// Pages of each kind that are read, to know how large they are in memory.
const NUM_READ: usize = 2;

/// Does, in this thread, what the threads would do until all of them would sleep. Each
/// job takes as long as the others.
pub(super) fn rehearse(
    shared: &Shared,
    state: &mut State,
    rehearsed: &mut Rehearsed,
) -> Result<()> {
    let source = &*shared.source;
    let (mut num_idle, mut running) = (shared.config.num_threads, VecDeque::new());
    let mut opener = PageOpener::default();
    loop {
        while num_idle > 0
            && let Some(job) = state.next_job(source)
        {
            num_idle -= 1;
            running.push_back(Running::Job(job));
        }
        let fetches = state.begin_fetches(source).into_iter();
        running.extend(fetches.map(Running::Fetch));
        let job = match running.pop_front() {
            None => return Ok(()),
            Some(Running::Fetch(jobs)) => {
                let nothing = jobs.iter().map(|_| Vec::new()).collect();
                state.end_fetch(jobs, Ok(nothing));
                continue;
            }
            Some(Running::Job(job)) => job,
        };
        num_idle += 1;
        match job {
            Job::Load(mut job) => {
                rehearsed.loaded.push(job.page.page);
                let (kind, _) = state.thought_of(source, job.slot);
                let (count, read, thought) = rehearsed.seen.entry(kind).or_default();
                let page = match *count < NUM_READ {
                    true => job.decode(source, &shared.config, &mut opener).ok(),
                    false => None,
                };
                // After the page was read, as sources learn from it.
                let (_, mut bytes) = state.thought_of(source, job.slot);
                if let Some(page) = &page {
                    *count += 1;
                    *read += page.num_bytes();
                    *thought += bytes.max(1);
                } else if *thought > 0 {
                    bytes = (bytes as f64 * *read as f64 / *thought as f64) as usize;
                }
                let empty = || Page::Tokens(sized(bytes));
                let page = page.unwrap_or_else(empty);
                state.end_load(&job, Ok(page));
            }
            Job::Gather(mut job) => {
                let uses = job.plan.uses(job.number_in_plan).iter();
                rehearsed
                    .uses
                    .extend(uses.zip(&job.pages).filter_map(|(&number, page)| {
                        let bytes = page.as_ref()?.num_bytes();
                        Some((job.plan.pages[number as usize].page, bytes))
                    }));
                job.thought_bytes = job.plan.config.batch_bytes();
                let result = job.allocate();
                state.end_gather(job, result);
            }
        }
        state.take_garbage().discard();
    }
}

/// A page of some bytes of memory, in which nothing was written.
fn sized(bytes: usize) -> TokenPage {
    TokenPage {
        tokens: Tokens::U16(Vec::with_capacity(bytes / 2)),
        ..TokenPage::default()
    }
}
