"""The arrays that the control plane computes with, and work on them in short steps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Int64Array: TypeAlias = npt.NDArray[np.int64]
UInt32Array: TypeAlias = npt.NDArray[np.uint32]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]


class StoredNumbers(Protocol):
    """Float32 numbers on disk, of which only those that are asked for are read."""

    def __len__(self) -> int: ...
    def __getitem__(self, places: slice | Int64Array) -> npt.NDArray[np.float32]: ...


def distinct(numbers: Int64Array) -> Int64Array:
    """Return each number once, in rising order.

    Sorting takes a tenth of the time of ``numpy.unique``, which hashes whole numbers.

    Example:
        >>> distinct(np.array([7, 5, 7])).tolist()
        [5, 7]
    """
    rising = np.sort(numbers)
    is_new = np.ones(len(rising), dtype=bool)
    np.not_equal(rising[1:], rising[:-1], out=is_new[1:])
    return rising[is_new]


def joined_ranges(starts: Int64Array, stops: Int64Array) -> Int64Array:
    """Return the numbers of several ranges, one range after another.

    Example:
        >>> joined_ranges(np.array([5, 0]), np.array([7, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    if len(starts) == 1:
        return np.arange(starts[0], stops[0])
    counts = stops - starts
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def looked_up(
    find: Callable[[Int64Array, Int64Array], None], keys: npt.ArrayLike
) -> Int64Array:
    """Return an array of the keys' shape that ``find(keys, output)`` has filled.

    Example:
        >>> def double(keys, found):
        ...     found[:] = 2 * keys
        >>> looked_up(double, [[1], [2]]).tolist()
        [[2], [4]]
    """
    wanted = np.ascontiguousarray(keys, dtype=np.int64)
    values = np.empty_like(wanted)
    if wanted.size:
        find(wanted.reshape(-1), values.reshape(-1))
    return values


def narrow_difference(ends: Int64Array, starts: Int64Array) -> UInt32Array:
    """Return ends minus starts, which must be below 2**32: uint32.

    Example:
        >>> narrow_difference(np.array([7, 9]), np.array([5, 9])).tolist()
        [2, 0]
    """
    return np.subtract(ends, starts, dtype="u4", casting="unsafe")


def sorted_with_places(numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the numbers in rising order, and where each was.

    Sorting pairs packed into one number takes a third of the time of an argsort.

    Example:
        >>> rising, places = sorted_with_places(np.array([7, 5, 9]))
        >>> rising.tolist(), places.tolist()
        ([5, 7, 9], [1, 0, 2])
    """
    place_bits = len(numbers).bit_length()
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if (high - low) >> (63 - place_bits):
        places = np.argsort(numbers)
        return numbers[places], places
    packed = numbers - low
    packed <<= place_bits
    packed |= np.arange(len(numbers))
    packed.sort()
    places = packed & ((1 << place_bits) - 1)
    packed >>= place_bits
    packed += low
    return packed, places


def ranges_between(
    starts: Int64Array, stops: Int64Array, begins: Int64Array, ends: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return what is left of some ranges when the gaps between them are taken out.

    Args:
        starts: First number of each range: int64 [ranges].
        stops: One past its last.
        begins: First number of each range to leave out: int64 [gaps].
        ends: One past its last.

    Returns:
        Three arrays with an element for each remaining part, none of them empty: its
        range, its first number, and one past its last.

    Example:
        >>> found = ranges_between(*np.array([[0, 10], [10, 20], [4, 8], [6, 12]]))
        >>> [part.tolist() for part in found]
        [[0, 0, 1], [0, 6, 12], [4, 8, 20]]
    """
    first = np.searchsorted(ends, starts, side="right")
    last = np.maximum(np.searchsorted(begins, stops, side="left"), first)
    of = np.repeat(np.arange(len(starts)), last - first + 1)
    gap = joined_ranges(first, last + 1) if len(starts) else first
    low = np.where(gap > first[of], np.append(ends, 0)[gap - 1], starts[of])
    high = np.where(gap < last[of], np.append(begins, 0)[gap], stops[of])
    left = np.flatnonzero(np.minimum(high, stops[of]) > low)
    return of[left], low[left], high[left]


def to_bfloat16(numbers: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Return the bits of numbers in bfloat16, rounded to the nearest, then to even."""
    values = np.asarray(numbers, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype("<u2")


Result = TypeVar("Result")


def finished(steps: Generator[object, None, Result]) -> Result:
    """Run a generator to its end, and return its result.

    Example:
        >>> def work():
        ...     yield
        ...     return "done"
        >>> finished(work())
        'done'
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
