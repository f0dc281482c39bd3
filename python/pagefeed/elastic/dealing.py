"""Deals the rows of a step to ranks, if possible in whole lanes.

A rank reads the pages of the lanes of its rows. Rows of a step are sorted by lane and
cut into shares. So at most two ranks share a lane, if all steps begin at the same lane.
If steps begin at different lanes, some lanes have one more row in some steps. Lanes are
therefore sorted so that neighbours are far apart. The lanes with one more row are then
spread evenly over all shares, and the cuts hardly move.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pagefeed.core._base import Int64Array


def share_size(size: int, rank: int, world_size: int) -> int:
    """Return how many of ``size`` rows a rank gets: the first ranks get one more.

    Example:
        >>> [share_size(10, rank, 4) for rank in range(4)]
        [3, 3, 2, 2]
    """
    return size // world_size + (rank < size % world_size)


@lru_cache(maxsize=1024)
def share_of_rank(
    size: int, num_lanes: int, first_lane: int, rank: int, world_size: int
) -> Int64Array:
    """Return the rows of a step that a rank gets, rising: int64.

    Args:
        size: Rows of the step.
        num_lanes: Lanes of the order; row j is of lane ``(first_lane + j) %
            num_lanes``.
        first_lane: The lane of the first row.
        rank: The rank.
        world_size: Number of ranks.

    Example:
        >>> [share_of_rank(6, 4, 1, rank, 3).tolist() for rank in range(3)]
        [[1, 3], [0, 5], [2, 4]]
    """
    least, more = divmod(size, world_size)
    begin = rank * least + min(rank, more)
    rows = _by_lane(size, num_lanes, first_lane, world_size)
    share: Int64Array = np.sort(
        rows[begin : begin + share_size(size, rank, world_size)]
    )
    return share


def rows_of_ranks(
    size: int, num_lanes: int, first_lane: int, world_size: int
) -> tuple[Int64Array, Int64Array]:
    """Return row and rank of each row of a step: int64 each."""
    row, rank = np.empty((2, size), dtype=np.int64)
    for some_rank in range(world_size):
        share = share_of_rank(size, num_lanes, first_lane, some_rank, world_size)
        row[share], rank[share] = np.arange(len(share)), some_rank
    return row, rank


def _by_lane(size: int, num_lanes: int, first_lane: int, world_size: int) -> Int64Array:
    """Return the rows of a step sorted by lane."""
    lanes = (first_lane + np.arange(size)) % num_lanes
    sorted_rows: Int64Array = np.argsort(
        _places_of_lanes(num_lanes, world_size)[lanes], kind="stable"
    )
    return sorted_rows


@lru_cache(maxsize=64)
def _places_of_lanes(num_lanes: int, world_size: int) -> Int64Array:
    """Return the sort key of each lane, which puts neighbours far apart.

    It reverses the digits of lane numbers. The first digit uses the common divisor of
    lanes and ranks: if lanes divide evenly among ranks, each rank has every
    ``world_size``-th lane.
    """
    rest = np.arange(num_lanes)
    places = np.zeros(num_lanes, dtype=np.int64)
    weight, common = num_lanes, math.gcd(num_lanes, world_size)
    for base in [common, *_factors(num_lanes // common)]:
        weight //= base
        places += rest % base * weight
        rest //= base
    return places


def _factors(n: int) -> list[int]:
    """Prime factors of a number, the smallest first."""
    factors, factor = [], 2
    while n > 1:
        while n % factor == 0:
            factors.append(factor)
            n //= factor
        factor += 1
    return factors
