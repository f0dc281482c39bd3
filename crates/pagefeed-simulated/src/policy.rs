//! Choice of the thread to run: ways that find different defects.

use super::Random;

/// Choice of the next thread among those that can run.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// Any thread. The running one continues with a chance of `stay` in 256.
    Any {
        /// Chance in 256.
        stay: u64,
    },
    /// Threads have priorities, and the running one gets the lowest once in a number of
    /// steps: few changes at the wrong places (Burckhardt et al., "A randomized
    /// scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010).
    Priorities {
        /// Steps from one change to the next, about.
        change: u64,
    },
    /// One thread runs only if no other can, for stretches of this many steps.
    Starve {
        /// Steps of a stretch, about.
        stretch: u64,
    },
}

impl Policy {
    /// A policy of any kind.
    pub fn any(random: &mut Random) -> Self {
        match random.below(8) {
            0..4 => Self::Any {
                stay: random.of(&[0, 64, 128, 200, 240]),
            },
            4..6 => Self::Priorities {
                change: random.of(&[4, 16, 64, 256]),
            },
            _ => Self::Starve {
                stretch: random.of(&[8, 32, 128]),
            },
        }
    }
}

/// State of a policy.
pub(super) struct Chooser {
    policy: Policy,
    /// Per thread.
    priorities: Vec<i64>,
    lowest: i64,
    starved: usize,
}

impl Chooser {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            priorities: Vec::new(),
            lowest: 0,
            starved: 0,
        }
    }

    /// Adds a thread.
    pub fn add(&mut self, random: &mut Random) {
        self.priorities.push(random.below(1 << 20) as i64);
    }

    /// Chooses the thread of `runnable`, which is not empty, that runs next.
    pub fn choose(&mut self, random: &mut Random, runnable: &[usize], current: usize) -> usize {
        match self.policy {
            Policy::Any { stay } => {
                if random.below(256) < stay && runnable.contains(&current) {
                    return current;
                }
                random.of(runnable)
            }
            Policy::Priorities { change } => {
                if random.one_in(change) {
                    self.yields(current);
                }
                let highest = runnable
                    .iter()
                    .max_by_key(|&&thread| self.priorities[thread]);
                highest.copied().unwrap_or(current)
            }
            Policy::Starve { stretch } => {
                if random.one_in(stretch) {
                    self.starved = random.below(self.priorities.len() as u64) as usize;
                }
                let chosen = random.of(runnable);
                if chosen != self.starved || runnable.len() == 1 {
                    return chosen;
                }
                let others = runnable.iter().filter(|&&thread| thread != chosen);
                let count = runnable.len() as u64 - 1;
                let other = others.copied().nth(random.below(count) as usize);
                other.unwrap_or(chosen)
            }
        }
    }

    /// A thread lets the others go first.
    pub fn yields(&mut self, thread: usize) {
        self.lowest -= 1;
        self.priorities[thread] = self.lowest;
    }
}
