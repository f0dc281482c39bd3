//! Counters of an engine.

use std::time::Duration;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of an engine so far.
        #[derive(Clone, Debug, Default)]
        pub struct EngineStats {
            $($(#[$doc])* pub $name: u64,)*
            /// Time the consumer waited for batches.
            pub wait: Duration,
        }

        impl EngineStats {
            /// Names and numbers of all but the time.
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

stats! {
    /// Loads of pages begun.
    pages_loaded,
    /// Loads of pages that had been given up for want of memory.
    pages_reloaded,
    /// Reads of tokens whose pages were not loaded for them: of one range of a file each.
    slices_read,
    /// Reads of where the payloads of spans lie.
    index_reads,
    /// Reads of payloads of spans.
    payload_reads,
    /// Stored bytes of all these loads and reads, as far as the source knows them.
    bytes_read,
    /// Batches delivered.
    batches,
    /// Batches delivered that were finished when they were asked for.
    batches_ready,
    /// Tokens of the batches delivered, padding included.
    tokens,
    /// Padding tokens of the batches delivered.
    padding_tokens,
    /// Positions in the packed sequences delivered at which a document continues that
    /// would have fitted into one sequence.
    splits,
    /// Bytes of pages held and being loaded now.
    held_bytes,
    /// Most bytes that counted against the budget at one time.
    peak_bytes,
}
