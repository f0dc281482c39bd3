//! Pages that are fetched from afar, ahead of decoding.

use super::*;

fn engine(source: &Arc<Formula>, budget: usize) -> Engine {
    Engine::new(source.clone(), config(2, budget, TokenType::I64)).unwrap()
}

#[test]
fn many_are_fetched_at_a_time_inside_the_budget() {
    let source = Arc::new(Formula {
        in_flight: 16,
        delay: Duration::from_millis(2),
        ..Formula::default()
    });
    for budget in [1 << 20, 200_000] {
        let engine = engine(&source, budget);
        let (plan, expected) = random_plan(&mut Random(5), 80, 60);
        engine.submit(plan).unwrap();
        for expected in expected {
            assert_eq!(values(&next(&engine).unwrap(), TokenType::I64), expected);
        }
        let (now, highest) = *source.fetching.lock().unwrap();
        assert!(now == 0 && highest > 4 && highest <= 16, "{highest}");
        let stats = engine.stats().unwrap();
        assert!(stats.peak_bytes as usize <= budget, "{stats:?}");
        *source.fetching.lock().unwrap() = (0, 0);
    }
}

#[test]
fn a_plan_begins_all_fetches_that_may_be_under_way_and_no_more_than_are_wanted() {
    for wanted in [8, 3] {
        begins(wanted);
    }
}

fn begins(wanted: usize) {
    let source = Arc::new(Formula {
        in_flight: 8,
        wanted: Some(wanted),
        ..Formula::default()
    });
    let engine = engine(&source, 1 << 20);
    // No page is there before all are asked for: no fetch ends that could begin another.
    source.is_held.store(true, Ordering::Relaxed);
    engine.submit(first_tokens(&[0, 1, 2, 3])).unwrap();
    engine.submit(first_tokens(&[4, 5, 6, 7, 8])).unwrap();
    let fetches = engine.awaited().unwrap().fetches;
    source.is_held.store(false, Ordering::Relaxed); // A failing test ends, too.
    assert_eq!(fetches, (wanted, 8));
    (0..2).for_each(|_| drop(next(&engine).unwrap()));
}

#[test]
fn what_cannot_be_fetched_fails_its_batch_until_it_is_cleared() {
    let source = Arc::new(Formula {
        in_flight: 3,
        lost: HashSet::from([7]),
        ..Formula::default()
    });
    let engine = engine(&source, 1 << 20);
    for page in [5, 6, 7, 8] {
        engine.submit(first_tokens(&[page])).unwrap();
    }
    assert!(next(&engine).is_ok() && next(&engine).is_ok());
    for _ in 0..2 {
        let kind = next(&engine).unwrap_err().kind();
        assert_eq!(kind, Kind::Io(std::io::ErrorKind::TimedOut));
    }
    engine.clear().unwrap();
    engine.submit(first_tokens(&[8])).unwrap();
    assert!(next(&engine).is_ok());
}

#[test]
fn a_panic_of_a_fetch_and_one_that_is_dropped_become_errors() {
    struct Dropping;
    impl PageSource for Dropping {
        fn num_in_flight(&self) -> usize {
            2
        }
        fn spawn(&self, fetch: Waiting<'static, ()>) {
            drop(fetch);
        }
        fn decode(&self, _: u64, _: Loading<'_>) -> Result<Page> {
            Err(Error::invalid("nothing was fetched"))
        }
        fn entry(&self, _: u64) -> Result<PageEntry> {
            Ok(PageEntry::new(10, 100))
        }
    }
    let panicking = Formula {
        in_flight: 3,
        panics: HashSet::from([7]),
        ..Formula::default()
    };
    let sources: [(Arc<dyn PageSource>, _); 2] = [
        (Arc::new(panicking), "a bad page"),
        (Arc::new(Dropping), "dropped"),
    ];
    for (source, text) in sources {
        let engine = Engine::new(source, config(2, 1 << 20, TokenType::I64)).unwrap();
        engine.submit(first_tokens(&[7])).unwrap();
        let error = next(&engine).unwrap_err();
        assert_eq!(error.kind(), Kind::Internal);
        assert!(error.message().contains(text), "{error}");
    }
}

#[test]
fn planned_neighbours_of_a_file_are_fetched_together() {
    let source = Arc::new(Formula {
        in_flight: 1,
        file_pages: 4,
        ..Formula::default()
    });
    let engine = engine(&source, 1 << 20);
    engine.submit(first_tokens(&[6, 1, 8, 7, 2])).unwrap();
    next(&engine).unwrap();
    let mut fetched = source.fetched.lock().unwrap().clone();
    fetched.sort();
    assert_eq!(fetched, [vec![1, 2], vec![6, 7], vec![8]]);
}

#[test]
fn pages_of_many_bytes_are_not_fetched_together() {
    let source = Arc::new(Formula {
        in_flight: 1,
        file_pages: 8,
        stored: Some(400 << 10),
        ..Formula::default()
    });
    let engine = engine(&source, 1 << 24);
    engine.submit(first_tokens(&[0, 1, 2, 3, 4])).unwrap();
    drop(next(&engine).unwrap());
    let fetched = source.fetched.lock().unwrap();
    assert_eq!(*fetched, [vec![0, 1], vec![2, 3], vec![4]]);
}

#[test]
fn fetching_together_keeps_to_order_and_budget() {
    let source = Arc::new(Formula {
        in_flight: 5,
        file_pages: 16,
        delay: Duration::from_micros(100),
        ..Formula::default()
    });
    let mut random = Random(9);
    for budget in [1 << 20, 200_000, 20_000] {
        let engine = engine(&source, budget);
        for _ in 0..6 {
            let (plan, expected) = random_plan(&mut random, 60, 60);
            engine.submit(plan).unwrap();
            for expected in expected {
                assert_eq!(values(&next(&engine).unwrap(), TokenType::I64), expected);
            }
        }
        let stats = engine.stats().unwrap();
        // Less than plans and pages in use take is kept to as far as may be.
        let bound = budget.max(100_000);
        assert!(stats.peak_bytes as usize <= bound, "{stats:?}");
        assert_eq!(stats.held_bytes, 0);
    }
    let together = source.fetched.lock().unwrap();
    assert!(together.iter().any(|pages| pages.len() > 1));
}

#[test]
fn clearing_while_pages_are_fetched_leaves_a_working_engine() {
    let source = Arc::new(Formula {
        in_flight: 4,
        file_pages: 3,
        delay: Duration::from_micros(200),
        ..Formula::default()
    });
    let engine = engine(&source, 30_000);
    let mut random = Random(2);
    for _ in 0..40 {
        let (plan, expected) = random_plan(&mut random, 20, 30);
        engine.submit(plan).unwrap();
        for expected in expected.iter().take(random.below(12) as usize) {
            assert_eq!(&values(&next(&engine).unwrap(), TokenType::I64), expected);
        }
        engine.clear().unwrap();
    }
    let (plan, expected) = random_plan(&mut random, 20, 30);
    engine.submit(plan).unwrap();
    for expected in expected {
        assert_eq!(values(&next(&engine).unwrap(), TokenType::I64), expected);
    }
    assert_eq!(engine.stats().unwrap().held_bytes, 0);
}

#[test]
fn closing_waits_for_fetches_under_way() {
    let source = Arc::new(Formula {
        in_flight: 4,
        ..Formula::default()
    });
    let engine = engine(&source, 1 << 20);
    source.is_held.store(true, Ordering::Relaxed);
    engine.submit(first_tokens(&[0, 1, 2, 3])).unwrap();
    while source.fetching.lock().unwrap().0 < 4 {
        std::thread::yield_now();
    }
    let held = Arc::clone(&source);
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        held.is_held.store(false, Ordering::Relaxed);
    });
    engine.close();
    assert_eq!(source.fetching.lock().unwrap().0, 0);
    release.join().unwrap();
}

#[test]
fn a_slow_source_times_out_without_losing_anything() {
    let source = Arc::new(Formula::default());
    source.is_held.store(true, Ordering::Relaxed);
    let engine = Engine::new(source.clone(), config(1, 1 << 20, TokenType::I64)).unwrap();
    engine.submit(first_tokens(&[8])).unwrap();
    assert!(
        engine
            .next_batch(Duration::from_millis(5))
            .unwrap()
            .is_none()
    );
    assert_eq!(engine.num_pending(), 1);
    source.is_held.store(false, Ordering::Relaxed);
    assert_eq!(
        values(&next(&engine).unwrap(), TokenType::I64)[0],
        i64::from(token(8, 0))
    );
}
