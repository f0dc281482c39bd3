//! Counters of requests and their outcomes.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Numbers since the storage was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Names and numbers.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Requests sent, with any answer.
    requests,
    /// Requests sent again after a failure.
    retries,
    /// Requests sent a second time since the first was slow.
    hedges,
    /// Bytes of files that arrived.
    bytes_fetched,
    /// Bytes of files that were asked for.
    bytes_wanted,
    /// Requests under way.
    in_flight,
    /// Ranges that the cache had.
    cache_hits,
    /// Bytes read from the cache.
    cache_bytes,
    /// Files of the cache that were damaged, or could not be written.
    cache_failures,
    /// Names in lists that no URL can have, whose objects were left out.
    names_skipped,
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
