//! An engine, its pages and plans, and its users, as a seed makes them.

use std::sync::Arc;

use pagefeed_core::engine::{EngineConfig, Layout, TokenType};
use pagefeed_core::sync::simulated::Random;

use crate::pages::{Fault, Made, Planned};
use crate::plans::{Course, PADDING};

/// An engine and its users, as a seed makes them.
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
            columns: Vec::new(),
            row_payload: 0,
            padding: PADDING,
            layout: Layout::default(),
        };
        let room = random.of(&[0, 300, 1_500, 5_000, 20_000, 1 << 20]);
        config.budget = config.batch_bytes() * random.of(&[1, 2, 4, 12]) as usize + room as usize;
        let mut source = Made::new(random);
        source.has_files = !course.has_bundles;
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
                        Fault::Breaks,
                        Fault::Lost,
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
