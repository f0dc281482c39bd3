"""The permutations are as good as random ones, and the order mixes like a buffer."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from made.equal_blocks import equal_blocks
from pagefeed.core.order import EpochOrder, Permutation, Shuffle
from pagefeed.core.sequences import ExplicitBlocks

BITS = 20
SIZE = 1 << BITS
# Of n random differences of 2^20, 1 - exp(-n / 2^20) are expected to be distinct.
DISTINCT_OF_PAIRS = SIZE * (1 - np.exp(-0.5))  # 412,586
DISTINCT_OF_NEIGHBOURS = SIZE * (1 - np.exp(-1))  # 662,827


@pytest.fixture(scope="module", params=[0, b"a key"])
def values(request):
    return Permutation(SIZE, request.param)[np.arange(SIZE)]


def bits(numbers):
    """The bits of each number: float32 [numbers, BITS].

    Means over 2^16 of them stay within 0.012, six standard deviations, of what is
    expected; twice that where bits are -1 and 1.
    """
    return (numbers[:, None] >> np.arange(BITS) & 1).astype(np.float32)


def num_distinct(numbers):
    return np.count_nonzero(np.bincount(numbers, minlength=SIZE))


def test_differences_of_neighbours_are_as_many_as_random(values):
    pairs = num_distinct(values[0::2] ^ values[1::2])
    assert 0.97 * DISTINCT_OF_PAIRS < pairs < 1.03 * DISTINCT_OF_PAIRS
    neighbours = num_distinct(values[1:] ^ values[:-1])
    assert 0.97 * DISTINCT_OF_NEIGHBOURS < neighbours < 1.03 * DISTINCT_OF_NEIGHBOURS
    steps = num_distinct((values[1:] - values[:-1]) % SIZE)
    assert 0.97 * DISTINCT_OF_NEIGHBOURS < steps < 1.03 * DISTINCT_OF_NEIGHBOURS


def test_every_bit_of_the_index_changes_half_of_the_value(values):
    index = np.arange(0, SIZE, 16)
    for flipped in range(BITS):
        changed = bits(values[index] ^ values[index ^ (1 << flipped)])
        assert np.abs(changed.mean(axis=0) - 0.5).max() < 0.012


def test_no_bit_follows_another(values):
    index = np.arange(0, SIZE - 1, 15)
    ours, theirs = bits(values[index]) * 2 - 1, bits(index) * 2 - 1
    assert np.abs(np.einsum("ni,nj", ours, theirs)).max() < 0.024 * len(index)
    following = bits(values[index + 1]) * 2 - 1
    assert np.abs(np.einsum("ni,nj", ours, following)).max() < 0.024 * len(index)


def test_no_pair_of_bits_is_degenerate(values):
    # Within a part of the indices, two bits of the values are equal half of the time.
    for start in range(0, SIZE, SIZE // 4):
        ours = bits(values[start : start + (1 << 16)]) * 2 - 1
        together = np.einsum("ni,nj", ours, ours) / len(ours) - np.eye(BITS)
        assert np.abs(together).max() < 0.024


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_small_permutations_are_equally_likely(n):
    kinds = math.factorial(n)
    expected = 30
    seeds = range(expected * kinds)
    seen = Counter(tuple(Permutation(n, seed)[range(n)]) for seed in seeds)
    assert len(seen) == kinds
    chi_square = sum((count - expected) ** 2 / expected for count in seen.values())
    # Mean kinds - 1, standard deviation sqrt(2 (kinds - 1)).
    assert chi_square < kinds - 1 + 5 * np.sqrt(2 * (kinds - 1))


def test_seed_and_epoch_do_not_add_up():
    def units(seed, epoch, name="web"):
        order = EpochOrder(
            equal_blocks(2000, 1),
            seed=seed,
            epoch=epoch,
            name=name,
            shuffle=Shuffle(),
            num_lanes=1,
            window=0,
        )
        return order.at(range(2000))

    orders = [units(0, 0), units(0, 1), units(1, 0), units(0, 0, "code"), units("0", 0)]
    for one, other in itertools.combinations(orders, 2):
        assert np.count_nonzero(one == other) < 10  # one on average
    assert np.array_equal(units(0, 0), units(0, 0))


def make_order(num_pages, page_units, *, num_lanes, window, passes=1, name="web"):
    return EpochOrder(
        equal_blocks(num_pages * page_units, page_units),
        seed=1,
        epoch=0,
        name=name,
        shuffle=Shuffle(passes=passes),
        num_lanes=num_lanes,
        window=window,
    )


def same_page_pairs(pages, batch=64):
    """Mean number of pairs of one page in a batch."""
    batches = pages[: len(pages) // batch * batch].reshape(-1, batch)
    equal = batches[:, :, None] == batches[:, None, :]
    return (equal.sum() / len(batches) - batch) / 2


def mean_resident(pages):
    """Mean number of units held: a page comes at its first use, a unit goes at its."""
    _, first, counts = np.unique(pages, return_index=True, return_counts=True)
    loaded = np.zeros(len(pages))
    loaded[first] = counts
    held = np.cumsum(loaded) - np.arange(len(pages))
    return held[len(pages) // 8 : -len(pages) // 8].mean()


def buffer_shuffle(num_pages, page_units, capacity):
    """Pages in random order through a buffer that gives random units: page numbers."""
    rng = np.random.default_rng(0)
    waiting = rng.permutation(num_pages).tolist()
    buffer: list[int] = []
    delivered = []
    while waiting or buffer:
        while waiting and len(buffer) + page_units <= capacity:
            buffer += [waiting.pop()] * page_units
        index = int(rng.integers(len(buffer)))
        buffer[index], buffer[-1] = buffer[-1], buffer[index]
        delivered.append(buffer.pop())
    return np.array(delivered)


PAGES, PAGE_UNITS = 3000, 32


@pytest.mark.parametrize(("num_lanes", "window"), [(1, 2048), (1, 6144), (16, 128)])
def test_the_window_mixes_like_a_buffer_of_as_many_units(num_lanes, window):
    order = make_order(PAGES, PAGE_UNITS, num_lanes=num_lanes, window=window)
    ours = order.at(range(order.num_units)) // PAGE_UNITS
    resident = mean_resident(ours)
    capacity = round(resident) + PAGE_UNITS // 2
    buffer = buffer_shuffle(PAGES, PAGE_UNITS, capacity)
    capacity += round(resident - mean_resident(buffer))
    buffer = buffer_shuffle(PAGES, PAGE_UNITS, capacity)
    assert mean_resident(buffer) == pytest.approx(resident, rel=0.01)
    assert same_page_pairs(ours) <= 1.04 * same_page_pairs(buffer)


def test_passes_divide_the_pairs():
    def pairs(passes):
        order = make_order(PAGES, PAGE_UNITS, num_lanes=4, window=512, passes=passes)
        pages = order.at(range(order.num_units)) // PAGE_UNITS
        return same_page_pairs(pages)

    random = 64 * 63 / 2 * (PAGE_UNITS - 1) / (PAGES * PAGE_UNITS - 1)
    once = pairs(1) - random
    for passes in (2, 4, 8):
        # A share of a page has fewer pairs than its size says: s (s - 1), not s * s.
        size = PAGE_UNITS / passes
        expected = once * (size - 1) / (PAGE_UNITS - 1)
        assert pairs(passes) - random == pytest.approx(expected, rel=0.15, abs=0.1)
    assert pairs(PAGE_UNITS) == pytest.approx(random, rel=0.1)


def test_the_first_batch_needs_few_pages():
    order = make_order(PAGES, PAGE_UNITS, num_lanes=8, window=256)
    first = order.at(range(64)) // PAGE_UNITS
    assert len(np.unique(first)) <= 8 * 3


def test_delays_are_uniform_and_independent():
    # In one lane without permutation, a unit's delay shows in where it leaves.
    num_units, window = 200_000, 1000
    order = EpochOrder(
        equal_blocks(num_units, 1),
        seed=5,
        epoch=0,
        name="web",
        shuffle=Shuffle(block="buffer"),
        num_lanes=1,
        window=window,
    )
    places = order.positions(range(num_units))
    delays = (places - np.arange(num_units))[2 * window : -2 * window]
    # It leaves by D * (h - 1/2) later than it came, save a few sqrt(D).
    share = np.histogram(delays, bins=10, range=(-window / 2, window / 2))[0]
    assert np.abs(share / len(delays) - 0.1).max() < 0.01
    delays = delays - delays.mean()
    for lag in (1, 2, 3, 7, 64, 1024):
        correlation = (delays[lag:] * delays[:-lag]).mean() / delays.var()
        assert abs(correlation) < 0.02


def test_shares_of_a_block_lie_anywhere():
    page_units, num_pages, passes = 8, 5000, 4
    order = make_order(num_pages, page_units, num_lanes=1, window=0, passes=passes)
    units = order.at(range(order.num_units))
    items = (units // page_units)[:: page_units // passes]
    turns = np.argsort(items, kind="stable").reshape(num_pages, passes) // passes
    # Two independent uniform turns are a third of the whole apart on average.
    distance = np.abs(turns[:, 1:] - turns[:, :-1]).max(axis=1)
    assert turns[:, 0].mean() < num_pages * 0.25
    assert turns[:, -1].mean() > num_pages * 0.75
    assert distance.mean() > num_pages * 0.25
    # Which units of a block come first is another choice for every block.
    firsts = units[np.argsort(items, kind="stable")[::passes] * (page_units // passes)]
    counts = np.bincount(firsts % page_units, minlength=page_units)
    assert np.abs(counts / num_pages * page_units - 1).max() < 0.25


def test_empty_pages_change_no_statistics():
    sizes = np.zeros(4000, dtype=np.int64)
    sizes[::2] = PAGE_UNITS
    blocks = ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes)]))
    order = EpochOrder(
        blocks,
        seed=1,
        epoch=0,
        name="web",
        shuffle=Shuffle(),
        num_lanes=1,
        window=0,
    )
    pages = order.at(range(order.num_units))[::PAGE_UNITS] // PAGE_UNITS
    assert np.array_equal(np.sort(pages), np.arange(2000))
    assert abs(np.corrcoef(pages, np.arange(2000))[0, 1]) < 0.1
