"""The arrays that the control plane computes with."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Int64Array", "UInt64Array", "joined_ranges"]

Int64Array: TypeAlias = npt.NDArray[np.int64]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]


def joined_ranges(starts: Int64Array, stops: Int64Array) -> Int64Array:
    """Return the numbers of several ranges, none of which falls, one after another.

    Example:
        >>> joined_ranges(np.array([5, 0]), np.array([7, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    if len(starts) == 1:
        return np.arange(starts[0], stops[0])
    counts = stops - starts
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())
