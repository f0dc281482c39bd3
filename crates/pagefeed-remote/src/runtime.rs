//! The one runtime of a process. Its two threads start with the first remote read.

use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use pagefeed_core::error::{Error, Kind, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use tokio::time::sleep;

struct Begun {
    /// Process that started the threads: a forked child does not have them.
    process: u32,
    runtime: Runtime,
}

static BEGUN: AtomicPtr<Begun> = AtomicPtr::new(ptr::null_mut());

/// The runtime of this process.
pub(crate) fn handle() -> Result<Handle> {
    let process = std::process::id();
    let stored = BEGUN.load(Ordering::Acquire);
    // SAFETY: what is stored is never freed: its threads live as long as the process.
    if let Some(begun) = unsafe { stored.as_ref() }
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
    match BEGUN.compare_exchange(stored, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(handle),
        Err(_) => {
            // SAFETY: it was made above, and no other thread has seen it.
            let unused = unsafe { Box::from_raw(new) };
            unused.runtime.shutdown_background();
            self::handle()
        }
    }
}

/// Interval at which work checks whether it was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` on the threads of the runtime. It ends when this future is dropped, and soon
/// after `cancel` becomes true.
///
/// Who waits need not look at `cancel`.
pub(crate) async fn spawned<T: Send + 'static>(
    cancel: Option<Arc<AtomicBool>>,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut task = JoinSet::new();
    task.spawn_on(unless(cancel, work), &handle()?);
    let failed = || Error::internal("a remote read failed; please report it");
    match task.join_next().await {
        Some(done) => done.map_err(|_| failed())?,
        None => Err(failed()),
    }
}

/// Runs `work` until it is done or `cancel` becomes true.
pub(crate) async fn unless<T>(
    cancel: Option<Arc<AtomicBool>>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(cancel) = cancel else {
        return work.await;
    };
    let cancelled = async {
        while !cancel.load(Ordering::Relaxed) {
            sleep(CANCEL_INTERVAL).await;
        }
    };
    match select(pin!(work), pin!(cancelled)).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => Err(Error::new(Kind::Cancelled, "the read was cancelled")),
    }
}
