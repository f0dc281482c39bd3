//! Plans that are dropped for others, of batches of other sizes.

use super::super::job::Job;
use super::*;

#[test]
fn batches_of_any_rows_are_as_planned_wherever_plans_are_dropped() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let largest = EngineConfig {
            batch_rows: 9,
            ..config(1, 0, TokenType::I64)
        };
        let budget = largest.batch_bytes() + [0, 900, 40_000, 1 << 24][random.below(4) as usize];
        let source = Arc::new(Formula {
            in_flight: [0, 0, 1, 5][random.below(4) as usize],
            ..Formula::default()
        });
        let num_threads = 1 + random.below(4) as usize;
        let config = config(num_threads, budget, TokenType::I64);
        let engine = Engine::new(source, config).unwrap();
        let mut waiting: Vec<Vec<i64>> = Vec::new();
        let mut kept = Vec::new();
        let mut num_tokens = 0;
        for _ in 0..12 {
            let rows = 1 + random.below(9) as usize;
            let (plan, expected) = random_plan_of(rows, &mut random, 8, 30);
            engine.submit(plan).unwrap();
            waiting.extend(expected);
            let num_taken = random.below(waiting.len() as u64 + 1) as usize;
            for expected in waiting.drain(..num_taken) {
                let batch = next(&engine).unwrap();
                assert_eq!(values(&batch, TokenType::I64), expected, "seed {seed}");
                assert_eq!(batch.num_rows() * LENGTH, expected.len());
                num_tokens += expected.len() as u64;
                if random.below(4) == 0 {
                    kept.push((batch, expected));
                }
            }
            if random.below(3) == 0 {
                engine.clear_keeping_pages().unwrap();
                waiting.clear();
            }
        }
        for (batch, expected) in kept {
            assert_eq!(values(&batch, TokenType::I64), expected, "reused too early");
        }
        assert_eq!(engine.stats().unwrap().tokens, num_tokens);
    }
}

/// Pages whose tokens are the epoch they are made for.
#[derive(Default)]
struct OfEpochs {
    made: Mutex<Vec<(u64, u32)>>,
}

impl PageSource for OfEpochs {
    fn decode(&self, page: u64, loading: Loading<'_>) -> Result<Page> {
        self.made.lock().unwrap().push((page, loading.epoch));
        Ok(Page::Tokens(TokenPage {
            tokens: Tokens::U32(vec![loading.epoch; 10]),
            row_offsets: vec![0, 10],
            ..TokenPage::default()
        }))
    }

    fn entry(&self, _: u64) -> Result<PageEntry> {
        Ok(PageEntry::new(0, 80))
    }
}

#[test]
fn a_page_is_made_once_for_each_epoch() {
    let source = Arc::new(OfEpochs::default());
    let engine = Engine::new(source.clone(), config(1, 1 << 20, TokenType::I64)).unwrap();
    let plan = Plan {
        epoch: vec![0, 1, 1, 70_000],
        // In no order: it goes with its segment.
        destination_row: vec![0, 2, 1, 3],
        ..first_tokens(&[5, 5, 6, 5])
    };
    // In one plan: between two, the first batch may be made and its pages dropped.
    engine.submit(repeated(&plan, 2)).unwrap();
    for _ in 0..2 {
        let found = values(&next(&engine).unwrap(), TokenType::I64);
        for (row, epoch) in [0, 1, 1, 70_000].into_iter().enumerate() {
            assert_eq!(found[row * LENGTH..][..10], [epoch; 10]);
        }
    }
    let mut made = source.made.lock().unwrap().clone();
    made.sort_unstable();
    assert_eq!(made, [(5, 0), (5, 1), (5, 70_000), (6, 1)]);
    let short = Plan {
        epoch: vec![1],
        ..plan
    };
    let error = engine.submit(short).unwrap_err();
    assert!(error.message().contains("epoch has 1"), "{error}");
}

/// A plan of one batch, repeated: every page has uses left until the last batch.
fn repeated(one: &Plan, count: usize) -> Plan {
    let size = one.page.len() as u32;
    Plan {
        batch_offsets: (0..=count as u32).map(|batch| batch * size).collect(),
        page: one.page.repeat(count),
        epoch: one.epoch.repeat(count),
        row: one.row.repeat(count),
        first_token: one.first_token.repeat(count),
        num_tokens: one.num_tokens.repeat(count),
        destination_row: one.destination_row.repeat(count),
        destination_offset: one.destination_offset.repeat(count),
        ..Plan::default()
    }
}

/// More batches of some pages than are written ahead.
fn many_batches(pages: &[u64]) -> Plan {
    repeated(&first_tokens(pages), 40)
}

#[test]
fn pages_that_are_held_are_not_loaded_again_for_another_plan() {
    for in_flight in [0, 3] {
        let source = Arc::new(Formula {
            in_flight,
            ..Formula::default()
        });
        let engine = Engine::new(source.clone(), config(2, 1 << 24, TokenType::I64)).unwrap();
        let pages: Vec<u64> = (0..5).collect();
        let submit_many = || engine.submit(many_batches(&pages)).unwrap();
        submit_many();
        drop(next(&engine).unwrap());
        for _ in 0..50 {
            engine.clear_keeping_pages().unwrap();
            submit_many();
            drop(next(&engine).unwrap());
        }
        let loads = source.loads.lock().unwrap();
        assert_eq!(loads.len(), 5);
        assert!(
            loads.values().all(|&loads| loads == 1),
            "{in_flight}: {loads:?}"
        );
        drop(loads);
        engine.clear().unwrap();
        engine.submit(first_tokens(&pages)).unwrap();
        drop(next(&engine).unwrap());
        assert!(
            source
                .loads
                .lock()
                .unwrap()
                .values()
                .all(|&loads| loads == 2)
        );
    }
}

#[test]
fn a_page_on_its_way_is_kept_if_the_last_clear_keeps_pages() {
    let source = Formula::default();
    let config = Arc::new(config(1, 1 << 20, TokenType::I64));
    for keeps_pages in [false, true] {
        let mut state = State::new(Arc::clone(&config), false);
        let mut numbers = PageNumbers::default();
        let plan = first_tokens(&[7]);
        let plan = PreparedPlan::new(plan, &config, &source, &mut numbers).unwrap();
        let plan = Arc::new(plan);
        state.append(&plan, &source);
        let Some(Job::Load(job)) = state.next_job(&source) else {
            panic!("the page is not loaded");
        };
        state.clear(!keeps_pages);
        state.clear(keeps_pages);
        state.end_load(&job, Ok(page_of(7)));
        assert_eq!(state.take_garbage().pages.len(), usize::from(!keeps_pages));
        state.append(&plan, &source);
        let is_there = matches!(state.next_job(&source), Some(Job::Gather(_)));
        assert_eq!(is_there, keeps_pages);
    }
}
