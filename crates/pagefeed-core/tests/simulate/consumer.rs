//! A consumer: takes batches, slowly or fast, keeps them, seeks, stops, forks, closes.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pagefeed_core::engine::{Batch, Engine, EngineConfig, Layout, PageSource, Plan, TokenType};
use pagefeed_core::error::{Error, Kind};
use pagefeed_core::fields::Field;
use pagefeed_core::sync::simulated::{self, Random, fail, note, simulated_child, sleep};
use pagefeed_core::sync::thread::Builder;
use pagefeed_core::sync::{MutexGuard, PoisonError};

use crate::pages::{Fault, Made, Planned};
use crate::plans::{Course, PADDING, values};

/// Longer than anything takes that ends.
const LONG: Duration = Duration::from_secs(3600);

/// What a seed makes of an engine and those who use it.
pub struct Case {
    pub config: EngineConfig,
    pub course: Course,
    pub source: Arc<Made>,
    /// Threads that take batches.
    pub num_takers: usize,
    /// Whether another thread closes the engine at some time.
    pub is_closed: bool,
    /// Calls after which the consumer has had enough.
    pub patience: u64,
    /// Longest time between two calls, in nanoseconds.
    pub pause: u64,
    /// Batches that are kept at most.
    pub most_kept: u64,
}

impl Case {
    pub fn draw(random: &mut Random) -> Self {
        let course = Course::draw(random);
        let mut config = EngineConfig {
            num_threads: random.of(&[1, 1, 2, 2, 3, 5]) as usize,
            budget: 0,
            token_type: random.of(&[TokenType::I64, TokenType::I32, TokenType::U16]),
            batch_rows: course.rows,
            row_length: course.length,
            num_columns: 0,
            row_payload: 0,
            padding: PADDING,
            layout: Layout::default(),
        };
        let room = random.of(&[0, 300, 1_500, 5_000, 20_000, 1 << 20]);
        config.budget = config.batch_bytes() * random.of(&[1, 2, 4, 12]) as usize + room as usize;
        let source = Made::new(random);
        if random.one_in(3) {
            let pages = course.pages(0..course.expected.len());
            for _ in 0..random.within(1..=3) {
                if pages.is_empty() {
                    break;
                }
                let planned = Planned {
                    fault: random.of(&[
                        Fault::Refused,
                        Fault::Damaged,
                        // Joined with others, it is the source that must count its tokens.
                        if course.has_bundles {
                            Fault::Damaged
                        } else {
                            Fault::Short
                        },
                        Fault::Changed,
                        Fault::Panics,
                        Fault::Never,
                    ]),
                    times: random.of(&[1, 2, usize::MAX]),
                };
                source
                    .faults
                    .borrow_mut()
                    .insert(random.of(&pages), planned);
            }
        }
        Self {
            config,
            course,
            source: Arc::new(source),
            num_takers: if random.one_in(5) { 2 } else { 1 },
            is_closed: random.one_in(8),
            patience: random.of(&[6, 40, 80]),
            pause: random.of(&[0, 0, 50_000, 20_000_000]),
            most_kept: random.of(&[0, 1, 3, 30]),
        }
    }
}

/// What the threads of a consumer share.
pub struct Consumer {
    case: Case,
    engine: RefCell<Option<Arc<Engine>>>,
    /// Batches submitted and not taken, by their numbers.
    submitted: RefCell<Range<usize>>,
    /// Those taken although one before them is not yet judged.
    early: RefCell<Vec<usize>>,
    /// Batches that are kept, and their numbers.
    kept: RefCell<Vec<(usize, Batch)>>,
    /// Calls under way.
    num_calls: Cell<usize>,
    /// Batches delivered and not given back.
    num_outside: Cell<usize>,
    is_closing: Cell<bool>,
    /// Raised with every seek: what others took before is not judged.
    num_seeks: Cell<u64>,
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

    /// What must hold at every step.
    pub fn watch(&self) {
        let engine = match self.engine.try_borrow() {
            Ok(engine) => engine.clone(),
            Err(_) => return,
        };
        let Some(engine) = engine else { return };
        let outside = (self.num_calls.get() == 0).then(|| self.num_outside.get());
        if let Err(text) = engine.audit(outside) {
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

    /// What the first thread does.
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

    /// What another thread does that takes batches.
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

    /// Submits batches behind those submitted, or from a number on where there are none.
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
        // Noted before: another thread may take what was submitted before this one goes on.
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
        match self.call(|| engine.clear()) {
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

    fn give_back_some(&self) {
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

    fn drop_batch(&self, batch: Batch) {
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
        self.num_calls.set(self.num_calls.get() + 1);
        let taken = engine.next_batch(timeout);
        if matches!(taken, Ok(Some(_))) {
            self.num_outside.set(self.num_outside.get() + 1);
        }
        self.num_calls.set(self.num_calls.get() - 1);
        match taken {
            Ok(Some(batch)) => {
                self.judge(batch, seeks);
                true
            }
            Ok(None) => {
                let is_missing = !self.submitted.borrow().is_empty() && timeout == LONG;
                if is_missing && !self.may_never_come() {
                    fail("a batch does not come");
                }
                false
            }
            Err(error) => {
                self.judge_error(&error);
                false
            }
        }
    }

    /// Whether a batch is the next one, and holds what it should.
    fn judge(&self, batch: Batch, seeks: u64) {
        note("gets a batch");
        let next = match self.case.num_takers {
            1 => self.submitted.borrow_mut().next(),
            _ => self.find(&batch),
        };
        let Some(next) = next else {
            if seeks == self.num_seeks.get() && self.case.num_takers == 1 {
                fail("a batch comes that nobody planned");
            }
            self.drop_batch(batch);
            return;
        };
        self.check(&batch, next, "a batch is wrong");
        self.kept.borrow_mut().push((next, batch));
        self.give_back_some();
    }

    /// The number of a batch that one of several threads took: they may come back in any
    /// order.
    fn find(&self, batch: &Batch) -> Option<usize> {
        let found = self.values(batch);
        let mut submitted = self.submitted.borrow_mut();
        let mut early = self.early.borrow_mut();
        let mut near = submitted.clone().filter(|number| !early.contains(number));
        let Some(number) = near.find(|&number| self.case.course.expected[number] == found) else {
            fail(&format!("a batch comes that nobody planned: {found:?}"));
        };
        early.push(number);
        while let Some(at) = early.iter().position(|&one| one == submitted.start) {
            early.swap_remove(at);
            submitted.start += 1;
        }
        Some(number)
    }

    fn values(&self, batch: &Batch) -> Vec<i64> {
        let bytes = &batch.bytes()[batch.range(Field::InputIds)];
        let mut found = values(bytes, self.case.config.token_type);
        if self.case.config.token_type == TokenType::U16 {
            found.iter_mut().for_each(|value| *value &= 0xffff);
        }
        found
    }

    fn check(&self, batch: &Batch, number: usize, what: &str) {
        let (found, expected) = (self.values(batch), &self.case.course.expected[number]);
        if found != *expected {
            fail(&format!(
                "{what}: batch {number} is {found:?}, not {expected:?}"
            ));
        }
    }

    /// Whether an error is that of the next batch, and names its page.
    fn judge_error(&self, error: &Error) {
        note("gets an error");
        if self.is_over(error) {
            return;
        }
        let text = error.to_string();
        let next = self.submitted.borrow().start;
        let total = self.case.course.expected.len();
        // Others may not have judged what they took before.
        let num_early = self.early.borrow().len();
        let near = next..(next + num_early + self.case.num_takers);
        let is_named = |page: u64| {
            text.contains(&format!("page {page}:")) || text.contains(&format!("page {page} of"))
        };
        let faults = self.case.source.faults.borrow();
        let is_own = faults.iter().any(|(&page, planned)| {
            let is_kind = match planned.fault {
                Fault::Refused => matches!(error.kind(), Kind::Io(_)),
                Fault::Damaged => error.kind() == Kind::Checksum,
                Fault::Short => error.kind() == Kind::Corrupt,
                Fault::Changed => error.kind() == Kind::Stale,
                Fault::Panics => error.kind() == Kind::Internal,
                Fault::Never => error.kind() == Kind::Cancelled,
            };
            let mut near = near.clone().filter(|&batch| batch < total);
            let is_needed = |batch| match self.case.source.comes_along(planned.fault) {
                // What is fetched together fails together.
                Some(pages) => {
                    let file = page / pages * pages;
                    (file..=page).any(|page| self.case.course.needs(batch, page))
                }
                None => self.case.course.needs(batch, page),
            };
            is_kind && is_named(page) && near.any(is_needed)
        });
        if !is_own {
            fail(&format!(
                "batch {next} fails for another reason than its own: {text}"
            ));
        }
    }

    fn is_over(&self, error: &Error) -> bool {
        self.is_closing.get() && error.kind() == Kind::Cancelled
    }

    /// Whether the storage never answers for a page of what was submitted.
    fn may_never_come(&self) -> bool {
        let faults = self.case.source.faults.borrow();
        faults.values().any(|planned| planned.fault == Fault::Never)
    }

    /// After an error: goes on at the batch that failed, or behind it.
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
            if let Ok(()) | Err(_) = engine.audit(None)
                && !engine.is_empty()
            {
                fail("an engine that was closed keeps memory");
            }
            let results = [
                engine.next_batch(LONG).map(drop),
                engine.submit(Plan::default()),
            ];
            if results.iter().any(Result::is_ok) {
                fail("an engine that was closed goes on");
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
// others go on.
unsafe impl Send for Shared {}
