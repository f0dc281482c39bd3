//! The pages that the consumer waits for, and the work of the threads meanwhile.

use super::{Engine, PageSource};
use crate::error::{Error, Kind, Location, Result};

/// Most places of pages in an answer.
const MOST_PLACES: usize = 64;

/// Pages that the batch at the head waits for; empty if it is finished, or there is none.
#[derive(Debug, Default)]
pub struct Awaited {
    /// Places of some of the pages.
    pub places: Vec<Location>,
    /// Number of all of them.
    pub num_pages: usize,
    /// Their bytes as stored, as far as known.
    pub num_bytes: usize,
    /// Threads that decode and write, and those of them that have no work.
    pub workers: (usize, usize),
    /// Fetches from afar that are under way, and the most that may be.
    pub fetches: (usize, usize),
}

impl Engine {
    /// Returns what the batch at the head waits for. Never waits for the workers.
    pub fn awaited(&self) -> Result<Awaited> {
        self.check_process()?;
        let source: &dyn PageSource = &*self.shared.source;
        let (pages, idle, num_fetching) = {
            let state = self.shared.lock();
            (state.awaited(), state.num_idle, state.num_fetching)
        };
        let place = |&page: &u64| {
            let nowhere = Error::new(Kind::Cancelled, "");
            source.locate(nowhere, page).location().clone()
        };
        Ok(Awaited {
            places: pages.iter().take(MOST_PLACES).map(place).collect(),
            num_pages: pages.len(),
            num_bytes: pages
                .iter()
                .map(|&page| source.entry(page).unwrap_or_default().stored_size)
                .sum(),
            workers: (self.shared.config.num_threads, idle),
            fetches: (num_fetching, source.num_in_flight()),
        })
    }
}
