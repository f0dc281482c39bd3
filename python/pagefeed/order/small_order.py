"""The order of very few units, in Python's own integers.

A dataset of one or two units begins a new epoch with every unit or two, so that each
unit would cost as much as NumPy's calls for an epoch: up to 50 times as much. These
orders equal those of :class:`~pagefeed.order.EpochOrder`, computed unit by unit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import numpy as np
from numpy.typing import ArrayLike

from pagefeed._base import Int64Array
from pagefeed.order.keys import MULTIPLIERS, KeyPart, derive_key, expand_key
from pagefeed.order.lanes import Lanes
from pagefeed.order.permutation import NUM_ROUNDS, checked_indices, grid_of, num_rounds
from pagefeed.order.shuffle import Shuffle
from pagefeed.order.window import time_layout
from pagefeed.sequences import Blocks

MAX_UNITS = 16  # beyond, NumPy is about as fast
MAX_ITEMS = 64

_WORD = (1 << 64) - 1
_FIRST, _SECOND = (int(each) for each in MULTIPLIERS)
Permute = Callable[[int, int, int], int]


class SmallOrder:
    """The order of an epoch of few units: a table.

    Args:
        blocks: The units, and the blocks they lie in, see :meth:`is_enough`.
        seed: Seed of the run.
        epoch: Number of the epoch.
        name: Name of the dataset.
        shuffle: The settings.
        num_lanes: Number of lanes.
        window: Longest delay inside a lane.

    Example:
        >>> from pagefeed.order import EpochOrder, ExplicitBlocks
        >>> settings = dict(seed=1, name="web", shuffle=Shuffle(), num_lanes=2)
        >>> blocks = ExplicitBlocks([0, 2, 4, 6, 8, 9])
        >>> small = SmallOrder(blocks, epoch=0, window=3, **settings)
        >>> whole = EpochOrder(blocks, epoch=0, window=3, **settings)
        >>> bool((small.at(range(9)) == whole.at(range(9))).all())
        True
    """

    def __init__(
        self,
        blocks: Blocks,
        *,
        seed: KeyPart,
        epoch: int,
        name: str,
        shuffle: Shuffle,
        num_lanes: int,
        window: int,
    ) -> None:
        key = derive_key(seed, epoch, name)
        units = list(range(blocks.num_sequences))
        if len(units) > 1:
            if shuffle.permuted:
                units = _permuted(blocks, shuffle, derive_key(key, "sequence"))
            delay = max(window, 1) if shuffle.delayed else 1
            lanes = Lanes(num_units=len(units), num_lanes=num_lanes)
            places = _leaving(lanes, delay, derive_key(key, "window"))
            units = [units[place] for place in places]
        self._units = np.array(units, dtype=np.int64)

    @staticmethod
    def is_enough(blocks: Blocks, shuffle: Shuffle) -> bool:
        """Whether it is the faster order of these."""
        few = blocks.num_sequences <= MAX_UNITS
        return few and len(blocks) * shuffle.passes <= MAX_ITEMS

    def begin(self) -> Iterator[None]:
        """Do nothing: all is done."""
        yield from ()

    def at(self, positions: ArrayLike) -> Int64Array:
        """Units delivered at positions of the epoch: int64 [len(positions)]."""
        checked = checked_indices(positions, len(self._units), "position").ravel()
        return self._units[checked]

    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the same, in a single step."""
        yield from ()
        return self.at(positions)

    def positions(self, units: ArrayLike) -> Int64Array:
        """Positions at which units are delivered: the inverse of :meth:`at`."""
        checked = checked_indices(units, len(self._units), "unit").ravel()
        return np.argsort(self._units)[checked]


def _permuted(blocks: Blocks, shuffle: Shuffle, key: bytes) -> list[int]:
    """The units before lanes and window."""
    if not shuffle.in_blocks:
        permute = _family(
            derive_key(key, "permutation"), num_rounds(blocks.num_sequences)
        )
        return [
            permute(x, blocks.num_sequences, 0) for x in range(blocks.num_sequences)
        ]
    first = blocks.first_sequence(np.arange(len(blocks) + 1)).tolist()
    permute = _family(derive_key(key, "blocks"), num_rounds(len(blocks)))
    passes = shuffle.passes
    if passes == 1:
        order = [permute(turn, len(blocks), 0) for turn in range(len(blocks))]
        return [unit for b in order for unit in range(first[b], first[b + 1])]
    inside = _family(derive_key(key, "inside"), NUM_ROUNDS)
    share_key, inside_key = (
        _pair(derive_key(key, purpose)) for purpose in ("shares", "inside blocks")
    )
    units = []
    for number in range(len(blocks) * passes):
        turn, share = divmod(number, passes)
        block = permute(turn, len(blocks), _mix(share, share_key))
        begin, size = first[block], first[block + 1] - first[block]
        tweak = _mix(block, inside_key)
        ranks = range(share * size // passes, (share + 1) * size // passes)
        units += [begin + inside(rank, size, tweak) for rank in ranks]
    return units


def _leaving(lanes: Lanes, delay: int, key: bytes) -> list[int]:
    """The places, before lanes and window, of the units at all positions."""
    _, time_bits = time_layout(delay)
    hash_key = _pair(key)
    place_of: list[int] = [0] * lanes.num_units
    for lane in range(min(lanes.num_lanes, lanes.num_units)):
        start = lanes.start(lane)
        times = []
        for place in range(lanes.length(lane)):
            hashed = ((_mix(start + place, hash_key) >> 32) * delay) >> (32 - time_bits)
            times.append(((place << time_bits) + hashed, start + place))
        times.sort()
        for place, (_, index) in enumerate(times):
            place_of[place * lanes.num_lanes + lane] = index
    return place_of


def _pair(key: bytes) -> tuple[int, int]:
    first, second = expand_key(key, 2)
    return int(first), int(second)


def _mix(value: int, key: tuple[int, int]) -> int:
    """Do what :func:`~pagefeed.order.keys.mix` does."""
    value = (value + key[0]) * _FIRST & _WORD
    value ^= value >> 32
    value = (value + key[1]) * _SECOND & _WORD
    return value ^ value >> 32


def _family(key: bytes, rounds: int) -> Permute:
    """Return the permutation of any x in [0, n), by n and a tweak."""
    keys = [int(each) for each in expand_key(key, rounds)]

    def permute(x: int, n: int, tweak: int) -> int:
        rows, columns = grid_of(n)
        while True:
            pair = list(divmod(x, columns))
            for index, round_key in enumerate(keys):
                target = index % 2
                mixed = (pair[1 - target] + round_key + tweak) * _FIRST & _WORD
                mixed ^= mixed >> 32
                mixed = (mixed * _SECOND & _WORD) >> 32
                extent = columns if target else rows
                pair[target] = (pair[target] + (mixed * extent >> 32)) % extent
            x = pair[0] * columns + pair[1]
            if x < n:
                return x

    return permute
