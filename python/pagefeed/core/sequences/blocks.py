"""Blocks: the runs of sequences, in file order, that a shuffle moves as one."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from pagefeed.core._base import Int64Array
from pagefeed.errors import InvalidArgumentError


class Blocks(Protocol):
    """Sequences 0 to num_sequences - 1 in file order, cut into consecutive blocks.

    A block may have no sequence (a page in which none starts).
    """

    @property
    def num_sequences(self) -> int:
        """Sequences of all blocks together."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """Return the first sequence of each block: int64.

        Args:
            blocks: int64, values in 0 to ``len(self)`` inclusive.
        """

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the block of each sequence, int64.

        Args:
            sequences: int64, values in [0, num_sequences).
        """


class ExplicitBlocks:
    """Blocks given by their first sequences.

    Args:
        first_sequence: int64 [blocks + 1], from 0, never falling; the last is the
            number of sequences. It is kept as it is and may be mapped from disk.

    Raises:
        InvalidArgumentError: The numbers do not start at 0 or fall somewhere.

    Example:
        >>> blocks = ExplicitBlocks([0, 3, 3, 8])
        >>> blocks.block_of(np.array([2, 3])).tolist()
        [0, 2]
    """

    def __init__(self, first_sequence: ArrayLike) -> None:
        array = np.asarray(first_sequence, dtype=np.int64)
        if array.ndim != 1 or len(array) == 0 or array[0] != 0:
            raise InvalidArgumentError(
                "first_sequence is one dimension that starts at 0 and ends with the "
                f"number of sequences, found shape {array.shape}: {array!r:.60}"
            )
        # In pieces: the array may be mapped, and its differences must not be held.
        for begin in range(0, len(array) - 1, _PIECE):
            piece = array[begin : begin + _PIECE + 1]
            falls = np.flatnonzero(piece[1:] < piece[:-1])
            if len(falls):
                block = begin + int(falls[0])
                raise InvalidArgumentError(
                    f"first_sequence never falls, found {array[block]} for block "
                    f"{block} and {array[block + 1]} for the next"
                )
        self._first_sequence = array
        self.num_sequences = int(array[-1])

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._first_sequence) - 1

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """First sequence of each block, int64."""
        return self._first_sequence[blocks]

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the block of each sequence: int64."""
        return np.searchsorted(self._first_sequence, sequences, side="right") - 1


_PIECE = 1 << 18
