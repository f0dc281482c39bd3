"""Balanced orders: permutations within lanes and stretches, as a plain model has it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from pagefeed.errors import InvalidArgumentError
from pagefeed.order import BalancedOrder, EpochOrder, ExplicitBlocks, Shuffle
from pagefeed.order.balance import quantiles

KEY = b"tested"
COSTS = np.random.default_rng(1).lognormal(6, 1.3, 5000).round(-1)  # With ties.

sizes = st.tuples(
    st.integers(1, 2500), st.integers(1, 24), st.integers(1, 30), st.integers(2, 40)
)


def orders(case, cuts, exact):
    num_units, num_lanes, ranks, stretch = case
    plain = EpochOrder(
        ExplicitBlocks([*range(0, num_units, 50), num_units]),
        seed=3,
        epoch=0,
        name="web",
        shuffle=Shuffle(),
        num_lanes=num_lanes,
        window=60,
    )
    balanced = BalancedOrder(
        plain,
        balance=pf.Balance(attention=1, stretch=stretch, exact=exact),
        key=KEY,
        costs=lambda units: COSTS[units],
        ranks=ranks,
        cuts=cuts,
        end=num_units,
    )
    return plain, balanced


def model(plain, ranks, stretch, cuts, exact):
    """Every stretch of every rank on its own: sorted, and dealt by quantile."""
    units = plain.at(range(plain.num_units)).tolist()
    wanted = quantiles(np.arange(len(units)) // ranks, KEY).tolist()
    dealt = list(units)
    for first, last in zip(cuts, [*cuts[1:], len(units)], strict=True):
        begin = -(-first // ranks) * ranks
        borders = [first]
        while begin + 2 * stretch * ranks <= last:
            begin += stretch * ranks
            borders.append(begin)
        for start, end in zip(borders, [*borders[1:], last], strict=True):
            for rank in range(1 if exact else ranks):
                every = range(start, end)
                places = [p for p in every if exact or p % ranks == rank]
                ranked = sorted(places, key=lambda p: COSTS[units[p]])
                by_quantile = sorted(places, key=lambda p: wanted[p])
                for source, place in zip(ranked, by_quantile, strict=True):
                    dealt[place] = units[source]
    return dealt


@settings(deadline=None, max_examples=60)
@given(sizes, st.booleans(), st.data())
def test_a_balanced_order_is_what_a_plain_model_deals(case, exact, data):
    num_units, _, ranks, stretch = case
    cuts = sorted({0, *data.draw(st.sets(st.integers(1, num_units), max_size=3))})
    cuts = [cut for cut in cuts if cut < num_units]
    plain, balanced = orders(case, cuts, exact)
    expected = model(plain, ranks, stretch, cuts, exact)
    assert balanced.at(range(num_units)).tolist() == expected
    assert sorted(expected) == list(range(num_units))

    _, other = orders(case, cuts, exact)
    some = data.draw(st.lists(st.integers(0, num_units - 1), max_size=30))
    assert other.at(some).tolist() == [expected[p] for p in some]
    units = np.array([expected[p] for p in some], dtype=np.int64)
    assert other.positions(units).tolist() == some

    rank, world_size = data.draw(
        st.integers(1, 9).flatmap(
            lambda n: st.tuples(st.integers(0, n - 1), st.just(n))
        )
    )
    _, third = orders(case, cuts, exact)
    mine = range(rank, num_units, world_size)
    assert third.at(mine).tolist() == expected[rank::world_size]


@given(st.integers(0, 1 << 30), st.integers(1, 300))
def test_sequences_of_a_bucket_have_like_costs(first, bucket):
    counts = np.arange(4 * bucket) + first * bucket
    found = quantiles(counts, KEY, bucket).reshape(4, bucket)
    numbers = quantiles(np.arange(first, first + 4), KEY)
    assert (found >> np.uint64(16) == numbers[:, None] >> np.uint64(16)).all()
    assert (np.diff(found.view(np.int64)) == 1).all()


@given(st.integers(0, 1 << 40), st.integers(0, 7), st.integers(0, 6))
def test_aligned_numbers_span_all_quantiles_evenly(begin, bits, step_bits):
    size, step = 1 << bits, 1 << step_bits
    counts = (begin * size + np.arange(size)) * step + begin % step
    parts = quantiles(counts, KEY) >> np.uint64(64 - bits) if bits else counts * 0
    assert sorted(parts.tolist()) == list(range(size))


def test_quantiles_of_powers_of_two_steps_are_those_of_sobol():
    # The second of Sobol's sequences, by its recurrence of direction numbers.
    directions = [1 << 63]
    for _ in range(63):
        directions.append(directions[-1] ^ directions[-1] >> 1)
    shift = int(quantiles(np.array([0]), KEY)[0])
    for k in [*range(200), (1 << 40) - 1, 123_456_789_012]:
        expected = 0
        for bit in range(64):
            if k >> bit & 1:
                expected ^= directions[bit]
        assert int(quantiles(np.array([k]), KEY)[0]) == expected ^ shift


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tokens": -1},
        {"tokens": True},
        {"tokens": 10**400},
        {"attention": float("nan")},
        {"tokens": 1, "stretch": 1},
        {"tokens": 1, "bucket": 0},
        {"tokens": 1, "stretch": 64, "bucket": 33},
        {"tokens": 1, "bucket": 2000},
    ],
)
def test_a_balance_that_means_nothing_is_refused(settings):
    with pytest.raises(InvalidArgumentError):
        pf.Balance(**settings)
    assert pf.Balance(tokens=1, stretch=64, bucket=32).bucket == 32


def test_costs_of_numpy_are_numbers():
    costs: list[Any] = [np.float32(2), np.int64(1)]
    assert pf.Balance(*costs) == pf.Balance(2, 1)


@pytest.mark.parametrize("value", ["flops", 3, True, ["tokens"]])
def test_a_balance_by_an_unknown_name_is_refused(value):
    with pytest.raises(InvalidArgumentError, match="'attention'"):
        pf.order.Balance.parse(value)
