//! Whether a read or an upload moves: a deadline ends what stands still, not what is slow.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::counters::{Counters, add};

tokio::task_local! {
    static PULSE: Arc<Pulse>;
}

/// When the bytes of one read last moved.
pub(crate) struct Pulse {
    counters: Arc<Counters>,
    last: Mutex<Instant>,
    /// Bytes of the longest answer so far.
    most: AtomicU64,
    /// Whether the read waits for others of this process.
    is_queued: AtomicBool,
    /// Attempts that were ended because they stood still.
    stuck: AtomicU32,
    /// Uploads whose connection was closed before an answer.
    cut: AtomicU32,
}

/// Time that an upload whose connection was closed waits for an answer to its headers. A
/// server that refuses them may close it, and bytes sent afterwards would discard its
/// answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Pauses double this often.
const MOST_DOUBLINGS: u32 = 3;

impl Pulse {
    pub(crate) fn new(counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Self {
            counters,
            last: Mutex::new(Instant::now()),
            most: AtomicU64::new(0),
            is_queued: AtomicBool::new(false),
            stuck: AtomicU32::new(0),
            cut: AtomicU32::new(0),
        })
    }

    /// Time that the next attempt may stand still: twice as long after each that did.
    /// The system accepts megabytes of an upload at once, which a slow line then needs
    /// long to send.
    pub(crate) fn patience(&self, first: Duration) -> Duration {
        let doublings = self.stuck.load(Ordering::Relaxed).min(16);
        first * 2_u32.pow(doublings)
    }

    /// Notes that an attempt was ended because it stood still.
    pub(crate) fn note_stuck(&self) {
        self.stuck.fetch_add(1, Ordering::Relaxed);
    }

    /// Delay of the body of the next attempt.
    pub(crate) fn pause(&self) -> Duration {
        match self.cut.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            times => PAUSE * 2_u32.pow((times - 1).min(MOST_DOUBLINGS)),
        }
    }

    /// Notes that the connection of an upload was closed before an answer.
    pub(crate) fn note_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs an attempt until it is done, or stands still for `limit` (then `None`). A
    /// failed attempt counts as progress only beyond the earlier ones.
    pub(crate) async fn watch<T, E>(
        self: &Arc<Self>,
        limit: Duration,
        attempt: impl Future<Output = Result<T, E>>,
    ) -> Option<Result<T, E>> {
        let (last, most) = (self.last(), self.most.load(Ordering::Relaxed));
        let mut attempt = Box::pin(PULSE.scope(Arc::clone(self), attempt));
        loop {
            match timeout_at(self.end(limit), attempt.as_mut()).await {
                Ok(Err(failure)) => {
                    if self.most.load(Ordering::Relaxed) == most {
                        self.set(last);
                    }
                    return Some(Err(failure));
                }
                Ok(done) => return Some(done),
                Err(_) if self.end(limit) > Instant::now() => {}
                Err(_) => return None,
            }
        }
    }

    /// When it has stood still for `limit`.
    pub(crate) fn end(&self, limit: Duration) -> Instant {
        if self.is_queued.load(Ordering::Relaxed) {
            return Instant::now() + limit;
        }
        self.last() + limit
    }

    /// Notes that `sent` bytes of a request have left.
    pub(crate) fn left(&self, sent: u64) {
        self.most.fetch_max(sent, Ordering::Relaxed);
        self.touch();
    }

    /// Notes that the read moves now.
    pub(crate) fn touch(&self) {
        self.set(Instant::now());
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, last: Instant) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }
}

/// Returns the pulse of the running task, for other tasks that work for it.
pub(crate) fn current() -> Option<Arc<Pulse>> {
    PULSE.try_with(Arc::clone).ok()
}

/// Counts a request.
pub(crate) fn asked() {
    let _ = PULSE.try_with(|pulse| add(&pulse.counters.requests, 1));
}

/// Records that `bytes` more of an answer arrived, `come` in all.
pub(crate) fn arrived(bytes: u64, come: u64) {
    // Only tests read outside of a watch.
    let _ = PULSE.try_with(|pulse| {
        add(&pulse.counters.bytes_fetched, bytes);
        pulse.most.fetch_max(come, Ordering::Relaxed);
        pulse.touch();
    });
}

/// Waits in a queue of this process, which does not count as silence of the server.
pub(crate) async fn queued<T>(wait: impl Future<Output = T>) -> T {
    let note = |is_queued| {
        let _ = PULSE.try_with(|pulse| {
            pulse.touch();
            pulse.is_queued.store(is_queued, Ordering::Relaxed);
        });
    };
    note(true);
    let done = wait.await;
    note(false);
    done
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const TICK: Duration = Duration::from_millis(30);

    fn watched(
        attempt: impl Future<Output = Result<(), ()>>,
    ) -> (Option<Result<(), ()>>, Duration) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let pulse = Pulse::new(Arc::default());
            let begin = Instant::now();
            let done = pulse.watch(TICK * 3, attempt).await;
            (
                done,
                pulse.end(Duration::ZERO).saturating_duration_since(begin),
            )
        })
    }

    #[test]
    fn what_moves_is_not_ended() {
        let slow = async {
            for n in 1..20 {
                sleep(TICK).await;
                arrived(1, n);
            }
            queued(sleep(TICK * 10)).await;
            Ok(())
        };
        assert_eq!(watched(slow).0, Some(Ok(())));
        let stops = async {
            arrived(1, 1);
            std::future::pending().await
        };
        assert_eq!(watched(stops).0, None);
    }

    #[test]
    fn an_attempt_that_comes_no_further_has_not_moved() {
        let breaks = |come| async move {
            sleep(TICK).await;
            arrived(1, come);
            Err(())
        };
        assert!(watched(breaks(5)).1 >= TICK);
        assert!(watched(breaks(0)).1 < TICK);
    }
}
