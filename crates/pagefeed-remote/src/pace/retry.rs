//! Tries again, with pauses, until one deadline.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::time::Duration;

use pagefeed_core::error::{Error, Kind, Result};
use tokio::time::{Instant, sleep, timeout_at};

use crate::counters::{Counters, add};
use crate::transport::failure::Failure;

/// Pauses grow from the first to the last, doubling.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Repeats `attempt` until it succeeds, cannot succeed, or `deadline` has passed; calls
/// `throttled` whenever the server asks for fewer requests.
pub(crate) async fn until_done<T, F: Future<Output = Result<T, Failure>>>(
    deadline: Duration,
    counters: &Counters,
    throttled: impl Fn(),
    attempt: impl Fn() -> F,
) -> Result<T> {
    let begin = Instant::now();
    let end = begin + deadline;
    let (mut pause, mut last, mut number) = (FIRST_PAUSE, String::new(), 0u32);
    loop {
        number += 1;
        let (why, after) = match timeout_at(end, attempt()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(Failure::Final(error))) => return Err(error),
            Ok(Err(Failure::Again {
                why,
                after,
                is_throttled,
            })) => {
                if is_throttled {
                    throttled();
                }
                (why, after)
            }
            Err(_) if last.is_empty() => return Err(overdue(number, begin, "no answer")),
            Err(_) => return Err(overdue(number, begin, &last)),
        };
        let wait = pause.mul_f64(jitter()).max(after.unwrap_or_default());
        if Instant::now() + wait >= end {
            return Err(overdue(number, begin, &why));
        }
        last = why;
        sleep(wait).await;
        add(&counters.retries, 1);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn overdue(attempts: u32, begin: Instant, why: &str) -> Error {
    let seconds = begin.elapsed().as_secs_f64();
    let times = if attempts == 1 { "attempt" } else { "attempts" };
    Error::new(
        Kind::Io(ErrorKind::TimedOut),
        format!(
            "the storage cannot be reached: {attempts} {times} in {seconds:.1} s, at last: \
             {why}; storage_options={{\"deadline\": SECONDS}} sets how long it is tried"
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
    use std::cell::Cell;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn failures_pass() {
        let (counters, left) = (Counters::default(), Cell::new(2));
        let attempt = || async {
            left.set(left.get() - 1);
            if left.get() > 0 {
                Err(Failure::again("busy"))
            } else {
                Ok(7)
            }
        };
        let done = run(until_done(
            Duration::from_secs(60),
            &counters,
            || (),
            attempt,
        ));
        assert_eq!(done.unwrap(), 7);
        assert_eq!(counters.counts().retries, 1);
    }

    #[test]
    fn one_deadline_ends_it() {
        let counters = Counters::default();
        let busy = || async { Err::<(), _>(Failure::again("busy")) };
        let error = run(until_done(
            Duration::from_millis(250),
            &counters,
            || (),
            busy,
        ))
        .unwrap_err();
        assert_eq!(error.kind(), Kind::Io(ErrorKind::TimedOut));
        assert!(error.message().contains("busy"), "{error}");
        let silent = || std::future::pending::<Result<(), Failure>>();
        let error = run(until_done(
            Duration::from_millis(50),
            &counters,
            || (),
            silent,
        ))
        .unwrap_err();
        assert!(error.message().contains("no answer"), "{error}");
    }

    #[test]
    fn what_the_server_asks_is_done() {
        let counters = Counters::default();
        let later = || async {
            Err::<(), _>(Failure::Again {
                why: "429".into(),
                after: Some(Duration::from_secs(3600)),
                is_throttled: true,
            })
        };
        let begin = Instant::now();
        let error = run(until_done(Duration::from_secs(60), &counters, || (), later)).unwrap_err();
        assert!(error.message().contains("1 attempt in"), "{error}");
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it does not wait in vain"
        );
    }

    #[test]
    fn jitter_is_from_a_half_to_one() {
        assert!((0..1000).all(|_| (0.5..=1.0).contains(&jitter())));
    }
}
