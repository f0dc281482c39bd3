"""Items (the shares of blocks that a block shuffle permutes) and where they start.

With ``passes=k`` every block is read k times and gives another share of its units each
time. Item j is share ``j % k`` of block ``P(j // k)``, where P is a different
permutation for every share. So the shares of a block are anywhere in the epoch, and the
sizes of items follow a fixed pattern if blocks are of equal size. The start of an item
is the sum of the sizes of all items before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array, UInt64Array, joined_ranges
from pagefeed.core.order.keys import derive_key, expand_key, hash64
from pagefeed.core.order.permutation import PermutationFamily, num_rounds
from pagefeed.core.sequences import Blocks
from pagefeed.errors import InternalError


class Items(NamedTuple):
    """Consecutive items of the permuted order; int64 arrays of equal length."""

    block: Int64Array
    share: Int64Array
    first_unit: Int64Array
    """First unit of the block."""
    block_units: Int64Array
    """Units of the block."""

    def skipped(self, passes: int) -> Int64Array:
        """Units of the block that belong to earlier shares."""
        return self.share * self.block_units // passes

    def sizes(self, passes: int) -> Int64Array:
        """Units of each item; shares of the same block differ by at most one."""
        return (self.share + 1) * self.block_units // passes - self.skipped(passes)


class ItemOrder:
    """The permuted order of all pairs (block, share), and its inverse.

    Args:
        blocks: The blocks.
        passes: k, the shares every block is cut into.
        key: Key of this epoch's permutation.
    """

    def __init__(self, blocks: Blocks, passes: int, key: bytes) -> None:
        self.blocks = blocks
        self.passes = passes
        self._permutation = PermutationFamily(
            derive_key(key, "blocks"), num_rounds(len(blocks))
        )
        self._tweaks: UInt64Array | None = None
        if passes > 1:
            tweak_key = expand_key(derive_key(key, "shares"), 2)
            self._tweaks = hash64(np.arange(passes), (tweak_key[0], tweak_key[1]))

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.blocks) * self.passes

    def items(self, numbers: Int64Array) -> Items:
        """The items of these numbers in [0, len(self))."""
        turn, share = numbers, np.zeros_like(numbers)
        tweak = None
        if self._tweaks is not None:
            turn = numbers // self.passes
            share = numbers - turn * self.passes
            tweak = self._tweaks[share]
        block = self._permutation.map(turn, len(self.blocks), tweak)
        first = self.blocks.first_sequence(block)
        return Items(block, share, first, self.blocks.first_sequence(block + 1) - first)

    def numbers(self, block: Int64Array, share: Int64Array) -> Int64Array:
        """Number, int64, of each (block, share)."""
        tweak = None if self._tweaks is None else self._tweaks[share]
        turn = self._permutation.map(block, len(self.blocks), tweak, inverse=True)
        return turn * self.passes + share


STEP = 64  # items between two kept sums: a megabyte for 8 million blocks
PIECE = 1 << 14  # items at a time: a millisecond or two


class Cover(NamedTuple):
    """Items that cover ranges of units; the outermost ones may exceed the range."""

    items: Items
    starts: Int64Array
    """First unit of each item."""
    counts: Int64Array
    """Units of each item that are inside the range."""


class Starts:
    """First unit of each item.

    Every 64th start is stored; the others are summed when they are needed.

    Args:
        order: The items.
    """

    def __init__(self, order: ItemOrder) -> None:
        self._order = order
        self._steps = sum_sizes(order)
        self._made: Int64Array | None = None

    def prepare(self) -> Iterator[None]:
        """Make the sums in steps. A caller that needs them makes the rest at once."""
        while self._made is None:
            self._go_on()
            yield

    def _go_on(self) -> None:
        """Take one step; begin again if an interrupt ended the steps."""
        try:
            self._made = next(self._steps)
        except StopIteration:
            self._steps = sum_sizes(self._order)

    @property
    def _kept(self) -> Int64Array:
        while self._made is None:
            self._go_on()
        return self._made

    def of(self, numbers: Int64Array) -> Int64Array:
        """Return the first unit of each item, int64; runs of 64 items are read once."""
        runs, which = np.unique(numbers // STEP, return_inverse=True)
        starts = np.empty(len(numbers), dtype=np.int64)
        by_run = np.argsort(which, kind="stable")
        borders = np.searchsorted(which[by_run], np.arange(len(runs) + 1))
        for index, run in enumerate(runs.tolist()):
            asked = by_run[borders[index] : borders[index + 1]]
            _, run_starts, _ = self._runs(np.array([run]), np.array([run + 1]))
            starts[asked] = run_starts[numbers[asked] - run * STEP]
        return starts

    def cover(self, starts: Int64Array, stops: Int64Array) -> Cover:
        """Return the items that hold the positions [start, stop) of each range."""
        first = np.searchsorted(self._kept, starts, side="right") - 1
        last = np.searchsorted(self._kept, stops - 1, side="right")
        items, begins, ends = self._runs(first, last)
        num_items = np.minimum(last * STEP, len(self._order)) - first * STEP
        counts = _inside(begins, ends, starts, stops, num_items)
        return Cover(items, begins, counts)

    def _runs(
        self, first: Int64Array, last: Int64Array
    ) -> tuple[Items, Int64Array, Int64Array]:
        """Items of ranges of whole runs, where they start and where they end."""
        begin, end = first * STEP, np.minimum(last * STEP, len(self._order))
        items = self._order.items(joined_ranges(begin, end))
        sizes = items.sizes(self._order.passes)
        ends = np.cumsum(sizes)
        num_items = end - begin
        behind = np.cumsum(num_items)
        before = np.concatenate([[0], ends[behind[:-1] - 1]])
        ends += np.repeat(self._kept[first] - before, num_items)
        wrong = np.flatnonzero(ends[behind - 1] != self._kept[last])
        if len(wrong):
            at = int(wrong[0])
            raise InternalError(
                f"items {begin[at]} to {end[at]} end at unit {ends[behind[at] - 1]}, "
                f"the stored sums say {self._kept[last[at]]}: the blocks changed"
            )
        return items, ends - sizes, ends


def _inside(
    begins: Int64Array,
    ends: Int64Array,
    starts: Int64Array,
    stops: Int64Array,
    num_items: Int64Array,
) -> Int64Array:
    """Return the units of each item that are inside its range."""
    first = np.maximum(begins, np.repeat(starts, num_items))
    last = np.minimum(ends, np.repeat(stops, num_items))
    return np.maximum(last - first, 0)


def sum_sizes(order: ItemOrder) -> Iterator[Int64Array | None]:
    """Add up the sizes of all items, in permuted order, keeping every 64th sum.

    Yields:
        None after each step; at last int64 [runs + 1], from 0 to the number of units.
    """
    sums = np.zeros(-(-len(order) // STEP) + 1, dtype=np.int64)
    blocks, passes = order.blocks, order.passes
    at_once = max(1, PIECE // passes)
    # In file order: neighbours are found much faster than permuted blocks.
    for begin in range(0, len(blocks), at_once):
        borders = np.arange(begin, min(begin + at_once, len(blocks)) + 1)
        first = blocks.first_sequence(borders)
        block, first_unit, block_units = (
            np.repeat(column, passes)
            for column in (borders[:-1], first[:-1], np.diff(first))
        )
        share = np.tile(np.arange(passes), len(borders) - 1)
        sizes = Items(block, share, first_unit, block_units).sizes(passes)
        np.add.at(sums, order.numbers(block, share) // STEP + 1, sizes)
        yield None
    yield np.cumsum(sums)
