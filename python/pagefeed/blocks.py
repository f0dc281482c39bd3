"""Blocks: the runs of units, in file order, that a shuffle moves as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pagefeed.arrays import Int64Array
from pagefeed.errors import InvalidArgumentError


class Blocks(Protocol):
    """Units 0 to num_units - 1 in file order, cut into consecutive blocks.

    A block may have no unit (a page in which none starts).
    """

    @property
    def num_units(self) -> int:
        """Units of all blocks together."""

    @property
    def uniform(self) -> int | None:
        """Units of every block but the last, which has at most as many; else None."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def first_unit(self, blocks: Int64Array) -> Int64Array:
        """First unit of each block, int64; ``num_units`` for block ``len(self)``.

        Args:
            blocks: int64, values in 0 to ``len(self)`` inclusive.
        """

    def block_of(self, units: Int64Array) -> Int64Array:
        """Block of each unit, int64.

        Args:
            units: int64, values in [0, num_units).
        """


class UniformBlocks:
    """Blocks of equal size; only the last may be shorter.

    Args:
        num_units: Units of all blocks together.
        units_per_block: Units of every block but the last.

    Raises:
        InvalidArgumentError: A size is out of range.

    Example:
        >>> blocks = UniformBlocks(10, units_per_block=4)
        >>> len(blocks), blocks.first_unit(np.arange(4)).tolist()
        (3, [0, 4, 8, 10])
    """

    def __init__(self, num_units: int, units_per_block: int) -> None:
        if num_units < 0 or units_per_block < 1:
            raise InvalidArgumentError(
                "uniform blocks need num_units >= 0 and units_per_block >= 1, found "
                f"num_units={num_units}, units_per_block={units_per_block}"
            )
        self.num_units = num_units
        self.uniform: int | None = units_per_block

    def __len__(self) -> int:
        """Return the number of blocks."""
        return (self.num_units + self._size - 1) // self._size

    @property
    def _size(self) -> int:
        return self.uniform or 1

    def first_unit(self, blocks: Int64Array) -> Int64Array:
        """First unit of each block, int64."""
        return np.minimum(blocks * self._size, self.num_units)

    def block_of(self, units: Int64Array) -> Int64Array:
        """Block of each unit, int64."""
        return units // self._size


class ExplicitBlocks:
    """Blocks given by their first units.

    Args:
        first_unit: int64 [blocks + 1], from 0, never falling; the last is the number of
            units. It is kept as it is and may be mapped from disk.

    Raises:
        InvalidArgumentError: The numbers do not start at 0 or fall somewhere.

    Example:
        >>> blocks = ExplicitBlocks([0, 3, 3, 8])
        >>> blocks.block_of(np.array([2, 3])).tolist()
        [0, 2]
    """

    uniform: int | None = None

    def __init__(self, first_unit: ArrayLike) -> None:
        array = np.asarray(first_unit, dtype=np.int64)
        if array.ndim != 1 or len(array) == 0 or array[0] != 0:
            raise InvalidArgumentError(
                "first_unit is one dimension that starts at 0 and ends with the number "
                f"of units, found shape {array.shape}: {array!r:.60}"
            )
        # In pieces: the array may be mapped, and its differences must not be held.
        for begin in range(0, len(array) - 1, _PIECE):
            piece = array[begin : begin + _PIECE + 1]
            falls = np.flatnonzero(piece[1:] < piece[:-1])
            if len(falls):
                block = begin + int(falls[0])
                raise InvalidArgumentError(
                    f"first_unit never falls, found {array[block]} for block {block} "
                    f"and {array[block + 1]} for the next"
                )
        self._first_unit = array
        self.num_units = int(array[-1])

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._first_unit) - 1

    def first_unit(self, blocks: Int64Array) -> Int64Array:
        """First unit of each block, int64."""
        return self._first_unit[blocks]

    def block_of(self, units: Int64Array) -> Int64Array:
        """Block of each unit, int64; a block without units is nobody's."""
        return np.searchsorted(self._first_unit, units, side="right") - 1


class RunBlocks:
    """The units that start in one run of spans.

    Args:
        runs: First span of each run, int64; None if every span is a run.
        num_units: Units of all spans together.
        num_spans: Number of spans.
        first_unit: Gives the units before each span, ``num_spans`` included.
        span_of: Gives the span in which each unit starts.

    Example:
        >>> blocks = RunBlocks(
        ...     np.array([0, 3]), num_units=8, num_spans=4,
        ...     first_unit=lambda spans: 2 * spans, span_of=lambda units: units // 2)
        >>> blocks.first_unit(np.arange(3)).tolist()
        [0, 6, 8]
    """

    uniform: int | None = None

    def __init__(
        self,
        runs: Int64Array | None,
        *,
        num_units: int,
        num_spans: int,
        first_unit: Callable[[Int64Array], Int64Array],
        span_of: Callable[[Int64Array], Int64Array],
    ) -> None:
        self.num_units = num_units
        self._runs = runs
        self._num_spans = num_spans
        self._first_unit = first_unit
        self._span_of = span_of

    def __len__(self) -> int:
        """Return the number of blocks."""
        return self._num_spans if self._runs is None else len(self._runs)

    def first_unit(self, blocks: Int64Array) -> Int64Array:
        """First unit of each block, int64."""
        if self._runs is None:
            return self._first_unit(blocks)
        inside = np.minimum(blocks, len(self) - 1)
        spans = np.where(blocks < len(self), self._runs[inside], self._num_spans)
        return self._first_unit(spans)

    def block_of(self, units: Int64Array) -> Int64Array:
        """Block of each unit, int64."""
        spans = self._span_of(units)
        if self._runs is None:
            return spans
        return np.searchsorted(self._runs, spans, side="right") - 1


_PIECE = 1 << 18
