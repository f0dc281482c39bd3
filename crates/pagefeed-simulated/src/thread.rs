//! Threads, as those of the standard library.

use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use super::scheduler::{Work, running, world};

pub use super::time::sleep;

/// Starts threads.
#[derive(Default)]
pub struct Builder {
    name: Option<String>,
}

/// Number of a thread of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Thread(ThreadId);

impl Thread {
    /// Returns the number of the thread.
    pub fn id(&self) -> ThreadId {
        self.0
    }
}

/// The thread that asks.
pub fn current() -> Thread {
    Thread(ThreadId(world().current()))
}

/// Lets others go first.
pub fn yield_now() {
    world().yield_now();
}

/// A thread that was started, and its result.
pub struct JoinHandle<T> {
    thread: Thread,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Waits for its end.
    pub fn join(self) -> std::thread::Result<T> {
        world().check_may_wait();
        world().join(self.thread.0.0);
        let mut result = self
            .result
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        result.take().ok_or_else(|| Box::new("it panicked") as _)
    }
}

fn start(name: Option<String>, work: Work) -> io::Result<usize> {
    let refused = || io::Error::from(io::ErrorKind::WouldBlock);
    running()
        .ok_or_else(refused)?
        .spawn(name.unwrap_or_default(), work)
}

impl Builder {
    /// Returns a builder without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names it.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self { name: Some(name) }
    }

    /// Starts a thread, if the machine allows another one.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let work: Work = Box::new(move || {
            let value = work();
            *slot.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(value);
        });
        let id = start(self.name, work)?;
        Ok(JoinHandle {
            thread: Thread(ThreadId(id)),
            result,
        })
    }

    /// Starts it in a scope.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<JoinHandle<T>> {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let work: Box<dyn FnOnce() + 'scope> = Box::new(move || {
            let value = work();
            *slot.lock().unwrap_or_else(|poison| poison.into_inner()) = Some(value);
        });
        // SAFETY: the scope does not end before the thread does.
        let work: Work = unsafe { std::mem::transmute(work) };
        let id = start(self.name, work)?;
        let mut threads = scope
            .threads
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        threads.push(id);
        Ok(JoinHandle {
            thread: Thread(ThreadId(id)),
            result,
        })
    }
}

/// Threads that end before what they borrow.
pub struct Scope<'scope, 'env: 'scope> {
    threads: Mutex<Vec<usize>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `work`, and waits for the threads that it starts.
pub fn scope<'env, T>(work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    let scope = Scope {
        threads: Mutex::default(),
        scope: PhantomData,
        env: PhantomData,
    };
    // A panic ends the run: no thread may run that borrows freed values.
    let result = work(&scope);
    let threads = scope
        .threads
        .lock()
        .unwrap_or_else(|poison| poison.into_inner());
    threads.iter().for_each(|&thread| world().join(thread));
    drop(threads);
    result
}
