//! Limit of requests under way, and of a slow one, from measurements.

pub(crate) mod gate;
pub(crate) mod retry;

use std::time::Duration;

/// Requests under way at the start. If these fill the line, more would only share it,
/// and delay the page that is needed first.
const AT_FIRST: usize = 16;
/// The limit never falls below this, however often the server asks to slow down.
const FEWEST: usize = 4;
/// A higher limit is kept only if it raises the rate by this factor.
const GAIN: f64 = 1.08;
/// Factor by which the limit is raised.
const STEP: f64 = 1.5;
/// Rounds until a higher limit is tried again.
const ROUNDS_HELD: u32 = 16;
/// Requests that take longer than this show a full line: they become smaller and fewer.
/// Others may share the line, so the rate alone does not show it.
const CROWDED: Duration = Duration::from_secs(2);
/// Requests that take less than this become larger again.
const QUICK: Duration = Duration::from_millis(500);
/// Bytes of one request, at most: object stores are fastest at this size.
const LARGEST: u64 = 8 << 20;
/// The most bytes of a request never fall below this.
const SMALLEST: u64 = 1 << 20;

/// The limit of requests under way. It rises as long as the rate rises with it.
#[derive(Debug)]
pub(crate) struct Depth {
    most: usize,
    limit: usize,
    /// Bytes of one request, at most.
    bytes: u64,
    /// The last limit and its rate, while a higher limit is tried.
    before: Option<(usize, f64)>,
    rounds_to_hold: u32,
}

impl Depth {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            limit: AT_FIRST.min(most),
            bytes: LARGEST,
            before: None,
            rounds_to_hold: 0,
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Number of requests to have begun: those under way, and a quarter more that wait.
    pub(crate) fn num_wanted(&self) -> usize {
        (self.limit + self.limit.div_ceil(4)).min(self.most)
    }

    /// Bytes of one request, at most.
    pub(crate) fn request_bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends a round in which a request took so long. Returns whether the line is full.
    pub(crate) fn suit(&mut self, time: Duration) -> bool {
        if time < QUICK {
            self.bytes = (self.bytes * 2).min(LARGEST);
        } else if time > CROWDED && self.bytes > SMALLEST {
            self.bytes /= 2;
        } else if time > CROWDED {
            let fewer = (self.limit as f64 / STEP) as usize;
            self.limit = self.limit.min(fewer.max(FEWEST));
        }
        if time > CROWDED {
            self.before = None;
        }
        time > CROWDED
    }

    /// Ends a round in which requests had to wait, with its rate in bytes a second.
    pub(crate) fn end_round(&mut self, rate: f64) {
        if self.rounds_to_hold > 0 {
            self.rounds_to_hold -= 1;
            return;
        }
        if let Some((limit, reached)) = self.before
            && rate < reached * GAIN
        {
            self.before = None;
            self.limit = limit;
            self.rounds_to_hold = ROUNDS_HELD;
            return;
        }
        let more = (self.limit as f64 * STEP) as usize;
        let more = more.min(self.most);
        self.before = (more > self.limit).then_some((self.limit, rate));
        self.limit = more;
    }

    /// Halves the limit, as the server asked.
    pub(crate) fn throttle(&mut self) {
        self.limit = (self.limit / 2).max(FEWEST.min(self.most));
        self.before = None;
        self.rounds_to_hold = ROUNDS_HELD;
    }
}

/// A request is never slow before this: a second one costs the server as much.
const LEAST_SLOW: Duration = Duration::from_millis(500);
/// A request is slow after this, while too few of its size were measured.
const UNKNOWN_SLOW: Duration = Duration::from_secs(2);
const FEW: u32 = 8;
/// At most one request in this many is sent a second time.
const HEDGED_OF: u64 = 16;

/// Durations of requests by size.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    classes: [Class; 12],
}

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    count: u32,
    /// Seconds.
    mean: f64,
    /// Mean distance to the mean.
    spread: f64,
}

impl Durations {
    pub(crate) fn note(&mut self, bytes: u64, time: Duration) {
        let class = &mut self.classes[class_of(bytes)];
        let seconds = time.as_secs_f64();
        let distance = (seconds - class.mean).abs();
        (class.mean, class.spread) = match class.count {
            0 => (seconds, seconds / 2.0),
            _ => (
                class.mean + (seconds - class.mean) / 8.0,
                class.spread + (distance - class.spread) / 8.0,
            ),
        };
        class.count = class.count.saturating_add(1);
    }

    /// After what time a request is slow: far longer than requests of its size take.
    pub(crate) fn slow(&self, bytes: u64) -> Duration {
        let class = self.classes[class_of(bytes)];
        if class.count < FEW {
            return UNKNOWN_SLOW;
        }
        let seconds = (class.mean + 6.0 * class.spread).max(3.0 * class.mean);
        Duration::from_secs_f64(seconds).max(LEAST_SLOW)
    }
}

/// Whether a request may be sent a second time. Where all are slow, that would only make
/// them slower.
pub(crate) fn may_hedge(requests: u64, hedges: u64) -> bool {
    hedges * HEDGED_OF <= requests
}

/// The class of sizes that take about as long: powers of two from 4 KiB on.
fn class_of(bytes: u64) -> usize {
    let powers = (bytes >> 12).checked_ilog2().map_or(0, |power| power + 1);
    (powers as usize).min(11)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe of a rate, with a latency and requests of a size.
    fn settled(most: usize, pipe: f64, latency: f64, bytes: f64) -> usize {
        let mut depth = Depth::new(most);
        let mut seen = Vec::new();
        for _ in 0..200 {
            depth.end_round((depth.limit() as f64 * bytes / latency).min(pipe));
            seen.push(depth.limit());
        }
        seen.sort_unstable();
        seen[seen.len() / 2]
    }

    #[test]
    fn more_are_sent_as_long_as_that_brings_more() {
        let small = settled(512, 1e9, 0.05, 100e3);
        assert!((384..=512).contains(&small), "{small}");
        assert_eq!(settled(512, 60e6, 0.05, 1e6), AT_FIRST);
        assert_eq!(settled(16, 1e9, 0.05, 1e3), 16, "never more than allowed");
    }

    #[test]
    fn some_wait_unless_that_is_more_than_allowed() {
        let wanted = [128, 18, 8].map(|most| Depth::new(most).num_wanted());
        assert_eq!(wanted, [20, 18, 8]);
    }

    #[test]
    fn a_server_that_asks_for_fewer_gets_fewer() {
        let mut depth = Depth::new(64);
        for _ in 0..10 {
            depth.throttle();
        }
        assert_eq!(depth.limit(), FEWEST);
        for _ in 0..10 * ROUNDS_HELD {
            depth.end_round(depth.limit() as f64);
        }
        assert!(depth.limit() > FEWEST, "and more again later");
    }

    #[test]
    fn a_full_line_gets_smaller_and_fewer_requests() {
        let mut depth = Depth::new(64);
        let sizes: Vec<_> = (0..9)
            .map(|_| {
                assert!(depth.suit(CROWDED * 2));
                (depth.request_bytes() >> 20, depth.limit())
            })
            .collect();
        assert_eq!(sizes[..4], [(4, 16), (2, 16), (1, 16), (1, 10)]);
        assert_eq!(sizes[8], (1, FEWEST));
        assert!(!depth.suit(QUICK) && depth.request_bytes() == SMALLEST);
        assert!(!depth.suit(QUICK / 2) && depth.request_bytes() == 2 * SMALLEST);
        let mut two = Depth::new(2);
        assert!((0..9).all(|_| two.suit(CROWDED * 2)));
        assert_eq!(two.limit(), 2, "never more than allowed");
    }

    #[test]
    fn slow_is_far_outside_of_what_a_size_takes() {
        let mut durations = Durations::default();
        assert_eq!(durations.slow(1 << 20), UNKNOWN_SLOW);
        for n in 0..100 {
            durations.note(1 << 20, Duration::from_millis(1000 + n % 3 * 100));
            durations.note(100, Duration::from_millis(20));
        }
        assert_eq!(durations.slow(100), LEAST_SLOW);
        let slow = durations.slow(1 << 20).as_secs_f64();
        assert!((3.0..4.0).contains(&slow), "{slow}");
        assert_eq!(
            durations.slow(1 << 30),
            UNKNOWN_SLOW,
            "others are not known"
        );
        assert!(may_hedge(0, 0) && may_hedge(32, 2) && !may_hedge(31, 2));
    }
}
