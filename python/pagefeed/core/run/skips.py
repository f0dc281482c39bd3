"""Skipped positions as a state stores them: short, so that it stays below 1 KB."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import gcd
from typing import Any

from pagefeed.core._base import MOST, check_whole
from pagefeed.core.run.route import Ranges
from pagefeed.errors import InvalidArgumentError

__all__ = ["MOST_RANGES", "packed_ranges", "ranges_fit", "unpacked_ranges"]

MOST_CHARACTERS = 400
"""Of skipped ranges in a state, so that all of it stays below 1 KB."""
MOST_RANGES = MOST_CHARACTERS // len(", 1, 1")
"""So many at most. Longer gaps between ranges leave room for fewer."""


def packed_ranges(ranges: Ranges) -> list[int]:
    """Return ranges as one short list.

    It is the first position, a unit, then the lengths of ranges and of the gaps between
    them in turn, all in this unit: steps are of one size, so these numbers are small.

    Args:
        ranges: Ranges in order, apart from each other.

    Example:
        >>> packed_ranges(((100, 108), (120, 124)))
        [100, 4, 2, 3, 1]
    """
    if not ranges:
        return []
    borders = [border for span in ranges for border in span]
    distances = [after - before for before, after in pairwise(borders)]
    unit = gcd(*distances)
    return [borders[0], unit, *(distance // unit for distance in distances)]


def unpacked_ranges(packed: Any) -> Ranges:
    """Return what :func:`packed_ranges` packed.

    Raises:
        InvalidArgumentError: If it did not pack this, or no state holds as many.
    """
    if not isinstance(packed, list | tuple):
        raise InvalidArgumentError(f"skipped={packed!r:.60} must be a list")
    if not packed:
        return ()
    first, *others = (check_whole(number, "skipped", most=MOST) for number in packed)
    if len(others) % 2 or first < 0 or min(others, default=0) < 1:
        raise InvalidArgumentError(
            f"skipped={packed!r:.60} must be a position, a unit, and lengths of ranges "
            "and of the gaps between them"
        )
    unit, *distances = others
    borders = [
        *accumulate(distances, lambda at, length: at + length * unit, initial=first)
    ]
    ranges = tuple(zip(borders[::2], borders[1::2], strict=True))
    check_whole(borders[-1], "skipped", most=MOST)
    if packed_ranges(ranges) != [*packed] or not ranges_fit(ranges):
        raise InvalidArgumentError(
            f"skipped={packed!r:.60} must be in the largest unit, and of at most "
            f"{MOST_CHARACTERS} characters"
        )
    return ranges


def ranges_fit(ranges: Sequence[tuple[int, int]]) -> bool:
    """Return whether a state can hold so many ranges."""
    return len(json.dumps(packed_ranges(tuple(ranges)))) <= MOST_CHARACTERS
