//! Counters of an engine.

use super::*;

#[test]
fn batches_that_were_there_when_asked_for_are_counted() {
    let source = Arc::new(Formula::default());
    source.is_held.store(true, Ordering::Relaxed);
    let config = config(1, 1 << 20, TokenType::I64);
    let engine = Engine::new(source.clone(), config).unwrap();
    engine.submit(first_tokens(&[0, 3])).unwrap();
    engine.submit(first_tokens(&[6, 9])).unwrap();
    assert!(engine.next_batch(Duration::ZERO).unwrap().is_none());
    source.is_held.store(false, Ordering::Relaxed);
    let settle = || {
        while !engine.shared.lock().head_is_settled() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for expected in [0, 1] {
        settle();
        drop(next(&engine).unwrap());
        // The first was asked for before.
        assert_eq!(engine.stats().unwrap().batches_ready, expected);
    }
}
