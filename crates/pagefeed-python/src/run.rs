//! The one way from Python into blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use pagefeed_core::error::{Error, Result, catch_panic};
use pyo3::prelude::*;

use crate::error::to_python;

/// Interval at which a blocking call checks for Ctrl-C.
pub const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs short work without the GIL.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| catch_panic(work))
        .map_err(|error| to_python(py, &error))
}

/// Numbers up to which work on them takes some tenths of a millisecond.
const FEW: usize = 1 << 14;

/// Runs work without the GIL, unless `count` numbers are few: a thread that is busy in
/// Python would give the GIL back only after 5 ms.
pub fn detached_if_many<T: Send>(
    py: Python<'_>,
    count: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    if count > FEW {
        return detached(py, work);
    }
    catch_panic(work).map_err(|error| to_python(py, &error))
}

/// Repeats `attempt`, which waits for at most the time it is given, until it has a
/// result; between attempts Ctrl-C and other signals are served.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    attempt: impl Fn(Duration) -> Result<Option<T>> + Sync,
) -> PyResult<T> {
    loop {
        if let Some(result) = detached(py, || attempt(SIGNAL_INTERVAL))? {
            return Ok(result);
        }
        py.check_signals()?;
    }
}

/// Runs long work on a thread, so that this one can handle Ctrl-C: it then sets the
/// flag that `work` gets, which should end soon. It does so, too, if `watch` raises,
/// which is called from time to time and at the end.
pub fn cancellable<T: Send>(
    py: Python<'_>,
    mut watch: impl FnMut() -> PyResult<()>,
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<T> + Send,
) -> PyResult<T> {
    let (cancel, is_done) = (Arc::default(), AtomicBool::new(false));
    let waiting = std::thread::current();
    std::thread::scope(|scope| {
        let run = || {
            let result = catch_panic(|| work(&cancel));
            is_done.store(true, Ordering::Release);
            waiting.unpark();
            result
        };
        let thread = Builder::new()
            .spawn_scoped(scope, run)
            .map_err(|error| to_python(py, &Error::no_thread(&error)))?;
        let mut interrupted = Ok(());
        while interrupted.is_ok() {
            let was_done = is_done.load(Ordering::Acquire);
            interrupted = py.check_signals().and_then(|()| watch());
            if was_done {
                break;
            }
            py.detach(|| std::thread::park_timeout(SIGNAL_INTERVAL));
        }
        cancel.store(true, Ordering::Relaxed);
        let result = py.detach(|| thread.join());
        interrupted?;
        let died = |_| Err(Error::internal("a thread died"));
        result
            .unwrap_or_else(died)
            .map_err(|error| to_python(py, &error))
    })
}
