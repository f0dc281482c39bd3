"""Which blocks of rows a lane reads, one after the other, in each of its passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.order import Lanes, Permutation, choose_num_lanes, derive_key

__all__ = ["Cursor", "LaneOrder", "lanes_of_stream"]


class Cursor(NamedTuple):
    """Where a lane is: all that has to be kept of it."""

    epoch: int = 0
    """Passes that it has made."""
    place: int = 0
    """Blocks of this pass that it is done with."""
    token: int = 0
    """Tokens of the next one that it is done with."""
    num_sequences: int = 0
    """Sequences that it has given."""


@dataclass(frozen=True, kw_only=True)
class LaneOrder:
    """The blocks of a dataset, permuted in every pass and dealt to lanes in slices.

    In every pass each block belongs to one lane.
    """

    num_blocks: int
    num_lanes: int
    key: bytes | None
    """Of all randomness; None for file order."""

    def length(self, lane: int) -> int:
        """Return the blocks of a lane in a pass."""
        return self._lanes.length(lane)

    def block(self, lane: int, epoch: int, place: int) -> int:
        """Return the block that a lane reads at a place of a pass."""
        number = self._lanes.start(lane) + place
        if self.key is None:
            return number
        return Permutation(self.num_blocks, derive_key(self.key, "blocks", epoch))[
            number
        ]

    def rows(self, block: int, epoch: int, num_rows: int) -> Int64Array:
        """Return the rows of a block in the order of a pass: int64 [num_rows]."""
        rows = np.arange(num_rows)
        if self.key is None or not num_rows:
            return rows
        return Permutation(num_rows, derive_key(self.key, "rows", epoch, block))[rows]

    @property
    def _lanes(self) -> Lanes:
        return Lanes(num_units=self.num_blocks, num_lanes=self.num_lanes)


def lanes_of_stream(num_blocks: int, block_bytes: float, world_size: int) -> int:
    """Return how many lanes a stream has: as many for every rank, if it can be.

    Each lane holds a block: so many of them as the usual order of a run has.

    Example:
        >>> lanes_of_stream(1000, 1e6, 8), lanes_of_stream(50, 1e6, 32)
        (48, 32)
    """
    usual = choose_num_lanes(
        num_blocks=num_blocks, block_bytes=block_bytes, world_size=world_size
    )
    if usual % world_size == 0:
        return usual
    return min(num_blocks, max(1, usual // world_size) * world_size)
