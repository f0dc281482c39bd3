//! Sequences with room for a document.

use std::collections::BTreeSet;

use super::rule::Method;

/// Finds a sequence with room for each item.
pub(super) enum Rooms {
    BestFit {
        /// Free room and number of each sequence that was begun.
        begun: BTreeSet<(u32, u32)>,
        num_begun: u32,
        limit: u32,
        length: u32,
    },
    /// A tree of maxima: the children of node n are 2n and 2n + 1.
    FirstFit { most: Vec<u32> },
    Greedy {
        current: u32,
        free: u32,
        limit: u32,
        length: u32,
    },
}

impl Rooms {
    pub fn new(method: Method, length: u32, limit: usize) -> Self {
        let num_sequences = limit as u32;
        match method {
            Method::BestFit => Self::BestFit {
                begun: BTreeSet::new(),
                num_begun: 0,
                limit: num_sequences,
                length,
            },
            Method::FirstFit => {
                let num_leaves = limit.next_power_of_two();
                let mut most = vec![0; 2 * num_leaves];
                most[num_leaves..num_leaves + limit].fill(length);
                for node in (1..num_leaves).rev() {
                    most[node] = most[2 * node].max(most[2 * node + 1]);
                }
                Self::FirstFit { most }
            }
            Method::Greedy => Self::Greedy {
                current: 0,
                free: if limit > 0 { length } else { 0 },
                limit: num_sequences,
                length,
            },
        }
    }

    /// Returns the sequence with room for `num_tokens` tokens, if there is one.
    pub fn take(&mut self, num_tokens: u32) -> Option<u32> {
        match self {
            Self::BestFit {
                begun,
                num_begun,
                limit,
                length,
            } => {
                let (free, sequence) = match begun.range((num_tokens, 0)..).next().copied() {
                    Some(found) => {
                        begun.remove(&found);
                        found
                    }
                    None if num_begun < limit => {
                        *num_begun += 1;
                        (*length, *num_begun - 1)
                    }
                    None => return None,
                };
                if free > num_tokens {
                    begun.insert((free - num_tokens, sequence));
                }
                Some(sequence)
            }
            Self::FirstFit { most } => {
                let num_leaves = most.len() / 2;
                if most[1] < num_tokens {
                    return None;
                }
                let mut node = 1;
                while node < num_leaves {
                    node *= 2;
                    node += usize::from(most[node] < num_tokens);
                }
                let sequence = (node - num_leaves) as u32;
                most[node] -= num_tokens;
                while node > 1 {
                    node /= 2;
                    most[node] = most[2 * node].max(most[2 * node + 1]);
                }
                Some(sequence)
            }
            Self::Greedy {
                current,
                free,
                limit,
                length,
            } => {
                if *free < num_tokens {
                    if *current + 1 >= *limit {
                        return None;
                    }
                    (*current, *free) = (*current + 1, *length);
                }
                *free -= num_tokens;
                Some(*current)
            }
        }
    }
}
