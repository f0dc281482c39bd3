//! A consumer: takes batches, slowly or fast, keeps them, seeks, stops, forks, closes.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pagefeed_core::engine::{Batch, Engine, PageSource, Plan};
use pagefeed_core::error::{Error, Kind};
use pagefeed_core::sync::simulated::{self, fail, note, simulated_child, sleep};
use pagefeed_core::sync::thread::Builder;
use pagefeed_core::sync::{MutexGuard, PoisonError};

use crate::case::Case;

/// Longer than anything takes that ends.
const LONG: Duration = Duration::from_secs(3600);

/// State that the threads of a consumer share.
pub struct Consumer {
    pub case: Case,
    engine: RefCell<Option<Arc<Engine>>>,
    /// Batches submitted and not taken, by their numbers.
    pub submitted: RefCell<Range<usize>>,
    /// Those taken although one before them is not yet judged.
    pub early: RefCell<Vec<usize>>,
    /// Batches that are kept, and their numbers.
    pub kept: RefCell<Vec<(usize, Batch)>>,
    /// Calls under way.
    num_calls: Cell<usize>,
    /// Batches delivered and not given back.
    num_outside: Cell<usize>,
    pub is_closing: Cell<bool>,
    /// Raised with every seek: what others took before is not judged.
    pub num_seeks: Cell<u64>,
}

impl Consumer {
    pub fn new(case: Case) -> Self {
        Self {
            case,
            engine: RefCell::default(),
            submitted: RefCell::new(0..0),
            early: RefCell::default(),
            kept: RefCell::default(),
            num_calls: Cell::new(0),
            num_outside: Cell::new(0),
            is_closing: Cell::new(false),
            num_seeks: Cell::new(0),
        }
    }

    /// Promises that must hold at every step, and when all threads wait.
    pub fn watch(&self, all_wait: bool) {
        let engine = match self.engine.try_borrow() {
            Ok(engine) => engine.clone(),
            Err(_) => return,
        };
        let Some(engine) = engine else { return };
        let outside = (self.num_calls.get() == 0).then(|| self.num_outside.get());
        if let Err(text) = engine.audit(outside, all_wait) {
            fail(&text);
        }
        // The last reference must be dropped by one of the threads.
        if Arc::strong_count(&engine) == 1 {
            std::mem::forget(engine);
            fail("an engine outlives its consumer");
        }
    }

    pub fn live(self: Rc<Self>) {
        let source = Arc::clone(&self.case.source);
        let storage = source.start();
        // The machine may give no thread.
        if storage.is_empty() == (source.in_flight == 0) {
            self.use_engine();
        }
        source.end();
        storage.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn use_engine(self: Rc<Self>) {
        let source = Arc::clone(&self.case.source);
        let gil = self.hold_gil();
        let made = Engine::new(
            Arc::clone(&source) as Arc<dyn PageSource>,
            self.case.config.clone(),
        );
        let engine = match made {
            Ok(engine) => Arc::new(engine),
            // The machine gave no thread.
            Err(_) => return,
        };
        *self.engine.borrow_mut() = Some(Arc::clone(&engine));
        drop(gil);
        let mut others = Vec::new();
        if self.case.num_takers > 1 {
            others.push(self.start("taker", Self::take_all));
        }
        if self.case.is_closed {
            others.push(self.start("closer", Self::close_some_time));
        }
        self.run(&engine);
        others
            .into_iter()
            .flatten()
            .for_each(|other| drop(other.join()));
        self.end(engine);
    }

    fn start(
        self: &Rc<Self>,
        name: &str,
        work: fn(&Self, &Engine),
    ) -> Option<pagefeed_core::sync::thread::JoinHandle<()>> {
        let shared = Shared(Rc::clone(self));
        let started = Builder::new().name(name.to_string()).spawn(move || {
            let shared = shared;
            let consumer = shared.0;
            let engine = consumer.engine.borrow().clone();
            if let Some(engine) = engine {
                work(&consumer, &engine);
            }
        });
        started.ok()
    }

    /// Work of the first thread.
    fn run(&self, engine: &Engine) {
        self.submit(engine, 0);
        for _ in 0..self.case.patience {
            match simulated::random(|random| random.below(24)) {
                0 => self.submit(engine, usize::MAX),
                1 if self.case.num_takers == 1 => self.seek(engine),
                2 => self.look(engine),
                3 => self.fork(engine),
                4 => self.give_back_some(),
                _ => {
                    if !self.take(engine, LONG) && !self.recover(engine) {
                        return;
                    }
                }
            }
            if self.is_closing.get() {
                return;
            }
            self.pause();
        }
        // All that was submitted comes.
        if simulated::random(|random| random.one_in(2)) {
            while !self.submitted.borrow().is_empty() && self.take(engine, LONG) {}
        }
    }

    /// Work of another thread that takes batches.
    fn take_all(&self, engine: &Engine) {
        for _ in 0..self.case.patience {
            if self.is_closing.get() {
                return;
            }
            let timeout = simulated::random(|random| random.of(&[0, 10_000, 1_000_000]));
            self.take(engine, Duration::from_nanos(timeout));
            self.pause();
        }
    }

    fn close_some_time(&self, engine: &Engine) {
        let time = simulated::random(|random| random.below(2_000_000));
        sleep(Duration::from_nanos(time));
        self.is_closing.set(true);
        self.close(engine);
    }

    fn close(&self, engine: &Engine) {
        note("closes");
        self.case.source.stop();
        engine.close();
    }

    /// Submits batches after those submitted, or from a number on where there are none.
    fn submit(&self, engine: &Engine, from: usize) {
        note("submits");
        let total = self.case.course.expected.len();
        let (from, count) = {
            let submitted = self.submitted.borrow();
            let from = if submitted.is_empty() && from != usize::MAX {
                from
            } else {
                submitted.end
            };
            let left = (total - from) as u64;
            (
                from,
                simulated::random(|random| random.below(left + 1)) as usize,
            )
        };
        let plan = self.case.course.plan(from..from + count);
        // Noted before: another thread may take what was submitted before this one continues.
        let before = self.submitted.replace(0..0);
        let begin = if before.is_empty() {
            from
        } else {
            before.start
        };
        self.submitted.replace(begin..from + count);
        match self.call(|| engine.submit(plan)) {
            Ok(()) => {}
            Err(error) if self.is_over(&error) => {}
            Err(error) => fail(&format!("a plan is refused: {error}")),
        }
    }

    /// Goes elsewhere.
    fn seek(&self, engine: &Engine) {
        let to = simulated::random(|random| random.below(self.case.course.expected.len() as u64));
        self.go_to(engine, to as usize);
    }

    fn go_to(&self, engine: &Engine, to: usize) {
        note("clears");
        self.submitted.replace(0..0);
        self.num_seeks.set(self.num_seeks.get() + 1);
        let keeps_pages = simulated::random(|random| random.below(2) == 0);
        let clear = || match keeps_pages {
            true => engine.clear_keeping_pages(),
            false => engine.clear(),
        };
        match self.call(clear) {
            Ok(()) => self.submit(engine, to),
            Err(error) if self.is_over(&error) => {}
            Err(error) => fail(&format!("it is not cleared: {error}")),
        }
    }

    /// Asks for what there is to know.
    fn look(&self, engine: &Engine) {
        let gil = self.hold_gil();
        let count = engine.num_pending();
        engine.plan_bytes();
        drop(gil);
        if self.case.num_takers == 1
            && !self.is_closing.get()
            && count != self.submitted.borrow().len()
        {
            fail(&format!("{count} batches are pending, not those submitted"));
        }
        if let Err(error) = engine.stats()
            && !self.is_over(&error)
        {
            fail(&format!("there are no counters: {error}"));
        }
    }

    /// A forked child is refused, and takes no lock that a thread may hold.
    fn fork(&self, engine: &Engine) {
        note("forks");
        let is_refused = simulated_child(|| {
            let results = [
                engine.next_batch(LONG).map(drop),
                engine.submit(Plan::default()),
                engine.clear(),
                engine.stats().map(drop),
            ];
            engine.close();
            let is_cancelled = |result: &Result<(), Error>| matches!(result, Err(error) if error.kind() == Kind::Cancelled);
            results.iter().all(is_cancelled) && engine.num_pending() + engine.plan_bytes() == 0
        });
        if !is_refused {
            fail("a forked child is not refused");
        }
    }

    pub fn give_back_some(&self) {
        let most = simulated::random(|random| random.below(self.case.most_kept + 1));
        loop {
            let batch = {
                let mut kept = self.kept.borrow_mut();
                if kept.len() as u64 <= most {
                    return;
                }
                let any = simulated::random(|random| random.below(kept.len() as u64));
                kept.swap_remove(any as usize)
            };
            self.check(&batch.1, batch.0, "a batch that is kept changed");
            self.drop_batch(batch.1);
        }
    }

    pub fn drop_batch(&self, batch: Batch) {
        note("gives a batch back");
        self.call(|| drop(batch));
        self.num_outside.set(self.num_outside.get() - 1);
    }

    /// Takes the next batch; false if there is none, or an error.
    fn take(&self, engine: &Engine, timeout: Duration) -> bool {
        note("takes");
        let seeks = self.num_seeks.get();
        let timeout = match self.submitted.borrow().is_empty() {
            true => Duration::from_micros(3),
            false => timeout,
        };
        let gil = self.hold_gil();
        drop(gil);
        let begin = simulated::now();
        self.num_calls.set(self.num_calls.get() + 1);
        let taken = engine.next_batch(timeout);
        if matches!(taken, Ok(Some(_))) {
            self.num_outside.set(self.num_outside.get() + 1);
        }
        self.num_calls.set(self.num_calls.get() - 1);
        let is_late = simulated::now() - begin >= LONG.as_nanos() as u64;
        if is_late && !matches!(taken, Ok(None)) && !self.may_never_come() {
            fail("what had happened long ago was noticed when the time was up");
        }
        match taken {
            Ok(Some(batch)) => {
                self.judge(batch, seeks);
                true
            }
            Ok(None) => {
                let is_missing = !self.submitted.borrow().is_empty() && timeout == LONG;
                if is_missing && !self.may_never_come() {
                    fail(&format!("a batch does not come: {}", engine.describe()));
                }
                false
            }
            Err(error) => {
                self.judge_error(&error);
                false
            }
        }
    }

    /// After an error: continues at the batch that failed, or after it.
    fn recover(&self, engine: &Engine) -> bool {
        if self.submitted.borrow().is_empty() || self.is_closing.get() {
            return true;
        }
        if self.case.num_takers > 1 || self.may_never_come() {
            return false;
        }
        let next = self.submitted.borrow().start;
        match simulated::random(|random| random.below(4)) {
            // It comes again.
            0 => true,
            1 => self.seek_past(engine, next + 1),
            _ => self.seek_past(engine, next),
        }
    }

    fn seek_past(&self, engine: &Engine, to: usize) -> bool {
        if to >= self.case.course.expected.len() {
            return false;
        }
        self.go_to(engine, to);
        true
    }

    /// Ends the engine in one of the ways in which loops end.
    fn end(&self, engine: Arc<Engine>) {
        let way = simulated::random(|random| random.below(4));
        self.engine.borrow_mut().take();
        if way == 0 {
            // Batches first, then the engine.
            self.drop_all();
        }
        if way == 1 && self.case.source.gil.is_some() {
            // A worker that calls Python collects it.
            self.case.source.stop();
            let before = self.case.source.garbage.borrow_mut().replace(engine);
            drop(before);
            self.drop_all();
            sleep(Duration::from_secs(1));
            let left = self.case.source.garbage.borrow_mut().take();
            drop(left);
            return;
        }
        self.close(&engine);
        if way > 1 {
            if let Ok(()) | Err(_) = engine.audit(None, false)
                && !engine.is_empty()
            {
                fail("an engine that was closed keeps memory");
            }
            let results = [
                engine.next_batch(LONG).map(drop),
                engine.submit(Plan::default()),
            ];
            if results.iter().any(Result::is_ok) {
                fail("an engine that was closed continues");
            }
        }
        drop(engine);
        self.drop_all();
    }

    fn drop_all(&self) {
        let kept = std::mem::take(&mut *self.kept.borrow_mut());
        for (number, batch) in kept {
            self.check(&batch, number, "a batch that is kept changed");
            drop(batch);
        }
    }

    fn hold_gil(&self) -> Option<MutexGuard<'_, ()>> {
        let gil = self.case.source.gil.as_ref()?;
        Some(gil.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A call of the engine, during which batches are neither here nor there.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.num_calls.set(self.num_calls.get() + 1);
        let result = call();
        self.num_calls.set(self.num_calls.get() - 1);
        result
    }

    fn pause(&self) {
        if self.case.pause > 0 {
            let time = simulated::random(|random| random.below(self.case.pause));
            let gil = self.hold_gil();
            sleep(Duration::from_nanos(time));
            drop(gil);
        }
    }
}

/// A consumer that several coroutines share.
struct Shared(Rc<Consumer>);

// SAFETY: they are coroutines of one thread of the system, and borrow no cell while
// others run.
unsafe impl Send for Shared {}
