"""Lanes: the permuted units of an epoch, cut into slices that are read side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pagefeed.core._base import Int64Array

NODE_BYTES = (
    256 << 20
)  # most decoded bytes of a window, or of the open blocks of all lanes
BASE_LANES = 48  # divisible by most numbers of ranks of a node, and of small clusters


def choose_num_lanes(
    *,
    num_blocks: int,
    block_bytes: float,
    world_size: int,
    least: int = 1,
    file_order: bool = False,
) -> int:
    """Choose the number of lanes V for a run.

    V is a multiple of the number of ranks, so that each rank reads only its own lanes:
    ``V = lcm(v, world_size)``. Here v is the largest divisor of 48 that does not exceed
    the number of blocks, and for which v blocks take at most 256 MiB. If the multiple
    exceeds the number of blocks, V is v. World sizes that divide 48 therefore share one
    order. v is never below ``least``, even if there are fewer or larger blocks: some
    lanes then have less than a block, or nothing.

    Args:
        num_blocks: Blocks of the dataset (of a mixture: of its largest dataset).
        block_bytes: Mean decoded size of a block.
        world_size: Number of ranks.
        least: Least number of lanes: a divisor of 48.
        file_order: Whether nothing is shuffled, so that separate lanes have no use.
            Then V is ``least``, for any number of ranks.

    Returns:
        The number of lanes.

    Example:
        >>> choose_num_lanes(num_blocks=10_000, block_bytes=1e6, world_size=8)
        48
    """
    if file_order:
        return least
    fitting = [
        lanes
        for lanes in range(least, BASE_LANES + 1)
        if BASE_LANES % lanes == 0
        and lanes <= num_blocks
        and lanes * block_bytes <= NODE_BYTES
    ]
    base = max(fitting, default=least)
    shared = math.lcm(base, world_size)
    return shared if shared <= num_blocks else base


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """``num_units`` consecutive units, cut into ``num_lanes`` slices.

    Longer slices come first. The order interleaves the slices: position p is place
    ``p // num_lanes`` of lane ``p % num_lanes``. Lengths differ by at most one, so
    every position has a unit.
    """

    num_units: int
    num_lanes: int

    def start(self, lane: int) -> int:
        """Index of the lane's first unit; ``num_units`` for lane ``num_lanes``."""
        length, longer = divmod(self.num_units, self.num_lanes)
        return lane * length + min(lane, longer)

    def length(self, lane: int) -> int:
        """Number of units of the lane."""
        return self.start(lane + 1) - self.start(lane)

    def starts(self, lanes: Int64Array) -> Int64Array:
        """Index of each lane's first unit, int64."""
        length, longer = divmod(self.num_units, self.num_lanes)
        return lanes * length + np.minimum(lanes, longer)

    def lengths(self, lanes: Int64Array) -> Int64Array:
        """Number of units of each lane, int64."""
        return self.starts(lanes + 1) - self.starts(lanes)

    def split(self, indices: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Lane, and position in the lane, of indices in [0, num_units): int64 each."""
        length, longer = divmod(self.num_units, self.num_lanes)
        border = longer * (length + 1)
        lane = np.where(
            indices < border,
            indices // (length + 1),
            longer + (indices - border) // max(length, 1),
        )
        return lane, indices - lane * length - np.minimum(lane, longer)

    def join(self, positions: Int64Array) -> Int64Array:
        """Index, int64, of the unit at each position if lanes keep their order."""
        if self.num_lanes == 1:
            return positions.copy()
        length, longer = divmod(self.num_units, self.num_lanes)
        lane = positions % self.num_lanes
        return lane * length + np.minimum(lane, longer) + positions // self.num_lanes
