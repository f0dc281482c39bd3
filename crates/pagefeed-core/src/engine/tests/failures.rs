//! Errors, panics, plans that cannot be right, and ends of all kinds.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::*;

#[test]
fn an_error_comes_in_the_place_of_its_batch_and_stays() {
    let source = Formula {
        fails: HashSet::from([30, 40]),
        ..Formula::default()
    };
    let engine = Engine::new(Arc::new(source), config(4, 1 << 20, TokenType::I64)).unwrap();
    for page in [1, 2, 3, 40, 30] {
        engine.submit(first_tokens(&[page])).unwrap();
    }
    for page in 1..4 {
        let batch = next(&engine).unwrap();
        assert_eq!(values(&batch, TokenType::I64)[1], i64::from(token(page, 1)));
    }
    for _ in 0..3 {
        let error = next(&engine).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (Kind::Checksum, "page 40 is damaged")
        );
    }
    // No thread is stuck: the engine works after the work was dropped.
    engine.clear().unwrap();
    assert_eq!(engine.num_pending(), 0);
    engine.submit(first_tokens(&[5])).unwrap();
    assert_eq!(
        values(&next(&engine).unwrap(), TokenType::I64)[0],
        i64::from(token(5, 0))
    );
}

#[test]
fn a_panic_becomes_an_error() {
    let source = Formula {
        panics: HashSet::from([9]),
        ..Formula::default()
    };
    let engine = Engine::new(Arc::new(source), config(1, 1 << 20, TokenType::I64)).unwrap();
    engine.submit(first_tokens(&[1])).unwrap();
    engine.submit(first_tokens(&[2, 9])).unwrap();
    assert!(next(&engine).is_ok());
    let error = next(&engine).unwrap_err();
    assert_eq!(error.kind(), Kind::Internal);
    assert!(error.message().contains("a bad page"), "{error}");
}

#[test]
fn a_panic_among_slices_leaves_the_account_right() {
    struct Slices(AtomicBool);
    impl PageSource for Slices {
        fn decode(&self, _: u64, _: Loading<'_>) -> Result<Page> {
            Err(Error::invalid("no page is loaded"))
        }
        fn entry(&self, _: u64) -> Result<PageEntry> {
            Ok(PageEntry::new(0, 100))
        }
        fn slice_tokens(&self, _: u64) -> Option<u64> {
            Some(10)
        }
        fn read_slices(
            &self,
            slices: &mut [&mut PageSlice],
            _: &mut Vec<u8>,
        ) -> Result<SliceReads, (u64, Error)> {
            for slice in slices {
                slice.loaded.tokens = Tokens::I32(vec![7; 10]);
                slice.loaded.row_offsets = vec![0, 10];
                assert!(!self.0.swap(false, Ordering::Relaxed), "a bad slice");
            }
            Ok(SliceReads::default())
        }
    }
    let source = Arc::new(Slices(AtomicBool::new(true)));
    let engine = Engine::new(source, config(1, 1 << 20, TokenType::I64)).unwrap();
    engine.submit(first_tokens(&[1, 2])).unwrap();
    assert_eq!(next(&engine).unwrap_err().kind(), Kind::Internal);
    // The memory of what was read before the panic counts once.
    engine.clear().unwrap();
    for _ in 0..2 {
        engine.submit(first_tokens(&[1, 2])).unwrap();
        assert_eq!(
            values(&next(&engine).unwrap(), TokenType::I64)[..10],
            [7; 10]
        );
    }
}

#[test]
fn tokens_that_do_not_fit_and_pages_too_short_are_named() {
    let negative = Engine::new(
        Arc::new(Formula::default()),
        config(2, 1 << 20, TokenType::I64),
    );
    let engine = negative.unwrap();
    let mut plan = first_tokens(&[17]);
    plan.first_token = vec![num_tokens(17) as u32 - 9];
    engine.submit(plan).unwrap();
    let error = next(&engine).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    let expected = format!(
        "page 17 of the index holds {0} tokens, the plan needs {1}",
        num_tokens(17),
        num_tokens(17) + 1
    );
    assert!(error.message().starts_with(&expected), "{error}");

    engine.clear().unwrap();
    let mut plan = first_tokens(&[17]);
    plan.row = vec![3];
    engine.submit(plan).unwrap();
    let error = next(&engine).unwrap_err();
    assert!(
        error
            .message()
            .contains("holds 3 rows, the plan needs row 3"),
        "{error}"
    );

    struct Wide;
    impl PageSource for Wide {
        fn decode(&self, _: u64, _: Loading<'_>) -> Result<Page> {
            Ok(Page::Tokens(TokenPage {
                tokens: Tokens::I32([vec![1; 9], vec![65536]].concat()),
                row_offsets: vec![0, 10],
                ..TokenPage::default()
            }))
        }
        fn entry(&self, _: u64) -> Result<PageEntry> {
            Ok(PageEntry::new(0, 100))
        }
        fn locate(&self, error: Error, page: u64) -> Error {
            error.in_file("some.parquet").at_page(page)
        }
    }
    let engine = Engine::new(Arc::new(Wide), config(2, 1 << 20, TokenType::U16)).unwrap();
    engine.submit(first_tokens(&[4])).unwrap();
    let error = next(&engine).unwrap_err();
    assert_eq!(error.kind(), Kind::TokenRange);
    let text = error.to_string();
    assert!(
        text.starts_with("some.parquet, page 4: token 65536 in page 4"),
        "{text}"
    );
}

#[test]
fn plans_that_cannot_be_right_are_refused() {
    let engine = Engine::new(
        Arc::new(Formula::default()),
        config(1, 1 << 20, TokenType::I64),
    )
    .unwrap();
    let refused = |change: &dyn Fn(&mut Plan), message: &str| {
        let mut plan = first_tokens(&[1, 2, 3]);
        change(&mut plan);
        let error = engine.submit(plan).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().contains(message), "{error}");
    };
    refused(&|plan| plan.row.truncate(1), "row has 1");
    refused(&|plan| plan.batch_offsets = vec![0, 2], "found 0 to 2");
    refused(
        &|plan| plan.batch_offsets = vec![0, 3, 1, 3],
        "falling in between",
    );
    refused(&|plan| plan.batch_offsets.clear(), "found 0 to 0");
    refused(
        &|plan| plan.destination_row[1] = ROWS as u32,
        "segment 1 of the plan (batch 0)",
    );
    refused(
        &|plan| plan.destination_offset[2] = LENGTH as u32 - 9,
        "segment 2",
    );
    refused(&|plan| plan.num_tokens[0] = u32::MAX, "segment 0");
    refused(
        &|plan| {
            plan.destination_row = vec![1, 0, 1];
            plan.destination_offset = vec![0, 0, 9];
        },
        "segments 0 and 2 of the plan (batch 0) overlap in row 1: offsets 0 and 9",
    );
    assert_eq!(engine.num_pending(), 0);
    engine.submit(Plan::default()).unwrap();
    assert!(
        engine
            .next_batch(Duration::from_millis(1))
            .unwrap()
            .is_none()
    );
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let refused = |config| {
        let error = Engine::new(Arc::new(Formula::default()), config)
            .err()
            .unwrap();
        assert_eq!(error.kind(), Kind::Invalid);
        error.message().to_string()
    };
    let good = config(1, 1 << 20, TokenType::U16);
    assert!(
        refused(EngineConfig {
            num_threads: 0,
            ..good.clone()
        })
        .contains("one thread")
    );
    assert!(
        refused(EngineConfig {
            padding: -1,
            ..good.clone()
        })
        .contains("padding -1")
    );
    assert!(
        refused(EngineConfig {
            budget: 639,
            ..good.clone()
        })
        .contains("639 bytes")
    );
    assert!(
        refused(EngineConfig {
            batch_rows: usize::MAX,
            ..good
        })
        .contains("lower")
    );
}

#[test]
fn closing_while_busy_ends_the_threads_and_wakes_the_consumer() {
    let source = Arc::new(Formula::default());
    source.is_held.store(true, Ordering::Relaxed);
    let engine = Engine::new(source.clone(), config(3, 1 << 20, TokenType::I64)).unwrap();
    let (plan, _) = random_plan(&mut Random(1), 100, 50);
    engine.submit(plan).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| next(&engine).err().unwrap().kind());
        scope.spawn(|| engine.close());
        assert_eq!(waiting.join().unwrap(), Kind::Cancelled);
        source.is_held.store(false, Ordering::Relaxed);
    });
    assert_eq!(
        engine.submit(first_tokens(&[1])).unwrap_err().kind(),
        Kind::Cancelled
    );
    // No thread is left that holds the source.
    drop(engine);
    assert_eq!(Arc::strong_count(&source), 1);
}

#[test]
fn a_batch_outlives_its_engine() {
    let source = Arc::new(Formula::default());
    let engine = Engine::new(source.clone(), config(2, 1 << 20, TokenType::I64)).unwrap();
    engine.submit(first_tokens(&[6])).unwrap();
    let batch = next(&engine).unwrap();
    drop(engine);
    assert_eq!(Arc::strong_count(&source), 1);
    assert_eq!(values(&batch, TokenType::I64)[5], i64::from(token(6, 5)));
}

/// A forked child has none of the threads, and the lock may be held for good.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_is_told_and_can_drop_everything() {
    let source = Arc::new(Formula::default());
    let engine = Engine::new(source, config(2, 1 << 20, TokenType::I64)).unwrap();
    engine.submit(first_tokens(&[1])).unwrap();
    engine.submit(first_tokens(&[2])).unwrap();
    let batch = next(&engine).unwrap();
    let locked = engine.shared.lock();
    // SAFETY: the child only uses what the C library makes safe after a fork
    // (memory), and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: sets a timer that ends a child that hangs.
        unsafe { libc::alarm(10) };
        let is_cancelled = |result: Result<()>| result.is_err_and(|e| e.kind() == Kind::Cancelled);
        let is_right = is_cancelled(engine.next_batch(LONG).map(drop))
            && is_cancelled(engine.submit(first_tokens(&[3])))
            && is_cancelled(engine.clear())
            && is_cancelled(engine.stats().map(drop))
            && engine.num_pending() == 0
            && batch.bytes()[0] == token(1, 0).to_ne_bytes()[0];
        std::mem::forget(locked);
        drop(batch);
        drop(engine);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    assert!(child > 0);
    drop(locked);
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(
        status, 0,
        "the child hung or got something else than an error"
    );
    drop(batch);
    assert_eq!(
        values(&next(&engine).unwrap(), TokenType::I64)[0],
        i64::from(token(2, 0))
    );
}
