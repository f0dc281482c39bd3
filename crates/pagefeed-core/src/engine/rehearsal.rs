//! The engine without bytes: its schedule decides as usual, and pages that would be read
//! are empty memory of the size they would have.

use std::collections::{HashMap, VecDeque};

use super::Page;
use super::job::Job;
use super::schedule::State;
use super::worker::{Role, Shared};
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
    let threads = [
        (Role::Worker, shared.config.num_threads),
        (Role::Fetcher, source.num_in_flight()),
    ];
    let (mut idle, mut running) = (threads.map(|(_, count)| count), VecDeque::new());
    let mut opener = PageOpener::default();
    loop {
        for (number, (role, _)) in threads.into_iter().enumerate() {
            while idle[number] > 0
                && let Some(job) = state.next_job(role, source)
            {
                idle[number] -= 1;
                running.push_back((number, job));
            }
        }
        let Some((number, job)) = running.pop_front() else {
            return Ok(());
        };
        idle[number] += 1;
        match job {
            Job::Fetch(jobs) => {
                let nothing = jobs.iter().map(|_| Vec::new()).collect();
                state.end_fetch(jobs, Ok(nothing));
            }
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
