//! How many batches are written before they are asked for.

use super::*;

/// Waits until the only worker has nothing to do; how many batches are finished then.
fn num_finished(engine: &Engine) -> usize {
    loop {
        let state = engine.shared.lock();
        if state.num_idle == 1 {
            return state.num_finished();
        }
        drop(state);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn two_batches_wait_and_one_more_after_each_that_was_late() {
    let config = config(1, 1 << 20, TokenType::I64);
    let engine = Engine::new(Arc::new(Formula::default()), config).unwrap();
    for page in 0..40 {
        engine.submit(first_tokens(&[page])).unwrap();
    }
    let late = || engine.shared.lock().wait_for_head();
    // Nothing could be ahead of the first.
    late();
    assert_eq!(num_finished(&engine), 2);
    drop(next(&engine).unwrap());
    assert_eq!(num_finished(&engine), 2);
    for expected in 3..6 {
        late();
        // Now that one more may be written, it is not too few again at once.
        late();
        drop(next(&engine).unwrap());
        assert_eq!(num_finished(&engine), expected);
        drop(next(&engine).unwrap());
        assert_eq!(num_finished(&engine), expected);
    }
}
