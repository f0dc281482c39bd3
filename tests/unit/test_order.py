"""The order's faces: settings, lanes, windows, blocks and errors."""

import re
from typing import Any

import numpy as np
import pytest

from made.equal_blocks import equal_blocks
from pagefeed.core.order import (
    EpochOrder,
    Permutation,
    Shuffle,
    choose_num_lanes,
    derive_key,
)
from pagefeed.core.order import lane_reader as reader_module
from pagefeed.core.order.lane_reader import LaneReader
from pagefeed.core.sequences import ExplicitBlocks
from pagefeed.errors import InvalidArgumentError

MIB = 1 << 20


def make_order(blocks, **options):
    settings: dict[str, Any] = {
        "seed": 1,
        "epoch": 0,
        "name": "web",
        "shuffle": Shuffle(),
        "num_lanes": 3,
        "window": 20,
    }
    return EpochOrder(blocks, **(settings | options))


def random_blocks(num_blocks, seed=0):
    sizes = np.random.default_rng(seed).integers(0, 6, num_blocks)
    return ExplicitBlocks(np.concatenate([[0], np.cumsum(sizes)]))


# The order must not change under running trainings: whoever changes these numbers
# changes ORDER_VERSION.
PERMUTATION_OF_10 = [6, 1, 2, 4, 0, 9, 5, 3, 7, 8]
PERMUTATION_OF_10_18 = [619179770483672000, 381682275325121279, 406894438293242896]
KEY = "f591ba2b1c74a23cacccaf8801259cd306dd929ecf76b2129359dc0e2302e087"
UNITS = {
    "page": [657, 33, 703, 684, 35, 164, 658, 32],
    "passes": [772, 420, 808, 580, 946, 237, 204, 421],
    "row": [156, 761, 776, 82, 207, 778, 413, 260],
    "buffer": [827, 171, 504, 835, 173, 492, 830, 170],
    "explicit": [129, 970, 745, 557, 972, 1051, 567, 955],
}


def test_permutation_is_the_one_released():
    assert Permutation(10, 7)[range(10)].tolist() == PERMUTATION_OF_10
    assert Permutation(10**18, "web")[range(3)].tolist() == PERMUTATION_OF_10_18


@pytest.mark.parametrize("name", ["page", "passes", "row", "buffer", "explicit"])
def test_order_is_the_one_released(name):
    shuffles = {"passes": Shuffle(passes=3), "explicit": Shuffle()}
    shuffle = shuffles.get(name) or Shuffle.parse(name)
    blocks = random_blocks(400) if name == "explicit" else equal_blocks(1000, 8)
    order = make_order(blocks, shuffle=shuffle)
    assert order.at(range(500, 508)).tolist() == UNITS[name]


def test_key_is_the_one_released():
    assert derive_key(1, "web", -3, b"x").hex() == KEY


def test_permutation_takes_what_a_list_takes():
    permutation = Permutation(100, 1)
    assert len(permutation) == 100
    assert isinstance(permutation[5], int)
    assert isinstance(permutation[np.int32(5)], int)
    assert permutation[[[1, 2], [3, 4]]].shape == (2, 2)
    assert permutation[np.array([5], dtype=np.uint8)] == permutation[5]
    assert permutation[[]].dtype == np.int64
    assert len({permutation[index] for index in range(100)}) == 100
    assert permutation.inverse(permutation[5]) == 5


@pytest.mark.parametrize("index", [100, -1, [0, 100], np.array([-1, 5])])
def test_permutation_refuses_indices_outside(index):
    with pytest.raises(IndexError, match=r"index (100|-1) is outside \[0, 100\)"):
        Permutation(100, 1)[index]
    with pytest.raises(IndexError):
        Permutation(100, 1).inverse(index)


def test_permutation_refuses_what_is_no_index():
    with pytest.raises(InvalidArgumentError, match="expected integers, found float64"):
        Permutation(100, 1)[[0.5]]
    with pytest.raises(InvalidArgumentError, match="expected integers, found bool"):
        Permutation(100, 1)[[True]]
    with pytest.raises(InvalidArgumentError, match="found n=-1"):
        Permutation(-1, 1)
    with pytest.raises(InvalidArgumentError, match="2\\*\\*63"):
        Permutation(1 << 63, 1)
    with pytest.raises(InvalidArgumentError, match="float"):
        Permutation(5, 0.5)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        Permutation(0, 1)[0]


def test_shuffle_takes_names():
    assert Shuffle.parse("page") == Shuffle()
    assert Shuffle.parse(None) == Shuffle(block=None)
    assert Shuffle.parse(Shuffle(passes=2)) == Shuffle(passes=2)
    permuted = {
        name: (Shuffle.parse(name).permuted, Shuffle.parse(name).delayed)
        for name in ("page", "row_group", "row", "buffer", None)
    }
    assert permuted == {
        "page": (True, True),
        "row_group": (True, True),
        "row": (True, False),
        "buffer": (False, True),
        None: (False, False),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": "pages"}, "unknown shuffle 'pages': expected one of 'page'"),
        ({"window": -1}, "window=-1"),
        ({"window": "many"}, "window='many'"),
        ({"window": 0.5}, "window=0.5"),
        ({"window": True}, "window=True"),
        ({"block": "row", "window": 5}, "'row' has no window, found window=5"),
        ({"block": None, "window": "1MiB"}, "None has no window"),
        ({"passes": 0}, "passes=0 does not fit"),
        ({"passes": 1.5}, "passes="),
        ({"block": "row", "passes": 2}, "passes=2 does not fit shuffle 'row'"),
    ],
)
def test_shuffle_refuses(options, message):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        Shuffle(**options)


def test_shuffle_refuses_what_is_no_name():
    with pytest.raises(InvalidArgumentError, match="found 3"):
        Shuffle.parse(3)  # type: ignore[arg-type]


def delay(shuffle, num_lanes=48, num_units=10**9, num_blocks=10**7, unit_bytes=8192):
    return shuffle.delay(
        num_units=num_units,
        num_blocks=num_blocks,
        unit_bytes=unit_bytes,
        num_lanes=num_lanes,
    )


def test_window_is_shared_by_the_lanes():
    assert delay(Shuffle()) == 256 * MIB // 8192 // 48
    assert delay(Shuffle(window="64MiB")) == 64 * MIB // 8192 // 48
    assert delay(Shuffle(window=4800)) == 100
    assert delay(Shuffle(window=4800, block="buffer"), num_lanes=1) == 4800


def test_window_holds_a_block_and_leaves_the_lane_longer():
    assert delay(Shuffle(), num_blocks=10**6, unit_bytes=MIB) == 1000
    assert delay(Shuffle(), num_units=48 * 40, num_blocks=48) == 10
    assert delay(Shuffle(window=10**6), num_units=480) == 10
    assert delay(Shuffle(window=0)) == 1
    assert delay(Shuffle.parse("row")) == 1
    assert delay(Shuffle.parse(None)) == 1
    assert delay(Shuffle(), num_units=0) == 1


def test_window_too_long_to_sort_is_refused():
    with pytest.raises(InvalidArgumentError, match="choose a smaller window"):
        delay(Shuffle(window=1 << 40), num_lanes=1, num_units=1 << 40)
    assert delay(Shuffle(), num_lanes=1, num_units=1 << 40, unit_bytes=0) == 1 << 28


@pytest.mark.parametrize(
    ("num_blocks", "block_bytes", "world_size", "lanes"),
    [
        (10_000, MIB, 1, 48),
        (10_000, MIB, 8, 48),
        (10_000, MIB, 64, 192),
        (10_000, MIB, 5, 240),
        (10_000, 8 * MIB, 1, 24),  # 48 blocks are over 256 MiB
        (10_000, 300 * MIB, 1, 1),
        (10_000, 300 * MIB, 8, 8),
        (20, MIB, 1, 16),
        (20, MIB, 8, 16),
        (20, MIB, 5, 16),  # 80 lanes are more than the blocks
        (0, 0.0, 4, 1),
    ],
)
def test_number_of_lanes(num_blocks, block_bytes, world_size, lanes):
    chosen = choose_num_lanes(
        num_blocks=num_blocks, block_bytes=block_bytes, world_size=world_size
    )
    assert chosen == lanes


@pytest.mark.parametrize(
    ("num_blocks", "block_bytes", "world_size", "lanes"),
    [
        (10_000, MIB, 1, 48),
        (10_000, 300 * MIB, 1, 12),
        (10_000, 300 * MIB, 8, 24),
        (20, MIB, 5, 16),
        (3, MIB, 1, 12),
        (3, MIB, 5, 12),
        (0, 0.0, 4, 12),
    ],
)
def test_least_number_of_lanes(num_blocks, block_bytes, world_size, lanes):
    chosen = choose_num_lanes(
        num_blocks=num_blocks, block_bytes=block_bytes, world_size=world_size, least=12
    )
    assert chosen == lanes


def test_file_order_needs_no_lanes():
    for least in (1, 8):
        lanes = choose_num_lanes(
            num_blocks=100, block_bytes=1.0, world_size=5, least=least, file_order=True
        )
        assert lanes == least
    order = make_order(equal_blocks(50, 7), shuffle=Shuffle.parse(None), num_lanes=1)
    assert order.at(range(50)).tolist() == list(range(50))
    assert order.positions(range(50)).tolist() == list(range(50))


def test_blocks_know_their_units():
    blocks = ExplicitBlocks([0, 4, 8, 10])
    assert (len(blocks), blocks.num_sequences) == (3, 10)
    assert blocks.first_sequence(np.arange(4)).tolist() == [0, 4, 8, 10]
    assert blocks.block_of(np.arange(10)).tolist() == [0] * 4 + [1] * 4 + [2] * 2


@pytest.mark.parametrize("blocks", [equal_blocks(0, 4), ExplicitBlocks([0, 0, 0])])
@pytest.mark.parametrize("name", ["page", "row", "buffer", None])
def test_no_units_make_an_empty_epoch(blocks, name):
    order = make_order(blocks, shuffle=Shuffle.parse(name))
    assert order.num_units == 0
    assert order.at([]).tolist() == []
    assert order.positions([]).tolist() == []
    with pytest.raises(IndexError, match=r"position 0 is outside \[0, 0\)"):
        order.at([0])


def test_order_refuses_what_is_outside():
    order = make_order(equal_blocks(100, 7))
    for positions in ([100], [-1], range(90, 101), np.array([3, 100, 5])):
        with pytest.raises(IndexError, match=r"position (100|-1) is outside"):
            order.at(positions)
    with pytest.raises(IndexError, match="unit 100 is outside"):
        order.positions([100])
    with pytest.raises(InvalidArgumentError, match="found float64"):
        order.at(np.array([1.0]))


def test_order_refuses_settings():
    with pytest.raises(InvalidArgumentError, match="below 2\\*\\*62"):
        make_order(ExplicitBlocks([0, 1 << 61]), shuffle=Shuffle(passes=2))


@pytest.mark.parametrize("window", [0, 700, 5000])
@pytest.mark.parametrize("passes", [1, 3])
def test_long_lanes_read_alike_in_any_stretches(window, passes):
    options = {"num_lanes": 2, "window": window, "shuffle": Shuffle(passes=passes)}
    blocks = random_blocks(24_000)
    num_units = blocks.num_sequences
    units = make_order(blocks, **options).at(range(num_units))
    assert np.array_equal(np.sort(units), np.arange(num_units))
    order = make_order(blocks, **options)
    begins = range(0, num_units, 999)
    parts = [order.at(range(b, min(b + 999, num_units))) for b in begins]
    assert np.array_equal(np.concatenate(parts), units)
    for begin in (num_units - 1, 17, num_units // 2):  # not where it was read before
        assert np.array_equal(order.at(range(begin, num_units, 7)), units[begin::7])
    falling = range(num_units - 1, -1, -num_units // 40)
    assert np.array_equal(order.at(falling), units[np.array(falling)])
    anywhere = np.random.default_rng(0).integers(0, num_units, 50)
    assert np.array_equal(order.at(anywhere), units[anywhere])
    assert np.array_equal(order.positions(units[anywhere]), anywhere)


def test_reading_ahead_holds_no_more_than_it_may():
    blocks = equal_blocks(60_000, 10)
    order = make_order(blocks, num_lanes=10, window=10, most_held=3000)
    units = [order.at(range(first, first + 40)) for first in range(0, 60_000, 40)]
    assert 1000 < order._reader._num_held <= 3000
    assert np.array_equal(np.sort(np.concatenate(units)), np.arange(60_000))
    # However little it may hold, lanes are not forgotten before they are read again.
    tight = make_order(blocks, num_lanes=10, window=100, most_held=1)
    assert tight._reader.read_ahead == 100
    assert tight._reader._most_held == 2000


@pytest.mark.parametrize("spread", [64, -10_000, 1000])
@pytest.mark.parametrize("options", [{}, {"passes": 3}, {"block": "buffer"}])
def test_long_delays_are_looked_through_in_parts(monkeypatch, options, spread):
    """However good the guess is of when a unit leaves."""
    settings = {"num_lanes": 3, "window": 200, "shuffle": Shuffle(**options)}
    blocks = random_blocks(1000)
    units = make_order(blocks, **settings).at(range(blocks.num_sequences))
    monkeypatch.setattr(reader_module, "LONG_DELAY", 100)
    for name in ("AT_ONCE", "LOOKED_AT"):
        monkeypatch.setattr(reader_module, name, 100)
    monkeypatch.setattr("pagefeed.core.order.window.MIN_SPREAD", spread)
    order = make_order(blocks, most_held=600, **settings)
    assert order._reader._is_long
    begins = range(0, blocks.num_sequences, 200)
    parts = [order.at(range(b, min(b + 200, len(units)))) for b in begins]
    assert np.array_equal(np.concatenate(parts), units)
    assert order._reader._num_held <= 2 * 3 * order._reader.read_ahead
    for begin in (len(units) - 1, 17, len(units) // 2, 0):
        part = order.at(range(begin, min(begin + 100, len(units))))
        assert np.array_equal(part, units[begin : begin + 100])
    anywhere = np.random.default_rng(0).integers(0, len(units), 30)
    assert np.array_equal(order.at(anywhere), units[anywhere])


def test_lanes_that_were_forgotten_are_read_again():
    blocks = equal_blocks(6000, 10)
    whole = make_order(blocks, num_lanes=10, window=100).at(range(6000))
    order = make_order(blocks, num_lanes=10, window=100)
    order._reader._most_held = 500
    units = [order.at(range(first, first + 40)) for first in range(0, 6000, 40)]
    reader = order._reader
    held = [len(held.units) for held in reader._held.values()]
    assert reader._num_held == sum(held) <= 500
    assert len(held) < 10
    assert np.array_equal(np.concatenate(units), whole)


@pytest.mark.parametrize("is_range", [True, False])
def test_reading_takes_steps_and_what_was_read_no_more_work(monkeypatch, is_range):
    order = make_order(random_blocks(2000), num_lanes=6, window=200)
    whole = make_order(random_blocks(2000), num_lanes=6, window=200).at(range(4500))
    part = np.arange(900, 4500, 2)
    if not is_range:
        part = np.random.default_rng(0).permutation(part)
    monkeypatch.setattr(reader_module, "AT_ONCE", 2000)
    steps = sum(1 for _ in order.reading(part))
    assert 2 <= steps <= 8
    monkeypatch.setattr(LaneReader, "_resolve", None)
    assert np.array_equal(order.at(part), whole[part])
    assert list(order.reading(part)) == []


def test_few_places_of_a_large_order_are_found_without_what_lies_between(monkeypatch):
    order = make_order(equal_blocks(10**6, 10), num_lanes=4, window=100)
    resolved: list[int] = []
    resolve = LaneReader._resolve

    def watched(reader, group):
        resolved.extend(missing.end - missing.begin for missing in group)
        return resolve(reader, group)

    monkeypatch.setattr(LaneReader, "_resolve", watched)
    anywhere = np.array([17, 400_001, 999_990, 250_000])
    units = order.at(anywhere)
    assert sum(resolved) < 6000
    assert order.positions(units).tolist() == anywhere.tolist()


def test_a_permutation_hides_its_key():
    assert repr(Permutation(5, "secret")) == "Permutation(n=5)"
