//! Threads as coroutines, one of which runs, and the clock.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use super::Random;
use super::policy::{Chooser, Policy};

/// Work of a thread.
pub(super) type Work = Box<dyn FnOnce()>;

/// Size of a thread's stack; its pages take no memory before they are written.
const STACK_BYTES: usize = 1 << 20;
/// Nanoseconds that a step takes.
const STEP: u64 = 500;

thread_local! {
    /// The machine that runs.
    static WORLD: Cell<*const World> = const { Cell::new(null()) };
    /// Stacks of threads that ended.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Settings of a machine.
pub struct Settings {
    /// Decides everything.
    pub seed: u64,
    /// Choice of threads.
    pub policy: Policy,
    /// One in this many waits ends without reason; 0 for none.
    pub spurious: u64,
    /// Threads that the machine gives.
    pub most_threads: usize,
    /// Steps after which the run counts as endless.
    pub most_steps: u64,
    /// Called with each event: time, thread, and what it does.
    pub trace: Option<fn(u64, &str, &str)>,
    /// Called between two steps, and before time passes because all threads wait.
    pub watch: Option<Watch>,
    /// Called if a thread panics or all wait for ever; does not return.
    pub fail: fn(&str) -> !,
}

/// Steps between two calls, and the function to call. Its argument is whether all threads
/// wait.
pub type Watch = (u64, Box<dyn FnMut(bool)>);

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// A number for everything that happened, in its order.
    pub trace: u64,
    /// Steps.
    pub steps: u64,
    /// Nanoseconds on the machine's clock.
    pub time: u64,
}

pub(super) struct World {
    inner: RefCell<Inner>,
    current: Cell<usize>,
    now: Cell<u64>,
    /// Whether what runs believes to be in a forked child.
    is_child: Cell<bool>,
    watch: RefCell<Option<Watch>>,
    fail: fn(&str) -> !,
}

struct Inner {
    random: Random,
    chooser: Chooser,
    threads: Vec<Thread>,
    runnable: Vec<usize>,
    /// Ends of waits: time, thread, number of the wait.
    timers: BinaryHeap<Reverse<(u64, usize, u64)>>,
    spurious: u64,
    most_threads: usize,
    most_steps: u64,
    steps: u64,
    trace: u64,
    tell: Option<fn(u64, &str, &str)>,
    /// Thread chosen to run next.
    next: Option<usize>,
}

struct Thread {
    name: String,
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
    yielder: *const Yielder<(), ()>,
    /// Event that the thread waits for.
    waits: Option<&'static str>,
    num_waits: u64,
    is_done: bool,
    joining: Vec<usize>,
}

/// The machine that runs.
pub(super) fn world() -> &'static World {
    #[expect(clippy::expect_used, reason = "a test that does so is wrong")]
    running().expect("outside of a simulated machine")
}

/// The machine, if one runs.
pub(super) fn running() -> Option<&'static World> {
    // SAFETY: it is there until `run` returns, and all who ask run in it.
    unsafe { WORLD.get().as_ref() }
}

/// Nanoseconds of a duration.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since the machine was started.
pub fn now() -> u64 {
    running().map_or(0, |world| world.now.get())
}

/// A number of the machine's seed.
pub fn random<T>(draw: impl FnOnce(&mut Random) -> T) -> T {
    draw(&mut world().inner.borrow_mut().random)
}

/// Records an event.
pub fn note(event: &'static str) {
    let world = world();
    let (now, current) = (world.now.get(), world.current.get());
    world.inner.borrow_mut().note(now, current, event);
}

/// Ends the run: something is wrong.
pub fn fail(message: &str) -> ! {
    world().fail(message)
}

/// Runs `work` like a forked child: in another process without the other threads, so
/// that no wait may end.
pub fn simulated_child<T>(work: impl FnOnce() -> T) -> T {
    world().is_child.set(true);
    let result = work();
    world().is_child.set(false);
    result
}

/// Runs `main` as the first thread of a machine, until all its threads have ended.
pub fn run(settings: Settings, main: impl FnOnce() + 'static) -> Summary {
    let inner = Inner {
        random: Random::new(settings.seed),
        chooser: Chooser::new(settings.policy),
        threads: Vec::new(),
        runnable: Vec::new(),
        timers: BinaryHeap::new(),
        spurious: settings.spurious,
        most_threads: settings.most_threads.saturating_add(1),
        most_steps: settings.most_steps,
        steps: 0,
        trace: 0,
        tell: settings.trace,
        next: None,
    };
    let world = World {
        inner: RefCell::new(inner),
        current: Cell::new(0),
        now: Cell::new(0),
        is_child: Cell::new(false),
        watch: RefCell::new(settings.watch),
        fail: settings.fail,
    };
    WORLD.set(&raw const world);
    if world.spawn("main".to_string(), Box::new(main)).is_err() {
        world.fail("there is no memory for a stack");
    }
    world.run_all();
    WORLD.set(null());
    let inner = world.inner.into_inner();
    Summary {
        trace: inner.trace,
        steps: inner.steps,
        time: world.now.get(),
    }
}

impl World {
    fn run_all(&self) {
        while let Some(id) = self.choose() {
            self.current.set(id);
            let coroutine = self.inner.borrow_mut().threads[id].coroutine.take();
            let Some(mut coroutine) = coroutine else {
                self.fail("a thread that ended was to run");
            };
            if coroutine.resume(()).as_return().is_some() {
                self.end(id);
                STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
            } else {
                self.inner.borrow_mut().threads[id].coroutine = Some(coroutine);
            }
        }
    }

    /// Chooses the next thread; `None` once all have ended.
    fn choose(&self) -> Option<usize> {
        let mut inner = self.inner.borrow_mut();
        if let Some(next) = inner.next.take() {
            return Some(next);
        }
        while inner.runnable.is_empty() {
            // All wait: time passes.
            let Some(Reverse((time, _, _))) = inner.timers.peek().copied() else {
                if inner.threads.iter().all(|thread| thread.is_done) {
                    return None;
                }
                drop(inner);
                self.fail(&format!("all threads wait for ever: {}", self.waits()));
            };
            // A thread that wakes without reason was counted as one that sleeps.
            if time > self.now.get()
                && inner.spurious == 0
                && let Some((_, watch)) = &mut *self.watch.borrow_mut()
            {
                drop(inner);
                watch(true);
                inner = self.inner.borrow_mut();
            }
            self.now.set(self.now.get().max(time));
            inner.fire(self.now.get());
        }
        Some(inner.choose(self.current.get()))
    }

    pub fn current(&self) -> usize {
        self.current.get()
    }

    pub fn process_id(&self) -> u32 {
        1 + u32::from(self.is_child.get())
    }

    /// Marks a position at which other threads may run.
    pub fn point(&self, event: &'static str) {
        if std::thread::panicking() || self.is_child.get() {
            return;
        }
        let mut inner = self.inner.borrow_mut();
        let current = self.current.get();
        self.now.set(self.now.get() + STEP);
        inner.note(self.now.get(), current, event);
        if inner.steps > inner.most_steps {
            drop(inner);
            self.fail(&format!("it does not end: {}", self.waits()));
        }
        if !inner.timers.is_empty() {
            inner.fire(self.now.get());
        }
        let steps = inner.steps;
        let next = inner.choose(current);
        if next != current {
            inner.next = Some(next);
        }
        drop(inner);
        if let Some((every, watch)) = &mut *self.watch.borrow_mut()
            && steps.is_multiple_of(*every)
        {
            watch(false);
        }
        if next != current {
            self.suspend();
        }
    }

    /// Waits until another thread wakes this one, or until a time.
    pub fn block(&self, waits: &'static str, until: Option<u64>) {
        self.check_may_wait();
        let mut inner = self.inner.borrow_mut();
        let current = self.current.get();
        inner.note(self.now.get(), current, waits);
        inner.runnable.retain(|&thread| thread != current);
        let thread = &mut inner.threads[current];
        thread.waits = Some(waits);
        thread.num_waits += 1;
        let wait = thread.num_waits;
        if let Some(until) = until {
            inner.timers.push(Reverse((until, current, wait)));
        }
        drop(inner);
        self.suspend();
    }

    /// Wakes a waiting thread.
    pub fn unblock(&self, thread: usize) {
        self.inner.borrow_mut().unblock(thread);
    }

    pub fn yield_now(&self) {
        let current = self.current.get();
        self.inner.borrow_mut().chooser.yields(current);
        self.point("yield");
    }

    pub fn below(&self, end: usize) -> usize {
        self.inner.borrow_mut().random.below(end as u64) as usize
    }

    pub fn wakes_without_reason(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        let spurious = inner.spurious;
        spurious > 0 && inner.random.one_in(spurious)
    }

    /// In a forked child nothing may be waited for.
    pub fn check_may_wait(&self) {
        if self.is_child.get() {
            self.fail("a forked child takes a lock that a thread may hold which it lacks");
        }
    }

    /// Starts a thread.
    pub fn spawn(&self, name: String, work: Work) -> io::Result<usize> {
        let mut inner = self.inner.borrow_mut();
        let id = inner.threads.len();
        if id >= inner.most_threads {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        let spare = STACKS.with_borrow_mut(Vec::pop);
        let stack = spare.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)?;
        let body = move |yielder: &Yielder<(), ()>, ()| {
            let world = world();
            world.inner.borrow_mut().threads[id].yielder = yielder;
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                world.fail(&format!("a thread panics: {}", text.unwrap_or_default()));
            }
        };
        inner.threads.push(Thread {
            name,
            coroutine: Some(Coroutine::with_stack(stack, body)),
            yielder: null(),
            waits: None,
            num_waits: 0,
            is_done: false,
            joining: Vec::new(),
        });
        let Inner {
            chooser, random, ..
        } = &mut *inner;
        chooser.add(random);
        inner.runnable.push(id);
        drop(inner);
        if id > 0 {
            self.point("spawn");
        }
        Ok(id)
    }

    /// Waits for the end of a thread.
    pub fn join(&self, thread: usize) {
        loop {
            let mut inner = self.inner.borrow_mut();
            if inner.threads[thread].is_done {
                return;
            }
            inner.threads[thread].joining.push(self.current.get());
            drop(inner);
            self.block("waits for a thread to end", None);
        }
    }

    fn end(&self, id: usize) {
        let mut inner = self.inner.borrow_mut();
        inner.note(self.now.get(), id, "ends");
        inner.threads[id].is_done = true;
        inner.runnable.retain(|&thread| thread != id);
        for thread in std::mem::take(&mut inner.threads[id].joining) {
            inner.unblock(thread);
        }
    }

    fn suspend(&self) {
        let yielder = self.inner.borrow().threads[self.current.get()].yielder;
        // SAFETY: it is that of the coroutine that runs, which ends after this.
        unsafe { &*yielder }.suspend(());
    }

    /// Describes what each thread does.
    fn waits(&self) -> String {
        let inner = self.inner.borrow();
        let threads = inner.threads.iter().filter(|thread| !thread.is_done);
        let waits = threads.map(|thread| {
            let name = &thread.name;
            format!("{name} {}", thread.waits.unwrap_or("runs"))
        });
        waits.collect::<Vec<_>>().join(", ")
    }

    fn fail(&self, message: &str) -> ! {
        (self.fail)(message)
    }
}

impl Inner {
    fn note(&mut self, now: u64, thread: usize, event: &'static str) {
        self.steps += 1;
        let kind = event.bytes().fold(0, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let word = (thread as u64) << 32 ^ kind;
        self.trace = (self.trace.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(tell) = self.tell {
            tell(now, &self.threads[thread].name, event);
        }
    }

    fn choose(&mut self, current: usize) -> usize {
        if self.runnable.len() == 1 {
            return self.runnable[0];
        }
        self.chooser
            .choose(&mut self.random, &self.runnable, current)
    }

    /// Ends the waits whose time is up.
    fn fire(&mut self, now: u64) {
        while let Some(&Reverse((time, thread, wait))) = self.timers.peek()
            && time <= now
        {
            self.timers.pop();
            if self.threads[thread].num_waits == wait {
                self.unblock(thread);
            }
        }
    }

    fn unblock(&mut self, thread: usize) {
        if self.threads[thread].waits.take().is_some() {
            self.runnable.push(thread);
        }
    }
}
