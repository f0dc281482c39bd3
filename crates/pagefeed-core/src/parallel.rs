//! Work divided among threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use crate::error::{Error, Kind, Result, catch_panic};

/// Does the parts of some work, numbered from 0, on at most `num_threads` threads, this
/// one among them; `make` makes for each thread what does a part.
pub fn on_threads<T, W>(
    num_threads: usize,
    num_parts: usize,
    make: impl Fn() -> W + Sync,
) -> Result<Vec<T>>
where
    T: Send,
    W: FnMut(usize) -> Result<T>,
{
    let num_threads = num_threads.min(num_parts);
    if num_threads < 2 {
        return (0..num_parts).map(make()).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let (mut work, mut done) = (make(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= num_parts {
                return Ok(done);
            }
            done.push((number, catch_panic(|| work(number))?));
        }
    };
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        // Where no thread can be started, the others do the work.
        let threads: Vec<_> = (1..num_threads)
            .filter_map(|_| Builder::new().spawn_scoped(scope, run).ok())
            .collect();
        let mut done: Result<Vec<_>> = run();
        for thread in threads {
            let died = |_| Err(Error::new(Kind::Internal, "a thread died"));
            let theirs = thread.join().unwrap_or_else(died);
            done = done.and_then(|mut all| {
                all.extend(theirs?);
                Ok(all)
            });
        }
        done
    })?;
    done.sort_unstable_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, part)| part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_their_order() {
        for num_threads in [1, 4] {
            let found = on_threads(num_threads, 100, || |number| Ok(2 * number));
            let expected: Vec<usize> = (0..100).map(|number| 2 * number).collect();
            assert_eq!(found.unwrap(), expected);
            let failed = on_threads(num_threads, 9, || {
                |number| match number {
                    5 => Err(Error::invalid("five")),
                    _ => Ok(()),
                }
            });
            assert_eq!(failed.unwrap_err().message(), "five");
        }
    }
}
