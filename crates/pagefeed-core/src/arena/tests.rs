use std::collections::BTreeMap;

use super::*;
use crate::decode::tests::Random;

fn is_of_pool<T>(values: &Vec<T>) -> bool {
    let layout = Layout::array::<T>(values.capacity());
    layout.is_ok_and(|layout| is_in_range(values.as_ptr().cast_mut().cast(), &layout))
}

/// Gives back as `give_back` does, to a pool of the test.
fn give_back(pool: &mut Pool, memory: usize, bytes: usize) {
    pool.keep(memory, bytes);
    while let Some((memory, bytes)) = pool.take_surplus() {
        return_to_system(memory, bytes);
        pool.free.entry(bytes).or_default().push(memory);
    }
}

/// A vector in the range. Other tests may hold the lock for a moment.
fn in_range<T>(capacity: usize) -> Vec<T> {
    ASKED.store(FIRST_BYTES, Ordering::Relaxed);
    let taken = (0..1_000_000).find_map(|_| vec(capacity));
    taken.unwrap_or_default()
}

#[test]
fn sizes_are_rounded_up_by_a_sixteenth_at_most() {
    for bytes in (MIN_BYTES..=MAX_BYTES).step_by(12_345) {
        let all = rounded(bytes).unwrap();
        assert!(all >= bytes && all - bytes < (bytes / STEPS).max(UNIT));
        assert_eq!(all % UNIT, 0);
        assert_eq!(rounded(all), Some(all));
    }
    assert_eq!(rounded(MIN_BYTES - 1), None);
    assert_eq!(rounded(MAX_BYTES), Some(MAX_BYTES));
    assert_eq!(rounded(MAX_BYTES + 1), None);
}

#[test]
fn vectors_lie_apart_and_grow_and_move_with_their_values() {
    let mut random = Random(3);
    let mut all: Vec<(u64, Vec<u64>)> = Vec::new();
    for number in 0..300 {
        let capacity = 4096 + random.below(20_000) as usize;
        let mut values = in_range(capacity);
        assert!(is_of_pool(&values) && values.is_empty() && values.capacity() >= capacity);
        values.resize(capacity, number);
        if random.below(4) == 0 {
            values.resize(values.capacity() + 1, number);
            assert!(!is_of_pool(&values));
        }
        if random.below(4) == 0 {
            values.truncate(10);
            values.shrink_to_fit();
            assert!(!is_of_pool(&values));
        }
        all.push((number, values));
        if random.below(3) == 0 {
            let dropped = random.below(all.len() as u64) as usize;
            all.swap_remove(dropped);
        }
    }
    for (number, values) in all {
        assert!(values.len() >= 10 && values.iter().all(|value| *value == number));
    }
}

#[test]
fn vectors_of_other_sizes_and_types_lie_elsewhere() {
    assert!(is_of_pool(&in_range::<u16>(50_000)));
    assert!(vec::<u16>(MIN_BYTES / 2 - 1).is_none());
    assert!(vec::<u16>(MAX_BYTES / 2 + 1).is_none());
    assert!(vec::<u16>(usize::MAX).is_none());
    assert!(vec::<[u64; 2]>(4096).is_none());
    assert!(vec::<()>(4096).is_none());
}

#[test]
fn a_lock_that_is_never_released_costs_addresses_only() {
    let values: Vec<u64> = in_range(10_000);
    assert!(is_of_pool(&values));
    let address = values.as_ptr().addr();
    let held = loop {
        if let Some(held) = lock(1) {
            break held;
        }
    };
    assert!(vec::<u64>(10_000).is_none());
    drop(values);
    let free = held.free.values().flatten();
    let kept = held.kept.iter().map(|(memory, _)| memory);
    assert!(!free.chain(kept).any(|&memory| memory == address));
}

#[test]
fn memory_waits_for_its_next_use_up_to_a_limit_and_goes_back_beyond() {
    let mut pool = Pool::new();
    let size = KEPT_BYTES / 8;
    let byte = |memory: usize| {
        // SAFETY: this pool gave the memory to this test, in which one thread runs.
        unsafe { &mut *(memory as *mut u8) }
    };
    let taken: Vec<usize> = (0..10).map(|_| pool.take(size).unwrap()).collect();
    for &memory in &taken {
        *byte(memory) = 1;
        give_back(&mut pool, memory, size);
    }
    // Those that waited longest went back.
    assert_eq!((pool.num_used, pool.num_kept), (0, KEPT_BYTES));
    let kept = taken.iter().map(|&memory| *byte(memory));
    assert!(kept.eq([0, 0, 1, 1, 1, 1, 1, 1, 1, 1]));
    // What was given back last is taken first; what has no memory, before new addresses.
    for &memory in taken[2..].iter().rev().chain(&[taken[1], taken[0]]) {
        assert_eq!(pool.take(size), Some(memory));
    }
    let new = pool.take(size).unwrap();
    assert_eq!((new + size, pool.num_kept), (pool.end, 0));
    // Few pieces wait, and a share of what is in use if that is more.
    let pieces: Vec<usize> = (0..100).map(|_| pool.take(UNIT).unwrap()).collect();
    pieces
        .iter()
        .for_each(|&memory| give_back(&mut pool, memory, UNIT));
    assert_eq!(pool.num_kept, KEPT_PIECES * UNIT);
    let many: Vec<usize> = (0..99).map(|_| pool.take(size).unwrap()).collect();
    many[..20]
        .iter()
        .for_each(|&memory| give_back(&mut pool, memory, size));
    assert_eq!(pool.num_kept / size, (11 + 79) / KEPT_SHARE);
}

#[test]
fn pieces_never_overlap() {
    let mut random = Random(7);
    let mut pool = Pool::new();
    let mut used: BTreeMap<usize, usize> = BTreeMap::new();
    for _ in 0..20_000 {
        if used.len() < 40 && random.below(2) == 0 {
            let bytes = UNIT * (1 + random.below(30) as usize);
            used.insert(pool.take(bytes).unwrap(), bytes);
        } else if let Some((&memory, &bytes)) = used.iter().nth(random.below(40) as usize) {
            used.remove(&memory);
            give_back(&mut pool, memory, bytes);
        }
        let all = used.iter().map(|(&start, &bytes)| (start, bytes));
        let free = pool.free.iter();
        let free = free.flat_map(|(&bytes, starts)| starts.iter().map(move |&at| (at, bytes)));
        let mut pieces: Vec<_> = all.chain(free).chain(pool.kept.iter().copied()).collect();
        pieces.sort_unstable();
        let end = pieces.iter().fold(pool.start, |end, &(start, bytes)| {
            assert_eq!(start, end);
            end + bytes
        });
        assert_eq!((pool.num_used, end), (used.values().sum(), pool.end));
        assert_eq!(pool.num_kept, pool.kept.iter().map(|piece| piece.1).sum());
    }
}

#[test]
fn only_whole_pages_go_back_to_the_system() {
    let kib = |count: usize| count << 10;
    assert_eq!(within(kib(8), kib(12), kib(4)), Some(kib(8)..kib(20)));
    assert_eq!(within(kib(60), kib(200), kib(64)), Some(kib(64)..kib(256)));
    assert_eq!(within(kib(64), kib(64), kib(64)), Some(kib(64)..kib(128)));
    // The rest of these pages is in use.
    assert_eq!(within(kib(64), kib(60), kib(64)), None);
    assert_eq!(within(kib(60), kib(64), kib(64)), None);
}

#[test]
fn usable_bytes_grow_with_what_is_used_until_the_range_is_full() {
    let mut pool = Pool::new();
    let mut taken = 0;
    while pool.take(MAX_BYTES).is_some() {
        taken += 1;
        assert!(pool.usable - pool.end < BYTES_AT_ONCE);
    }
    assert_eq!(taken, RANGE / MAX_BYTES);
    let start = pool.start;
    give_back(&mut pool, start, MAX_BYTES);
    assert_eq!(pool.take(MAX_BYTES), Some(start));
}
