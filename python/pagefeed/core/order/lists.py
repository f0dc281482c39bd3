"""The permuted units of an epoch as one list, before lanes and windows."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from pagefeed.core._base import Int64Array, UInt64Array
from pagefeed.core.order.keys import derive_key, expand_key, hash64
from pagefeed.core.order.permutation import Permutation, PermutationFamily
from pagefeed.core.order.shuffle import Shuffle
from pagefeed.core.order.starts import ItemOrder, Items, Starts
from pagefeed.core.sequences import Blocks


class Chosen(NamedTuple):
    """The chosen indices in [start, stop) of some runs; int64 arrays."""

    starts: Int64Array
    """First index of each run: [runs]."""
    stops: Int64Array
    """One past its last; none is empty: [runs]."""
    which: Int64Array
    """Numbers, rising, of those that are chosen among all of the runs: [chosen]."""
    indices: Int64Array
    """The indices that these are: [chosen]."""


class UnitList(Protocol):
    """A permutation of the units, read in runs."""

    def prepare(self) -> Iterator[None]:
        """Do what must be done before the first use, in steps of a millisecond."""
        yield from ()

    def units(self, chosen: Chosen) -> Generator[None, None, Int64Array]:
        """Find the units at some indices, in short steps: int64 [chosen]."""

    def indices(self, units: Int64Array) -> Int64Array:
        """Index, int64, of each unit."""


class SingleList(UnitList):
    """A list of single units, in file order or permuted.

    Args:
        permutation: Where each unit goes; None for file order.
    """

    def __init__(self, permutation: Permutation | None) -> None:
        self._permutation = permutation

    def units(self, chosen: Chosen) -> Generator[None, None, Int64Array]:
        """Find the units at some indices, in one step: int64 [chosen]."""
        yield from ()
        return self.at(chosen.indices)

    def at(self, indices: Int64Array) -> Int64Array:
        """Return the units at any indices: int64."""
        permutation = self._permutation
        return indices if permutation is None else permutation[indices]

    def indices(self, units: Int64Array) -> Int64Array:
        """Return the index of each unit: int64."""
        permutation = self._permutation
        return units if permutation is None else permutation.inverse(units)


class BlockList(UnitList):
    """Blocks in permuted order; with several passes, shares of blocks.

    The units of a block are permuted, too, so that a dataset of one block is shuffled
    as well. The whole list is then rotated by a keyed amount. So each unit is equally
    likely at each index, whether its block is small or large.

    Args:
        blocks: The blocks.
        passes: Number of shares into which the units of a block are divided.
        key: Key of this epoch's order.
    """

    def __init__(
        self,
        blocks: Blocks,
        passes: int,
        key: bytes,
    ) -> None:
        self._blocks = blocks
        self._passes = passes
        self._order = ItemOrder(blocks, passes, key)
        self._starts = Starts(self._order)
        self._inside = PermutationFamily(derive_key(key, "inside"))
        inside_key = expand_key(derive_key(key, "inside blocks"), 2)
        self._inside_key = (inside_key[0], inside_key[1])
        self._size = blocks.num_sequences
        turn = int.from_bytes(derive_key(key, "turn")[:16], "little")
        self._turn = turn % self._size
        """Index of the unit that comes first."""

    def prepare(self) -> Iterator[None]:
        """Make the sums over blocks, in steps."""
        return self._starts.prepare()

    def units(self, chosen: Chosen) -> Generator[None, None, Int64Array]:
        """Find the units at some indices, in two steps: int64 [chosen]."""
        starts, stops = chosen.starts + self._turn, chosen.stops + self._turn
        # A run over the end of the list continues at its start.
        over = np.flatnonzero((starts < self._size) & (stops > self._size))
        starts = np.insert(starts, over + 1, self._size)
        stops = np.insert(stops, over, self._size)
        behind = starts >= self._size
        starts[behind] -= self._size
        stops[behind] -= self._size
        items, begins, counts = self._starts.cover(starts, stops)
        yield
        # Number of indices in each item.
        ends = np.append(0, np.cumsum(counts))
        counts = np.diff(np.searchsorted(chosen.which, ends))
        indices = chosen.indices + self._turn  # Before the line is turned.
        indices[indices >= self._size] -= self._size
        return self._units(items, begins, counts, indices)

    def _units(
        self, items: Items, begins: Int64Array, counts: Int64Array, indices: Int64Array
    ) -> Int64Array:
        """Return units by the number of units of each item, and where it begins."""
        ranks = indices + np.repeat(items.skipped(self._passes) - begins, counts)
        return np.repeat(items.first_unit, counts) + self._inside.map(
            ranks, *self._domains(items.block, items.block_units, counts)
        )

    def indices(self, units: Int64Array) -> Int64Array:
        """Index, int64, of each unit."""
        block = self._blocks.block_of(units)
        first = self._blocks.first_sequence(block)
        block_units = self._blocks.first_sequence(block + 1) - first
        tweak = hash64(block, self._inside_key)
        rank = self._inside.map(units - first, block_units, tweak, inverse=True)
        share = ((rank + 1) * self._passes - 1) // block_units
        item = Items(block, share, first, block_units)
        numbers = self._order.numbers(block, share)
        index = self._starts.of(numbers) + rank - item.skipped(self._passes)
        return (index - self._turn) % self._size

    def _domains(
        self, block: Int64Array, block_units: Int64Array, counts: Int64Array
    ) -> tuple[int | Int64Array, UInt64Array]:
        """Return, for every unit, size and tweak of the permutation in its block."""
        tweaks = np.repeat(hash64(block, self._inside_key), counts)
        if block_units.min() == block_units.max():
            return int(block_units[0]), tweaks
        return np.repeat(block_units, counts), tweaks


def make_list(
    blocks: Blocks,
    shuffle: Shuffle,
    key: bytes,
) -> UnitList:
    """Build the sequence a shuffle asks for."""
    if not shuffle.permuted or blocks.num_sequences == 0:
        return SingleList(None)
    if not shuffle.in_blocks:
        return SingleList(Permutation(blocks.num_sequences, key))
    return BlockList(blocks, shuffle.passes, key)
