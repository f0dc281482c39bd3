//! Tries again, with pauses, until nothing has moved for too long.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use pagefeed_core::error::{Error, Kind, Result};
use tokio::time::{Instant, sleep};

use crate::counters::{Counters, add};
use crate::transport::failure::Failure;
use crate::transport::pulse::Pulse;

/// Pauses grow from the first to the last, doubling.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Answers without a tag, of an object that has one, after which it is asked again.
const MOST_UNTAGGED: u32 = 2;

/// Time limits of attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// While nothing moves.
    pub(crate) deadline: Duration,
    /// In all, where a server asks to wait.
    pub(crate) max_wait: Duration,
}

/// Repeats `attempt` until it succeeds, fails for good, or makes no progress until a
/// deadline; calls `throttled` whenever the server asks for fewer requests.
pub(crate) async fn until_done<T, F: Future<Output = Result<T, Failure>>>(
    limits: Limits,
    counters: &Arc<Counters>,
    throttled: impl Fn(),
    attempt: impl Fn() -> F,
) -> Result<T> {
    let pulse = Pulse::new(Arc::clone(counters));
    let (begin, mut waited, mut untagged) = (Instant::now(), Duration::ZERO, 0);
    let (mut pause, mut last, mut attempts) = (FIRST_PAUSE, String::new(), 0u32);
    loop {
        attempts += 1;
        let (why, after) = match pulse.watch(limits.deadline, attempt()).await {
            Some(Ok(done)) => return Ok(done),
            Some(Err(Failure::Final(error))) => return Err(error),
            Some(Err(Failure::Untagged(error))) => {
                if untagged == MOST_UNTAGGED {
                    return Err(error);
                }
                untagged += 1;
                (error.message().to_string(), None)
            }
            Some(Err(Failure::Again {
                why,
                after,
                is_throttled,
            })) => {
                if is_throttled {
                    throttled();
                }
                (why, after)
            }
            None if last.is_empty() => return Err(overdue(attempts, begin, "no answer")),
            None => return Err(overdue(attempts, begin, &last)),
        };
        let asked = after.unwrap_or_default();
        let wait = pause.mul_f64(jitter()).max(asked);
        waited += asked;
        if Instant::now() + wait >= pulse.end(limits.deadline) {
            if asked.is_zero() {
                return Err(overdue(attempts, begin, &why));
            }
            if waited > limits.max_wait {
                return Err(too_long(asked, limits.max_wait, &why));
            }
            sleep(wait).await;
            pulse.touch();
        } else {
            sleep(wait).await;
        }
        last = why;
        add(&counters.retries, 1);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn too_long(asked: Duration, limit: Duration, why: &str) -> Error {
    Error::new(
        Kind::Io(ErrorKind::TimedOut),
        format!(
            "{why} and asks to wait {} s, which with waits before is more than the {} s of \
             storage_options={{\"max_wait\": SECONDS}}: try again then, or give more",
            asked.as_secs(),
            limit.as_secs()
        ),
    )
}

fn overdue(attempts: u32, begin: Instant, why: &str) -> Error {
    let seconds = begin.elapsed().as_secs_f64();
    let times = if attempts == 1 { "attempt" } else { "attempts" };
    Error::new(
        Kind::Io(ErrorKind::TimedOut),
        format!(
            "the storage cannot be reached: {attempts} {times} in {seconds:.1} s, at last: \
             {why}; storage_options={{\"deadline\": SECONDS}} sets for how long nothing may \
             arrive"
        ),
    )
}

/// A number from a half to one, so that processes that failed together do not return together.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(()) >> 11;
    0.5 + random as f64 / (1u64 << 54) as f64
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn within(milliseconds: u64) -> Limits {
        Limits {
            deadline: Duration::from_millis(milliseconds),
            max_wait: Duration::from_secs(1),
        }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn failures_pass() {
        let (counters, left) = (Arc::default(), Cell::new(2));
        let attempt = || async {
            left.set(left.get() - 1);
            if left.get() > 0 {
                Err(Failure::again("busy"))
            } else {
                Ok(7)
            }
        };
        let done = run(until_done(within(60_000), &counters, || (), attempt));
        assert_eq!(done.unwrap(), 7);
        assert_eq!(counters.counts().retries, 1);
    }

    #[test]
    fn one_deadline_ends_it() {
        let counters = Arc::default();
        let busy = || async { Err::<(), _>(Failure::again("busy")) };
        let error = run(until_done(within(250), &counters, || (), busy)).unwrap_err();
        assert_eq!(error.kind(), Kind::Io(ErrorKind::TimedOut));
        assert!(error.message().contains("busy"), "{error}");
        let silent = || std::future::pending::<Result<(), Failure>>();
        let error = run(until_done(within(50), &counters, || (), silent)).unwrap_err();
        assert!(error.message().contains("no answer"), "{error}");
    }

    #[test]
    fn what_the_server_asks_is_done() {
        let counters = Arc::default();
        let later = || async {
            Err::<(), _>(Failure::Again {
                why: "429".into(),
                after: Some(Duration::from_secs(3600)),
                is_throttled: true,
            })
        };
        let begin = std::time::Instant::now();
        let error = run(until_done(within(60_000), &counters, || (), later)).unwrap_err();
        assert!(error.message().contains("wait 3600 s"), "{error}");
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it does not wait in vain"
        );
    }

    #[test]
    fn a_wait_beyond_the_deadline_is_waited_for() {
        let (counters, left) = (Arc::default(), Cell::new(3));
        let later = || async {
            left.set(left.get() - 1);
            if left.get() == 0 {
                return Ok(7);
            }
            Err(Failure::Again {
                why: "429".into(),
                after: Some(Duration::from_millis(200)),
                is_throttled: true,
            })
        };
        assert_eq!(
            run(until_done(within(50), &counters, || (), later)).unwrap(),
            7
        );
        left.set(1000);
        let error = run(until_done(within(50), &counters, || (), later)).unwrap_err();
        assert!(error.message().contains("max_wait"), "{error}");
    }

    #[test]
    fn an_attempt_after_a_wait_that_was_asked_for_has_its_whole_deadline() {
        let (counters, attempts) = (Arc::default(), Cell::new(0));
        let attempt = || async {
            attempts.set(attempts.get() + 1);
            if attempts.get() > 1 {
                sleep(Duration::from_millis(200)).await;
                return Ok(7);
            }
            Err(Failure::Again {
                why: "429".into(),
                after: Some(Duration::from_millis(600)),
                is_throttled: true,
            })
        };
        let done = run(until_done(within(500), &counters, || (), attempt));
        assert_eq!(done.unwrap(), 7);
    }

    #[test]
    fn pauses_double() {
        let (counters, begins) = (Arc::default(), RefCell::new(Vec::new()));
        let attempt = || async {
            begins.borrow_mut().push(Instant::now());
            match begins.borrow().len() {
                4 => Ok(()),
                _ => Err(Failure::again("busy")),
            }
        };
        run(until_done(within(60_000), &counters, || (), attempt)).unwrap();
        let begins = begins.borrow();
        let pauses = begins.windows(2).map(|pair| pair[1] - pair[0]);
        let pauses: Vec<u128> = pauses.map(|pause| pause.as_millis()).collect();
        let least = [50, 100, 200];
        assert!(
            pauses
                .iter()
                .zip(least)
                .all(|(pause, least)| *pause >= least),
            "{pauses:?}"
        );
    }

    #[test]
    fn a_missing_tag_is_asked_for_again_and_then_told() {
        let counters: Arc<Counters> = Arc::default();
        for (is_dated, word) in [(false, "no ETag"), (true, "changed since")] {
            let untagged = || async { Err::<(), _>(Failure::untagged(is_dated)) };
            let error = run(until_done(within(60_000), &counters, || (), untagged)).unwrap_err();
            assert!(error.message().contains(word), "{error}");
        }
        assert_eq!(counters.counts().retries, 4);
    }

    #[test]
    fn jitter_is_from_a_half_to_one() {
        assert!((0..1000).all(|_| (0.5..=1.0).contains(&jitter())));
    }
}
