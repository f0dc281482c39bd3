"""Sums of squared document lengths in each sequence, computed once and stored."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import CheckedArray
from pagefeed.core.dataset import lengths_of_rows, refuse_unknown_rows
from pagefeed.core.sequences import (
    SPANS_AT_ONCE,
    PackedIndex,
    SequenceIndex,
    WindowIndex,
    stored_numbers,
)

__all__ = ["stored_squares"]


@singledispatch
def stored_squares(index: SequenceIndex) -> CheckedArray | None:
    """Map sums of squared document lengths. Compute them if they are not stored.

    Returns:
        float32 [sequences]; None if the rows have no tokens, or nobody says.
    """
    return index.stored_squares()


@stored_squares.register
def _of_packed(index: PackedIndex) -> CheckedArray:
    borders = np.ascontiguousarray(index.first_span).tobytes()

    def make(block: int) -> npt.NDArray[np.float64]:
        packing = index.packing(block)
        squares = np.square(packing.num_tokens.astype(np.float64))
        count = index.num_sequences_of(block)
        return np.bincount(packing.sequence, squares, count).astype(np.float64)

    return stored_numbers(index.spans, make, len(index), index.identity, borders)


@stored_squares.register
def _of_windows(index: WindowIndex) -> CheckedArray:
    refuse_unknown_rows(index.spans, "balance=")
    num_pieces = max(1, len(index.spans) // SPANS_AT_ONCE)
    pieces = np.arange(num_pieces + 1) * index.num_sequences // num_pieces

    def make(piece: int) -> npt.NDArray[np.float64]:
        return _squares(index, *pieces[piece : piece + 2])

    return stored_numbers(index.spans, make, num_pieces, repr(index.windows), b"")


def _squares(index: WindowIndex, first: int, last: int) -> npt.NDArray[np.float64]:
    """Return sums of squares of windows, whose outer documents may be cut."""
    starts, stops = index.token_ranges(np.arange(first, last))
    if not len(starts):
        return np.empty(0)
    lines, spans = index.lines, index.spans
    span, end = lines.spans_of(np.array([starts[0], stops[-1] - 1])).tolist()
    lengths = lengths_of_rows(spans, span, end + 1) + index.layout.per_row
    borders = np.append(0, np.cumsum(lengths)) + lines.first(span)
    squares = np.append(0, np.cumsum(np.square(lengths.astype(np.float64))))
    begin = np.searchsorted(borders, starts, side="left")
    behind = np.searchsorted(borders, stops, side="right") - 1
    whole = squares[behind] - squares[begin]
    ends = np.square(borders[begin] - starts) + np.square(stops - borders[behind])
    within: npt.NDArray[np.float64] = np.square((stops - starts).astype(np.float64))
    return np.where(behind < begin, within, whole + ends)
