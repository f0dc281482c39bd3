//! Work divided among threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result, catch_panic};
use crate::sync::thread::{self, Builder};

/// Runs tasks, numbered from 0, on at most `num_threads` threads
/// including this one. `make` returns the function that runs tasks on a thread.
///
/// Returns the results in order, or the error of the lowest number.
pub fn on_threads<T, W>(
    num_threads: usize,
    num_tasks: usize,
    make: impl Fn() -> W + Sync,
) -> Result<Vec<T>>
where
    T: Send,
    W: FnMut(usize) -> Result<T>,
{
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let run = || {
        let (mut work, mut done) = (make(), Vec::new());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            // Numbers below a failed one continue: one of them may fail, too.
            if index >= num_tasks || index > failed.load(Ordering::Relaxed) {
                return done;
            }
            let result = catch_panic(|| work(index));
            if result.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            done.push((index, result));
        }
    };
    let mut done = thread::scope(|scope| {
        // If the system gives no more threads, the existing ones do the work.
        let threads: Vec<_> = (1..num_threads.min(num_tasks))
            .map_while(|_| Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let mut done = run();
        for thread in threads {
            let died = |_| vec![(0, Err(Error::internal("a thread died")))];
            done.extend(thread.join().unwrap_or_else(died));
        }
        done
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_their_order() {
        for num_threads in [1, 4] {
            let doubled = on_threads(num_threads, 100, || |index| Ok(2 * index));
            let expected: Vec<usize> = (0..100).map(|index| 2 * index).collect();
            assert_eq!(doubled.unwrap(), expected);
            let failed = on_threads(num_threads, 9, || {
                |index| match index {
                    5 => Err(Error::invalid("five")),
                    _ => Ok(()),
                }
            });
            assert_eq!(failed.unwrap_err().message(), "five");
        }
    }
}
