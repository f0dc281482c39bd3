//! The one way from Python into blocking work.

use std::time::Duration;

use pagefeed_core::Result;
use pyo3::prelude::*;

use crate::error::to_python;

/// How often a blocking call looks for Ctrl-C.
pub const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs short work without the GIL.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| pagefeed_core::error::catch_panic(work))
        .map_err(|error| to_python(py, &error))
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
