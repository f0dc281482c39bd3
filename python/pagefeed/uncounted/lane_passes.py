"""Rows that a lane reads in each of its passes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.order import Permutation, choose_num_lanes, derive_key

PASSES_HELD = 3
"""Passes whose sums are kept: lanes are in one pass or the next, and read ahead."""


class FirstRows(Protocol):
    """First rows of blocks."""

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """Return the first row of each block: int64."""


class LanePosition(NamedTuple):
    """The position of a lane; all that a state needs of it."""

    epoch: int = 0
    """Passes that it has made."""
    ranges: int = 0
    """Row ranges of this pass that it is done with."""
    done: int = 0
    """Tokens, or packed sequences, of the next row range that are done."""
    size: int = 0
    """Tokens, or packed sequences, of the next row range; 0 if it has not begun."""


class RowRange(NamedTuple):
    """Rows of a block that a lane reads in a pass."""

    block: int
    """The block."""
    first_row: int
    """First of its rows, in the order of the pass."""
    end_row: int
    """One past the last."""
    begin: float
    """Share of the lane's pass before this range, by stored bytes."""
    end: float
    """Share up to its end."""


class LanePasses:
    """The rows of a dataset, dealt to lanes again for every pass.

    A pass permutes the blocks, and cuts their sequence into lanes of equal stored
    bytes. A cut may lie inside a block, between two rows, so each row belongs to one
    lane.

    Args:
        blocks: The blocks, and how many rows each has.
        weights: Stored bytes of each block, at least 1: int64 [blocks].
        num_lanes: Lanes of all ranks together.
        key: Key of all randomness; None for file order.
    """

    def __init__(
        self, blocks: FirstRows, weights: Int64Array, num_lanes: int, key: bytes | None
    ) -> None:
        self._blocks = blocks
        self._weights = weights
        self._total = int(weights.sum())
        self._key = key
        self._line = lru_cache(maxsize=PASSES_HELD)(self._new_line)
        self.num_lanes = num_lanes
        """Lanes of all ranks together."""

    def length(self, lane: int, epoch: int) -> int:
        """Return the number of row ranges of a lane in a pass."""
        first, last = self._places(lane, epoch)
        return last - first + 1

    def row_range(self, lane: int, epoch: int, position: int) -> RowRange:
        """Return the rows that a lane reads at a position of its pass."""
        start, stop = self._slice(lane)
        order, ends = self._line(epoch)
        here = self._places(lane, epoch)[0] + position
        block = here if order is None else int(order[np.array([here])][0])
        within = int(self._weights[block])
        before = int(ends[here]) - within
        begin, end = max(before, start), min(before + within, stop)
        rows = self.num_rows(block)
        return RowRange(
            block,
            rows * (begin - before) // within,
            rows * (end - before) // within,
            (begin - start) / max(1, stop - start),
            (end - start) / max(1, stop - start),
        )

    def num_rows(self, block: int) -> int:
        """Return the rows of a block."""
        first, end = self._blocks.first_sequence(np.array([block, block + 1])).tolist()
        return end - first

    def rows(self, row_range: RowRange, epoch: int) -> Int64Array:
        """Return the rows of a range in the order of a pass, numbered in the block."""
        rows = np.arange(row_range.first_row, row_range.end_row)
        if self._key is None or not len(rows):
            return rows
        key = derive_key(self._key, "rows", epoch, row_range.block)
        return Permutation(self.num_rows(row_range.block), key)[rows]

    def _slice(self, lane: int) -> tuple[int, int]:
        """Stored bytes before a lane, and up to its end."""
        return (
            self._total * lane // self.num_lanes,
            self._total * (lane + 1) // self.num_lanes,
        )

    def _places(self, lane: int, epoch: int) -> tuple[int, int]:
        """Return the first and last position of a lane in the order of a pass."""
        start, stop = self._slice(lane)
        _, ends = self._line(epoch)
        both = [start, max(start, stop - 1)]
        first, last = np.searchsorted(ends, both, side="right").tolist()
        return first, last

    def _new_line(self, epoch: int) -> tuple[Permutation | None, Int64Array]:
        """Return the order of a pass, and the bytes up to the end of each block."""
        if self._key is None:
            return None, np.cumsum(self._weights)
        key = derive_key(self._key, "blocks", epoch)
        order = Permutation(len(self._weights), key)
        blocks = order[np.arange(len(self._weights))]
        return order, np.cumsum(self._weights[blocks])


def lanes_for_ranks(num_blocks: int, block_bytes: float, world_size: int) -> int:
    """Return the number of lanes of uncounted text, if possible equal for every rank.

    Each lane holds one block in memory. There are as many lanes as other runs have.

    Example:
        >>> lanes_for_ranks(1000, 1e6, 8), lanes_for_ranks(50, 1e6, 32)
        (48, 32)
    """
    usual = choose_num_lanes(
        num_blocks=num_blocks, block_bytes=block_bytes, world_size=world_size
    )
    if usual % world_size == 0:
        return usual
    return min(num_blocks, max(1, usual // world_size) * world_size)
