"""Balanced orders: permutations within lanes and stretches, as a plain model has it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pagefeed as pf
from models.quantiles import quantile
from pagefeed.balance import BalancedOrder
from pagefeed.balance.balance import deal
from pagefeed.balance.balanced_order import Division
from pagefeed.core.order import EpochOrder, Shuffle
from pagefeed.core.order.keys import expand_key, hash64
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.errors import InvalidArgumentError
from scaled import scaled

KEY = b"tested"
COSTS = np.random.default_rng(1).lognormal(6, 1.3, 5000).round(-1)  # With ties.

sizes = st.tuples(
    st.integers(1, 2500), st.integers(1, 24), st.integers(1, 30), st.integers(2, 40)
)


def divisions(cuts, end, epoch):
    """Divisions between cuts; in every second one some positions stay."""
    spans = list(zip(cuts, [*cuts[1:], end], strict=True))

    def division_of(position):
        number = max(n for n, (first, _) in enumerate(spans) if first <= position)
        return Division(*spans[number], epoch, stays if number % 2 else None)

    return division_of


def stays(positions):
    return positions % 3 == 1


def orders(case, cuts, balance):
    num_units, num_lanes, ranks, _ = case
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
        balance=balance,
        key=KEY,
        costs=lambda units: COSTS[units],
        ranks=ranks,
        divisions=divisions(cuts, num_units, 900),
    )
    return plain, balanced


def draws(positions, number):
    """Hashes of positions for a purpose of an epoch."""
    numbers = expand_key(KEY, 8)
    key = numbers[2 * number], numbers[2 * number + 1]
    return [int(drawn) for drawn in hash64(np.array(positions), key)]


def model(plain, ranks, cuts, balance):
    """Every stretch of every rank on its own: sorted, and dealt by quantile."""
    units = plain.at(range(plain.num_units)).tolist()
    size, exact, bucket = balance.stretch * ranks, balance.exact, balance.bucket
    wanted = [quantile(p // ranks, KEY, bucket) for p in range(len(units))]
    ties, noise = draws(range(len(units)), 2), draws(range(len(units)), 3)
    dealt = list(units)
    for number, (first, last) in enumerate(
        zip(cuts, [*cuts[1:], len(units)], strict=True)
    ):
        begin = -(-first // ranks) * ranks
        borders = [first]
        while begin + 2 * size <= last:
            begin += size
            borders.append(begin)
        equal = balance.equal
        if equal is None and bucket > 1:
            equal = 0.05 / max(1, 900 // size)
        elif equal is None:
            equal = 0.02 if exact else 0
        for start, end in zip(borders, [*borders[1:], last], strict=True):
            for rank in range(1 if exact else ranks):
                places = [p for p in range(start, end) if exact or p % ranks == rank]
                if not places:
                    continue
                mean = sum(COSTS[units[p]] for p in places) / len(places)
                cost = {
                    p: (COSTS[units[p]] + mean)
                    * (1 + equal * ((noise[p] >> 11) / 2**52 - 1))
                    for p in places
                }
                places = [p for p in places if not (number % 2 and p % 3 == 1)]
                by_quantile = sorted(
                    places, key=lambda p: (wanted[p], exact and ties[p] >> 40)
                )
                for source, place in zip(
                    sorted(places, key=cost.__getitem__), by_quantile, strict=True
                ):
                    dealt[place] = units[source]
    return dealt


@settings(deadline=None, max_examples=scaled(60))
@given(sizes, st.booleans(), st.sampled_from([None, 0, 0.1, 1]), st.data())
def test_a_balanced_order_is_what_a_plain_model_deals(case, exact, equal, data):
    num_units, _, ranks, stretch = case
    balance = pf.Balance(
        attention=1,
        stretch=stretch,
        bucket=data.draw(st.integers(1, stretch // 2)),
        equal=equal,
        exact=exact,
    )
    cuts = sorted({0, *data.draw(st.sets(st.integers(1, num_units), max_size=3))})
    cuts = [cut for cut in cuts if cut < num_units]
    plain, balanced = orders(case, cuts, balance)
    expected = model(plain, ranks, cuts, balance)
    assert balanced.at(range(num_units)).tolist() == expected
    assert sorted(expected) == list(range(num_units))

    _, other = orders(case, cuts, balance)
    some = data.draw(st.lists(st.integers(0, num_units - 1), max_size=30))
    assert other.at(some).tolist() == [expected[p] for p in some]
    units = np.array([expected[p] for p in some], dtype=np.int64)
    assert other.positions(units).tolist() == some

    rank, world_size = data.draw(
        st.integers(1, 9).flatmap(
            lambda n: st.tuples(st.integers(0, n - 1), st.just(n))
        )
    )
    _, third = orders(case, cuts, balance)
    mine = range(rank, num_units, world_size)
    assert third.at(mine).tolist() == expected[rank::world_size]


def dealt_places(first, count, bucket=1):
    """Which quantile of a stretch each of its places has, in a run of one rank."""
    places = np.arange(count)
    balance = pf.Balance(tokens=1, stretch=2 * bucket + 2, bucket=bucket)
    _, dealt = deal(
        places,
        places.astype(float),
        None,
        first=np.array([first]),
        ranks=1,
        key=KEY,
        balance=balance,
        equal=0,
    )
    return dealt[0]


@given(st.integers(0, 1 << 30), st.integers(1, 300))
def test_aligned_runs_of_a_bucket_have_like_costs(first, bucket):
    within = dealt_places(first * bucket, 4 * bucket, bucket).reshape(4, bucket)
    within = within - within.min(axis=1, keepdims=True)
    assert (np.sort(within) == np.arange(bucket)).all()
    for size in (1 << bits for bits in range(bucket.bit_length())):
        runs = within[:, : bucket // size * size].reshape(4, -1, size)
        if bucket % size == 0:
            assert (runs // size == runs[:, :, :1] // size).all()
        assert (np.ptp(runs, axis=2) < 2 * size).all()


@given(st.integers(0, 1 << 40), st.integers(0, 7), st.integers(0, 6))
def test_aligned_numbers_span_all_quantiles_evenly(begin, bits, step_bits):
    size, step = 1 << bits, 1 << step_bits
    quantiles = dealt_places(begin * size * step, size * step)
    some = quantiles[begin % step :: step] // step
    assert sorted(some.tolist()) == list(range(size))


@pytest.mark.parametrize("bucket", [1, 5])
@pytest.mark.parametrize(
    "first", [0, 3, (1 << 24) - 50, (1 << 40) - 77, 123_456_789_012]
)
def test_quantiles_are_those_of_sobol_each_bit_turned_by_those_before(first, bucket):
    wanted = [(quantile(first + k, KEY, bucket), k) for k in range(200)]
    in_order = [k for _, k in sorted(wanted)]
    assert np.argsort(dealt_places(first, 200, bucket)).tolist() == in_order


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
        {"tokens": 1, "equal": -0.1},
        {"tokens": 1, "equal": 1.1},
        {"tokens": 1, "equal": "much"},
        {"tokens": 1, "exact": 1},
    ],
)
def test_a_balance_that_means_nothing_is_refused(settings):
    with pytest.raises(InvalidArgumentError):
        pf.Balance(**settings)
    assert pf.Balance(tokens=1, stretch=64, bucket=32).bucket == 32


def test_costs_of_numpy_are_numbers():
    costs: list[Any] = [np.float32(2), np.int64(1)]
    assert pf.Balance(*costs) == pf.Balance(2, 1)
    flag: Any = np.True_
    assert repr(pf.Balance(1, exact=flag)) == repr(pf.Balance(1, exact=True))


def test_only_the_ratio_of_costs_counts():
    for cost in (1e308, 1e-300):
        assert pf.Balance(attention=cost).identity == pf.Balance(attention=1).identity
    one, other = pf.Balance(tokens=3, attention=7), pf.Balance(tokens=6, attention=14)
    assert one.identity == other.identity != pf.Balance(tokens=3).identity


@pytest.mark.parametrize(
    "value", ["flops", 3, True, ["tokens"], np.array(["tokens", "tokens"]), np.ones(3)]
)
def test_a_balance_by_an_unknown_name_is_refused(value):
    with pytest.raises(InvalidArgumentError, match="'attention'"):
        pf.Balance.parse(value)
