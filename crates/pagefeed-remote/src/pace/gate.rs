//! Limits the requests under way, and adapts the limit to the measured rate.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pagefeed_core::error::{Error, Kind, Result};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::counters::Counters;
use crate::pace::{Depth, Durations};
use crate::transport::pulse::queued;

/// A round lasts at least this long, since shorter ones measure little.
const LEAST_ROUND: Duration = Duration::from_millis(250);

/// A round ends after this, however few requests were done in it.
const LONGEST_ROUND: Duration = Duration::from_secs(2);

/// Within this time several requests to slow down count as one.
const CALM: Duration = Duration::from_secs(1);

/// Limits requests, measures them, and adapts the limit.
pub(crate) struct Gate {
    counters: Arc<Counters>,
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
    /// Bytes that had arrived when it began.
    bytes: u64,
    requests: u32,
    /// Total time of these requests.
    time: Duration,
    /// Whether a request had to wait.
    is_full: bool,
}

impl Round {
    fn new(counters: &Counters) -> Self {
        Self {
            begin: Instant::now(),
            bytes: counters.bytes_fetched.load(Ordering::Relaxed),
            requests: 0,
            time: Duration::ZERO,
            is_full: false,
        }
    }
}

impl Gate {
    pub(crate) fn new(most: usize, counters: Arc<Counters>) -> Self {
        let depth = Depth::new(most);
        Self {
            permits: Semaphore::new(depth.limit()),
            state: Mutex::new(State {
                permits: depth.limit(),
                throttled: None,
                depth,
                durations: Durations::default(),
                round: Round::new(&counters),
            }),
            counters,
        }
    }

    /// Waits until one more request may be under way.
    pub(crate) async fn enter(&self) -> Result<Pass<'_>> {
        if self.permits.available_permits() == 0 {
            self.lock().round.is_full = true;
        }
        let closed = |_| Error::new(Kind::Cancelled, "the storage was closed");
        let acquired = async {
            loop {
                match timeout(LONGEST_ROUND, self.permits.acquire()).await {
                    Ok(permit) => return permit,
                    // Those under way may be large and slow.
                    Err(_) => self.end_round(&mut self.lock()),
                }
            }
        };
        queued(acquired).await.map_err(closed)?.forget();
        Ok(Pass { gate: self })
    }

    /// Number of requests to have begun. A few wait, which shows that the limit may be too
    /// low; more would come in the order of their tasks, not of their need.
    pub(crate) fn num_wanted(&self) -> usize {
        self.lock().depth.num_wanted()
    }

    /// Bytes of one request, at most.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.lock().depth.request_bytes()
    }

    /// Notes the bytes and time of a request.
    pub(crate) fn measure(&self, bytes: u64, time: Duration) {
        let mut state = self.lock();
        state.durations.note(bytes, time);
        state.round.requests += 1;
        state.round.time += time;
        self.end_round(&mut state);
    }

    /// Ends a round, if it is over, and adapts the limit.
    fn end_round(&self, state: &mut State) {
        let elapsed = state.round.begin.elapsed();
        let is_over = state.round.requests as usize >= state.depth.limit();
        if elapsed < LEAST_ROUND || (!is_over && elapsed < LONGEST_ROUND) {
            return;
        }
        let round = std::mem::replace(&mut state.round, Round::new(&self.counters));
        let bytes = state.round.bytes - round.bytes;
        if bytes == 0 {
            return; // A server that answers nothing says nothing about the line.
        }
        // If none is done yet, each takes longer than the round.
        let time = round
            .time
            .checked_div(round.requests)
            .unwrap_or(elapsed * 2);
        if !state.depth.suit(time) && round.is_full {
            state.depth.end_round(bytes as f64 / elapsed.as_secs_f64());
            self.give_out(state);
        }
    }

    /// Lowers the limit, as the server asked. The requests under way at that time all
    /// get this answer, which counts once.
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
            let gate = Gate::new(8, Arc::default());
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
