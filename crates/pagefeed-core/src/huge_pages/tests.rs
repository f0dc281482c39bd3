use super::*;
use crate::decode::tests::Random;

fn is_of_pool<T>(values: &Vec<T>) -> bool {
    let layout = Layout::array::<T>(values.capacity());
    layout.is_ok_and(|layout| is_in_range(values.as_ptr().cast_mut().cast(), &layout))
}

/// Gives back as `give_back` does, to a pool of the test.
fn give_back(pool: &mut Pool, memory: usize, bytes: usize) {
    let is_kept = pool.keeps(bytes);
    if !is_kept {
        return_to_system(memory, bytes);
    }
    pool.give_back(memory, bytes, is_kept);
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
fn a_vector_is_renewed_only_if_it_has_too_little() {
    let mut values: Vec<u16> = in_range(50_000);
    assert!(is_of_pool(&values));
    let address = values.as_ptr();
    renew(&mut values, 50_000);
    assert_eq!(values.as_ptr(), address);
    values.push(7);
    renew(&mut values, 90_000);
    assert_eq!((values.as_ptr(), values[0]), (address, 7));
    values.clear();
    renew(&mut values, 90_000);
    assert!(values.as_ptr() != address);
    // Too few, too many, and of a type that is no number.
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
        if let Some(held) = pool(1) {
            break held;
        }
    };
    assert!(vec::<u64>(10_000).is_none());
    drop(values);
    let mut free = held.free.range(..=address).rev();
    assert!(
        free.next()
            .is_none_or(|(start, free)| start + free.bytes <= address)
    );
}

#[test]
fn memory_waits_for_its_next_use_up_to_a_share_and_goes_back_beyond() {
    let mut pool = Pool::new();
    let size = 10 * UNIT;
    let taken: Vec<usize> = (0..32).map(|_| pool.take(size).unwrap()).collect();
    let byte = |memory: usize| {
        // SAFETY: this pool gave the memory to this test, in which one thread runs.
        unsafe { &mut *(memory as *mut u8) }
    };
    for &memory in &taken {
        *byte(memory) = 1;
    }
    for &memory in &taken[..8] {
        give_back(&mut pool, memory, size);
    }
    // The last of 24 in use could keep 3; the first are given back while more are.
    assert_eq!((pool.num_used, pool.num_kept), (24 * size, 3 * size));
    let kept = taken[..8].iter().filter(|&&memory| *byte(memory) == 1);
    assert_eq!(kept.count(), 3);
    // All eight are one piece, of which the begin is taken.
    assert_eq!(pool.free.len(), 1);
    assert_eq!(pool.take(7 * size), Some(taken[0]));
    assert_eq!(pool.take(size + UNIT), Some(pool.end - size - UNIT));
    assert_eq!(pool.take(size), Some(taken[7]));
    assert_eq!((pool.free.len(), pool.num_kept), (0, 0));
    // With the last one all goes back.
    give_back(&mut pool, taken[0], 7 * size);
    let last = pool.end - size - UNIT;
    give_back(&mut pool, last, size + UNIT);
    for &memory in &taken[7..] {
        *byte(memory) = 1;
        give_back(&mut pool, memory, size);
    }
    assert_eq!((pool.num_used, pool.num_kept, pool.end), (0, 0, pool.start));
    assert_eq!(pool.take(size), Some(pool.start));
    assert!(taken.iter().all(|&memory| *byte(memory) == 0));
}

#[test]
fn pieces_never_overlap_and_are_as_large_as_can_be() {
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
        let free = pool
            .free
            .iter()
            .map(|(&start, free)| (start, free.bytes, true));
        let all = used.iter().map(|(&start, &bytes)| (start, bytes, false));
        let mut pieces: Vec<_> = free.chain(all).collect();
        pieces.sort_unstable();
        let mut at = (pool.start, false);
        for (start, bytes, is_free) in pieces {
            assert!(start == at.0 && !(is_free && at.1));
            at = (start + bytes, is_free);
        }
        assert_eq!((pool.num_used, at.0), (used.values().sum(), pool.end));
        let sizes = pool.free.iter().map(|(&start, free)| (free.bytes, start));
        assert!(sizes.collect::<BTreeSet<_>>() == pool.by_size);
        assert_eq!(
            pool.num_kept,
            pool.free.values().map(|free| free.kept).sum()
        );
    }
}

#[test]
fn only_whole_pages_go_back_to_the_system() {
    let kib = |count: usize| count << 10;
    assert_eq!(within(kib(8), kib(12), kib(4)), Some(kib(8)..kib(20)));
    assert_eq!(within(kib(60), kib(200), kib(64)), Some(kib(64)..kib(256)));
    assert_eq!(within(kib(64), kib(64), kib(64)), Some(kib(64)..kib(128)));
    // What lies beside these is in use.
    assert_eq!(within(kib(64), kib(60), kib(64)), None);
    assert_eq!(within(kib(60), kib(64), kib(64)), None);
}

#[test]
fn what_is_made_usable_grows_with_what_is_used_until_the_range_is_full() {
    let mut pool = Pool::new();
    let mut taken = 0;
    while pool.take(MAX_BYTES).is_some() {
        taken += 1;
        assert!(pool.usable - pool.end < BYTES_AT_ONCE);
    }
    assert_eq!(taken, RANGE / MAX_BYTES);
    let start = pool.start;
    give_back(&mut pool, start, MAX_BYTES);
    assert_eq!(pool.take(MAX_BYTES), Some(pool.start));
}
