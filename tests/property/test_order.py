"""The order is a permutation of the units, however it is asked for."""

import math
from typing import NamedTuple

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from made.equal_blocks import equal_blocks
from models.hashes import mix_one, permute_one
from pagefeed.core.order import (
    EpochOrder,
    Lanes,
    Permutation,
    Shuffle,
    choose_num_lanes,
    derive_key,
)
from pagefeed.core.order import window as window_module
from pagefeed.core.order.keys import expand_key, hash64
from pagefeed.core.order.permutation import PermutationFamily
from pagefeed.core.sequences import Blocks, ExplicitBlocks
from scaled import scaled

LARGEST = (1 << 63) - 1

sizes = st.lists(st.integers(0, 9), max_size=60)
explicit = sizes.map(lambda each: ExplicitBlocks(np.cumsum([0, *each])))
uniform = st.builds(equal_blocks, st.integers(0, 400), st.integers(1, 20))
shuffles = st.one_of(
    st.builds(Shuffle, block=st.sampled_from(["row", "buffer", None])),
    st.builds(
        Shuffle,
        block=st.sampled_from(["page", "row_group"]),
        passes=st.integers(1, 7),
    ),
)


class Case(NamedTuple):
    """Everything an order depends on."""

    blocks: Blocks
    shuffle: Shuffle
    num_lanes: int
    window: int
    seed: int

    def order(self) -> EpochOrder:
        return EpochOrder(
            self.blocks,
            seed=self.seed,
            epoch=3,
            name="web",
            shuffle=self.shuffle,
            num_lanes=self.num_lanes,
            window=self.window,
        )


cases = st.builds(
    Case,
    blocks=st.one_of(explicit, uniform),
    shuffle=shuffles,
    num_lanes=st.integers(1, 30),
    window=st.integers(0, 60),
    seed=st.integers(),
)


@given(n=st.integers(0, 3000), seed=st.integers())
@example(n=0, seed=0)
@example(n=1, seed=0)
@example(n=2, seed=0)
def test_permutation_is_a_bijection_with_an_inverse(n, seed):
    permutation = Permutation(n, seed)
    values = permutation[np.arange(n)]
    assert values.dtype == np.int64
    assert np.array_equal(np.sort(values), np.arange(n))
    assert np.array_equal(permutation.inverse(values), np.arange(n))


@given(n=st.integers(1, LARGEST), seed=st.integers(), data=st.data())
@example(n=LARGEST, seed=0, data=None)
def test_permutation_inverts_over_any_domain(n, seed, data):
    indices = [0, n // 2, n - 1]
    if data is not None:
        indices += data.draw(st.lists(st.integers(0, n - 1), max_size=20))
    permutation = Permutation(n, seed)
    values = permutation[indices]
    assert values.min() >= 0
    assert values.max() < n
    assert len(set(values.tolist())) == len(set(indices))
    assert permutation.inverse(values).tolist() == indices
    assert permutation[indices[-1]] == values[-1]


@given(st.integers(1, 1 << 31), st.integers(-2, 2), st.integers(0, 1 << 62), st.data())
def test_permutations_of_one_size_of_many_and_number_by_number_agree(
    root, offset, tweak, data
):
    n = max(root * root + offset, 1)
    drawn = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5))
    x, tweaks = np.array(drawn), np.full(len(drawn), tweak, dtype=np.uint64)
    family = PermutationFamily(derive_key(root, "tested"))
    mapped = family.map(x, n, tweaks)
    assert mapped.tolist() == family.map(x, np.full(len(x), n), tweaks).tolist()
    keys = list(map(int, expand_key(derive_key(root, "tested"), 8)))
    assert mapped.tolist() == [permute_one(each, n, tweak, keys) for each in drawn]
    assert family.map(mapped, n, tweaks, inverse=True).tolist() == drawn


@given(st.lists(st.integers(0, (1 << 63) - 1)), st.integers(0, 9))
def test_hashes_of_many_are_those_of_each(values, seed):
    first, second = expand_key(derive_key(seed), 2)
    mixed = hash64(np.array(values, dtype=np.int64), (first, second)).tolist()
    key = int(first), int(second)
    assert mixed == [mix_one(each, key) for each in values]


@given(cases)
@settings(max_examples=scaled(200))
def test_order_is_a_permutation_with_an_inverse(case):
    order = case.order()
    units = order.at(range(order.num_units))
    assert units.dtype == np.int64
    assert np.array_equal(np.sort(units), np.arange(order.num_units))
    positions = order.positions(units)
    assert positions.dtype == np.int64
    assert np.array_equal(positions, np.arange(order.num_units))


@given(cases, st.integers(1, 200))
@settings(max_examples=scaled(100))
def test_ranks_of_any_world_size_share_the_epoch(case, world_size):
    order = case.order()
    units = order.at(range(order.num_units))
    ranks = range(min(world_size, order.num_units))
    for rank in [*ranks[:3], *ranks[-1:]]:
        mine = range(rank, order.num_units, world_size)
        assert np.array_equal(case.order().at(mine), units[rank::world_size])
        assert np.array_equal(order.at(np.array(mine)), units[rank::world_size])


@given(cases, st.data())
@settings(max_examples=scaled(60))
def test_units_do_not_depend_on_how_they_are_asked_for(case, data):
    units = case.order().at(range(case.blocks.num_sequences))
    order = case.order()
    if order.num_units == 0:
        assert len(order.at([])) == 0
        return
    place = st.integers(0, order.num_units - 1)
    for _ in range(5):  # one order for all, so that what it remembers is used
        start, length = data.draw(st.tuples(place, st.integers(0, 50)))
        asked = range(start, min(start + length, order.num_units))
        assert np.array_equal(order.at(asked), units[asked])
        picked = data.draw(st.lists(place, max_size=20))
        assert np.array_equal(order.at(picked), units[picked])
        assert np.array_equal(order.positions(units[picked]), picked)
        assert np.array_equal(order.at(np.array(asked)[::-1]), units[asked][::-1])


@given(cases)
@settings(max_examples=scaled(100))
def test_lanes_are_read_alone(case):
    order = case.order()
    units = order.at(range(order.num_units))
    lengths = [order.lanes.length(lane) for lane in range(case.num_lanes)]
    assert max(lengths) - min(lengths) <= 1
    assert sum(lengths) == order.num_units
    for lane, length in enumerate(lengths):
        mine = units[lane :: case.num_lanes]
        assert len(mine) == length
        positions = range(lane, order.num_units, case.num_lanes)
        assert np.array_equal(case.order().at(positions), mine)


@given(cases)
@settings(max_examples=scaled(100))
def test_a_unit_stays_in_its_lane_and_moves_less_than_the_window(case):
    still = case._replace(window=0).order()
    moved = case.order()
    for lane in range(case.num_lanes):
        positions = range(lane, still.num_units, case.num_lanes)
        before, after = still.at(positions), moved.at(positions)
        place = {unit: index for index, unit in enumerate(before.tolist())}
        shifts = [place[unit] - index for index, unit in enumerate(after.tolist())]
        assert all(abs(shift) < max(case.window, 1) for shift in shifts)


@given(
    st.integers(0, 10**6), st.integers(1, 200), st.lists(st.integers(0), max_size=20)
)
def test_lanes_split_what_they_join(num_units, num_lanes, picks):
    lanes = Lanes(num_units=num_units, num_lanes=num_lanes)
    picks = [pick % num_units for pick in picks] if num_units else []
    positions = np.array([*picks, *range(min(num_units, 300))], dtype=np.int64)
    lane, place = lanes.split(lanes.join(positions))
    assert np.array_equal(place * num_lanes + lane, positions)
    assert lanes.start(num_lanes) == num_units


@given(
    num_blocks=st.integers(0, 10**6),
    block_bytes=st.floats(0, 1e10),
    world_size=st.integers(1, 2000),
    least=st.sampled_from([1, 2, 6, 8, 48]),
)
def test_lanes_are_as_many_as_ranks_and_memory_want(
    num_blocks, block_bytes, world_size, least
):
    lanes = choose_num_lanes(
        num_blocks=num_blocks,
        block_bytes=block_bytes,
        world_size=world_size,
        least=least,
    )
    alone = choose_num_lanes(
        num_blocks=num_blocks, block_bytes=block_bytes, world_size=1, least=least
    )
    assert 48 % alone == 0
    assert alone >= least
    assert alone <= num_blocks or alone == least
    assert alone * block_bytes <= 256 << 20 or alone == least
    shared = math.lcm(alone, world_size)
    assert lanes == (shared if shared <= num_blocks else alone)


part = st.one_of(st.integers(), st.text(), st.binary())


@given(st.lists(part, min_size=1), st.lists(part, min_size=1))
@example(["a", "b"], ["asb"])
@example(["a", "b"], ["ab"])
@example([1], ["1"])
@example([b"a"], ["a"])
@example([1, 0], [0, 1])
def test_equal_keys_mean_equal_parts(one, other):
    assert (derive_key(*one) == derive_key(*other)) == (one == other)


@given(st.integers(1, window_module.MAX_STRETCH * 8))
def test_times_fit_beside_places(delay):
    window = window_module.DelayWindow(Lanes(num_units=1, num_lanes=1), delay, b"key")
    time_bits = window._unit.bit_length() - 1
    longest = max(4 * delay, 2 * window_module.MAX_STRETCH)  # place + delay in a sort
    assert 2 * longest.bit_length() + time_bits <= 63
    assert time_bits >= 1
