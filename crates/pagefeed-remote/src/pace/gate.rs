//! Limits the requests under way, and adapts the limit to the measured rate.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pagefeed_core::error::{Error, Kind, Result};
use tokio::sync::Semaphore;

use crate::pace::{Depth, Durations};

/// A round lasts at least this long, since shorter ones measure little.
const LEAST_ROUND: Duration = Duration::from_millis(250);

/// Within this time several requests to slow down count as one.
const CALM: Duration = Duration::from_secs(1);

/// Limits requests, measures them, and adapts the limit.
pub(crate) struct Gate {
    permits: Semaphore,
    state: Mutex<State>,
}

struct State {
    depth: Depth,
    durations: Durations,
    /// Number of permits, given out or not.
    permits: usize,
    /// When the server last asked to slow down.
    throttled: Option<Instant>,
    round: Round,
}

struct Round {
    begin: Instant,
    bytes: u64,
    requests: usize,
    /// Whether a request had to wait.
    is_full: bool,
}

impl Round {
    fn new() -> Self {
        Self {
            begin: Instant::now(),
            bytes: 0,
            requests: 0,
            is_full: false,
        }
    }
}

impl Gate {
    pub(crate) fn new(most: usize) -> Self {
        let depth = Depth::new(most);
        Self {
            permits: Semaphore::new(depth.limit()),
            state: Mutex::new(State {
                permits: depth.limit(),
                throttled: None,
                depth,
                durations: Durations::default(),
                round: Round::new(),
            }),
        }
    }

    /// Waits until one more request may be under way.
    pub(crate) async fn enter(&self) -> Result<Pass<'_>> {
        if self.permits.available_permits() == 0 {
            self.lock().round.is_full = true;
        }
        let closed = |_| Error::new(Kind::Cancelled, "the storage was closed");
        self.permits.acquire().await.map_err(closed)?.forget();
        Ok(Pass { gate: self })
    }

    /// Notes the bytes and time of a request.
    pub(crate) fn measure(&self, bytes: u64, time: Duration) {
        let mut state = self.lock();
        state.durations.note(bytes, time);
        state.round.bytes += bytes;
        state.round.requests += 1;
        let elapsed = state.round.begin.elapsed();
        if state.round.requests < state.depth.limit() || elapsed < LEAST_ROUND {
            return;
        }
        let round = std::mem::replace(&mut state.round, Round::new());
        if round.is_full {
            let rate = round.bytes as f64 / elapsed.as_secs_f64();
            state.depth.end_round(rate);
            self.give_out(&mut state);
        }
    }

    /// Lowers the limit, as the server asked. The requests under way at that time all get this
    /// answer, which counts once.
    pub(crate) fn throttle(&self) {
        let mut state = self.lock();
        if state.throttled.is_none_or(|last| last.elapsed() > CALM) {
            state.throttled = Some(Instant::now());
            state.depth.throttle();
        }
    }

    /// After what time a request of this size is slow.
    pub(crate) fn slow(&self, bytes: u64) -> Duration {
        self.lock().durations.slow(bytes)
    }

    fn give_out(&self, state: &mut State) {
        let more = state.depth.limit().saturating_sub(state.permits);
        self.permits.add_permits(more);
        state.permits += more;
    }

    fn leave(&self) {
        let mut state = self.lock();
        // After the limit fell, permits that come back are not given out again.
        state.permits -= 1;
        self.give_out(&mut state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permits one request until this is dropped, also at a deadline.
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pass_than_may_be_under_way() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(async {
            let gate = Gate::new(8);
            let mut passes = Vec::new();
            for _ in 0..8 {
                passes.push(gate.enter().await.unwrap());
            }
            assert_eq!(gate.permits.available_permits(), 0);
            gate.throttle();
            gate.throttle();
            passes.truncate(5);
            assert_eq!(gate.permits.available_permits(), 0, "fewer are wanted");
            passes.truncate(2);
            assert_eq!(gate.permits.available_permits(), 2);
        });
    }
}
