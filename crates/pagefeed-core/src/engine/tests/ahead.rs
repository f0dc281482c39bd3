//! Batches that are written before they are asked for.

use super::super::job::Job;
use super::*;

/// Waits until the only worker has nothing to do, and nothing is fetched; how many batches
/// are finished then.
fn num_finished(engine: &Engine) -> usize {
    loop {
        let state = engine.shared.lock();
        if state.num_idle == 1 && state.num_fetching == 0 {
            return state.num_finished();
        }
        drop(state);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn two_batches_wait_and_one_more_after_each_that_was_late_among_many_in_time() {
    let config = config(1, 1 << 20, TokenType::I64);
    let engine = Engine::new(Arc::new(Formula::default()), config).unwrap();
    for page in 0..100 {
        engine.submit(first_tokens(&[page])).unwrap();
    }
    let late = || {
        engine.shared.lock().wait_for_head();
    };
    let take = |count: usize, expected: usize| {
        for _ in 0..count {
            drop(next(&engine).unwrap());
            assert_eq!(num_finished(&engine), expected);
        }
    };
    // Nothing could be ahead of the first.
    late();
    assert_eq!(num_finished(&engine), 2);
    take(1, 2);
    for expected in 3..6 {
        // The batch that was asked for too early is not in time.
        take(4 * (expected - 1), expected - 1);
        late();
        // Now that one more may be written, it is not too few again at once.
        late();
        take(1, expected);
        // A consumer that waits for every other batch is faster than the worker.
        take(4 * expected - 1, expected);
        late();
        take(1, expected);
    }
    // One more is asked for once, until that one was finished, too.
    for _ in 0..2 {
        engine.shared.lock().wait_after_many(false);
    }
    take(1, 6);
}

#[test]
fn pages_are_loaded_ahead_of_their_time_once_a_batch_was_late_for_lack_of_one() {
    let config = config(1, 1 << 20, TokenType::I64);
    let engine = Engine::new(Arc::new(Formula::default()), config).unwrap();
    for page in 0..200 {
        engine.submit(first_tokens(&[page])).unwrap();
    }
    let num_loaded = || engine.stats().unwrap().pages_loaded;
    assert_eq!(num_finished(&engine), 2);
    // One is due with each of two batches.
    assert!((32..=36).contains(&num_loaded()), "{}", num_loaded());
    for _ in 0..20 {
        drop(next(&engine).unwrap());
        num_finished(&engine);
    }
    assert!((52..=56).contains(&num_loaded()), "{}", num_loaded());
    let wait = |is_missing| engine.shared.lock().wait_after_many(is_missing);
    // More pages would not have helped.
    assert_eq!(wait(false), 32.0);
    assert_eq!(wait(true), 256.0);
    drop(next(&engine).unwrap());
    num_finished(&engine);
    assert_eq!(num_loaded(), 200);
    assert_eq!([(); 9].map(|()| wait(true))[8], 16_384.0, "there is an end");
}

#[test]
fn as_many_batches_as_are_assembled_are_planned_after_them() {
    let source = Arc::new(Formula {
        in_flight: 1,
        ..Formula::default()
    });
    let engine = Engine::new(source, config(1, 1 << 20, TokenType::I64)).unwrap();
    let mut num_planned = 0;
    for (planned, finished) in [(10, 8), (16, 8), (40, 20)] {
        for page in num_planned..planned {
            engine.submit(first_tokens(&[page])).unwrap();
        }
        num_planned = planned;
        assert_eq!(num_finished(&engine), finished);
    }
}

#[test]
fn larger_batches_are_fewer_ahead() {
    let source = Arc::new(Formula {
        in_flight: 1,
        ..Formula::default()
    });
    let engine = Engine::new(source, config(1, 1 << 20, TokenType::I64)).unwrap();
    for (rows, finished) in [(ROWS, 20), (200, 3)] {
        for page in 0..40 {
            let batch_rows = Some(rows);
            let plan = first_tokens(&[page]);
            engine.submit(Plan { batch_rows, ..plan }).unwrap();
        }
        assert_eq!(num_finished(&engine), finished);
        engine.clear().unwrap();
    }
}

#[test]
fn every_page_is_announced_ahead_of_its_load() {
    let source = Arc::new(Formula::default());
    let config = config(1, 1 << 20, TokenType::I64);
    let engine = Engine::new(source.clone(), config).unwrap();
    for page in 0..600 {
        engine.submit(first_tokens(&[page])).unwrap();
    }
    (0..600).for_each(|_| drop(next(&engine).unwrap()));
    let mut announced = source.announced.lock().unwrap().clone();
    announced.sort_unstable();
    announced.dedup();
    // But those that are loaded at once.
    assert!(announced.len() > 560, "{}", announced.len());
}

#[test]
fn a_batch_that_could_be_written_waits_for_few_pages_of_one_that_needs_many() {
    let source = Formula::default();
    let config = Arc::new(config(1, 1 << 20, TokenType::I64));
    let mut state = State::new(Arc::clone(&config), false);
    let mut numbers = PageNumbers::default();
    let many: Vec<u64> = (1..=30).collect();
    let long = Plan {
        destination_row: (0..30).map(|page| page % ROWS as u32).collect(),
        destination_offset: (0..30).map(|page| page / ROWS as u32 * 10).collect(),
        ..first_tokens(&many)
    };
    for plan in [first_tokens(&[0]), first_tokens(&[0]), long] {
        let plan = PreparedPlan::new(plan, &config, &source, &mut numbers).unwrap();
        state.append(&Arc::new(plan), &source);
    }
    let mut done = String::new();
    while done.matches('g').count() < 2 {
        match state.next_job(&source) {
            Some(Job::Load(job)) => {
                done.push('l');
                state.end_load(&job, Ok(page_of(job.page.page)));
            }
            Some(Job::Gather(_)) => done.push('g'),
            _ => panic!("nothing to do after {done}"),
        }
    }
    assert_eq!(done, "lgllllg");
}
