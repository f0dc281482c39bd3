//! The one runtime of a process: two threads, begun with the first remote read.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pagefeed_core::error::{Error, Result};
use tokio::runtime::{Builder, Handle, Runtime};

struct Begun {
    /// The process whose threads these are: a fork leaves them behind.
    process: u32,
    runtime: Runtime,
}

static BEGUN: AtomicPtr<Begun> = AtomicPtr::new(ptr::null_mut());

/// The runtime of this process.
pub(crate) fn handle() -> Result<Handle> {
    let process = std::process::id();
    let found = BEGUN.load(Ordering::Acquire);
    // SAFETY: what is stored is never freed: its threads live as long as the process.
    if let Some(begun) = unsafe { found.as_ref() }
        && begun.process == process
    {
        return Ok(begun.runtime.handle().clone());
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("pagefeed-remote")
        .enable_all()
        .build()
        .map_err(|error| Error::limit(format!("no thread for remote reads: {error}")))?;
    let handle = runtime.handle().clone();
    let new = Box::into_raw(Box::new(Begun { process, runtime }));
    match BEGUN.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(handle),
        Err(_) => {
            // SAFETY: it was made above, and nobody else has seen it.
            let unused = unsafe { Box::from_raw(new) };
            unused.runtime.shutdown_background();
            self::handle()
        }
    }
}
