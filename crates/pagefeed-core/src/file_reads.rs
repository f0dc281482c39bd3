//! Reads of each file, counted from the time on at which somebody first asks for them.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::descriptors::locked;
use crate::sync::Mutex;

/// Classes of times, four for each doubling from a microsecond on.
const NUM_CLASSES: usize = 128;

static ARE_COUNTED: AtomicBool = AtomicBool::new(false);
static FILES: LazyLock<Mutex<HashMap<String, FileReads>>> = LazyLock::new(Mutex::default);

/// Reads of a file.
#[derive(Clone, Debug, Default)]
pub struct FileReads {
    /// Ranges that were asked for, with any answer.
    pub requests: u64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Requests that were sent again after a failure.
    pub retries: u64,
    /// Time of all requests together.
    pub time: Duration,
    times: Vec<u32>,
}

impl FileReads {
    /// Seconds that a share of the requests took at most, to about a tenth.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (share * self.requests as f64).ceil() as u64;
        let mut sums = self.times.iter().scan(0, |sum, count| {
            *sum += u64::from(*count);
            Some(*sum)
        });
        let class = sums.position(|sum| sum >= wanted);
        class.map_or(0.0, |class| 1e-6 * ((class as f64 + 0.5) / 4.0).exp2())
    }
}

/// Whether reads are counted.
pub fn are_counted() -> bool {
    ARE_COUNTED.load(Ordering::Relaxed)
}

/// Counts requests of a file, which took `time` together.
pub fn count(path: &str, requests: usize, bytes: u64, time: Duration) {
    change(path, |reads| {
        let each = time.as_secs_f64() * 1e6 / requests.max(1) as f64;
        let class = (4.0 * each.max(1.0).log2()) as usize;
        reads.requests += requests as u64;
        reads.bytes += bytes;
        reads.time += time;
        reads.times.resize(NUM_CLASSES, 0);
        reads.times[class.min(NUM_CLASSES - 1)] += requests as u32;
    });
}

/// Counts a request that is sent again.
pub fn count_retry(path: &str) {
    if are_counted() {
        change(path, |reads| reads.retries += 1);
    }
}

fn change(path: &str, apply: impl FnOnce(&mut FileReads)) {
    // A process that was forked while another thread held the lock counts nothing.
    if let Some(mut files) = locked(&FILES) {
        apply(files.entry(path.to_string()).or_default());
    }
}

/// Returns the reads of each file since this was first called.
pub fn of_files() -> Vec<(String, FileReads)> {
    ARE_COUNTED.store(true, Ordering::Relaxed);
    let files = locked(&FILES);
    files.map_or_else(Vec::new, |files| files.clone().into_iter().collect())
}
