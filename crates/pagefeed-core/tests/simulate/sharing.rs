//! Dictionaries that threads fetch for each other, kept inside a budget.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use pagefeed_core::error::{Error, Result};
use pagefeed_core::pages::dictionaries::{Claim, DictionaryCache, KeptDictionary, Key};
use pagefeed_core::sync::simulated::{self, Random, fail, note, sleep};
use pagefeed_core::sync::thread::Builder;
use pagefeed_core::sync::{Condvar, Mutex, PoisonError};
use pagefeed_core::tokens::{Dictionary, Tokens};

/// A cache and its users, as a seed makes them.
pub struct Sharing {
    capacity: usize,
    num_threads: u64,
    num_keys: u64,
    turns: u64,
    /// One fetch, and one load, in this number fails.
    failing: u64,
}

fn bytes_of(key: Key) -> Bytes {
    Bytes::from(vec![key.2 as u8; 8 + key.2 as usize * 8])
}

fn dictionary_of(key: Key) -> KeptDictionary {
    KeptDictionary {
        dictionary: Arc::new(Dictionary::new(Tokens::U16(vec![
            key.2 as u16;
            4 + key.2 as usize * 4
        ]))),
        holds_ids_only: true,
    }
}

/// Wakes a thread.
#[derive(Default)]
struct Alarm {
    is_set: Mutex<bool>,
    rings: Condvar,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_one();
    }
}

/// Waits for another fetch of a dictionary.
fn wait(cache: &DictionaryCache, key: Key) -> Option<Bytes> {
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut waits = pin!(cache.wait(&key));
    loop {
        if let Poll::Ready(came) = waits.as_mut().poll(&mut Context::from_waker(&waker)) {
            return came;
        }
        let mut is_set = alarm.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !std::mem::take(&mut *is_set) {
            let woken = alarm.rings.wait(is_set);
            is_set = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Sharing {
    pub fn draw(random: &mut Random) -> Self {
        Self {
            capacity: random.of(&[0, 30, 60, 200, 10_000]) as usize,
            num_threads: random.within(1..=4),
            num_keys: random.within(1..=5),
            turns: random.within(1..=12),
            failing: random.of(&[2, 6, 1000]),
        }
    }

    pub fn live(self) {
        let this = Arc::new(self);
        let cache = Arc::new(DictionaryCache::new(this.capacity));
        let threads: Vec<_> = (0..this.num_threads)
            .map_while(|number| {
                let (this, cache) = (Arc::clone(&this), Arc::clone(&cache));
                let thread = Builder::new().name(format!("reader-{number}"));
                let run = move || (0..this.turns).for_each(|_| this.read(&cache));
                thread.spawn(run).ok()
            })
            .collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        // No thread is left that claims a value.
        for number in 0..this.num_keys {
            let key = (0, 0, number);
            let waits = cache.claim(key) == Claim::Another && wait(&cache, key).is_none();
            if waits {
                fail("a value that no thread fetches is awaited");
            }
        }
        if cache.num_bytes() != cache.summed_bytes() {
            fail("bytes that are kept are counted wrongly");
        }
        if cache.num_bytes() > 2 * this.capacity + 48 {
            fail(&format!("{} bytes are kept", cache.num_bytes()));
        }
    }

    /// Fetches a dictionary, or waits for who does; then decodes it.
    fn read(&self, cache: &DictionaryCache) {
        let key = (
            0,
            0,
            simulated::random(|random| random.below(self.num_keys)),
        );
        let fetched = match cache.claim(key) {
            Claim::Nobody => None,
            Claim::Caller => {
                note("fetches");
                self.take_time();
                let bytes = (!self.fails()).then(|| bytes_of(key));
                cache.settle(key, bytes.clone());
                bytes
            }
            Claim::Another => wait(cache, key),
        };
        if fetched.is_some_and(|bytes| bytes != bytes_of(key)) {
            fail("a dictionary is that of another page");
        }
        let load = || -> Result<KeptDictionary> {
            note("decodes");
            self.take_time();
            if self.fails() {
                return Err(Error::corrupt("damaged"));
            }
            Ok(dictionary_of(key))
        };
        let Ok(found) = cache.get_or_load(key, load) else {
            return;
        };
        let is_own = |tokens: &Tokens| {
            matches!(tokens, Tokens::U16(values)
            if *values == vec![key.2 as u16; 4 + key.2 as usize * 4])
        };
        if !is_own(found.dictionary.entries()) {
            fail("a dictionary is that of another page");
        }
    }

    fn fails(&self) -> bool {
        simulated::random(|random| random.one_in(self.failing))
    }

    fn take_time(&self) {
        let time = simulated::random(|random| random.below(3_000));
        sleep(Duration::from_nanos(time));
    }
}
