"""Number of rows of each length, counted once and kept."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagefeed.core._base import ArrayWriter, Int64Array, Work, in_order, logger
from pagefeed.core.dataset import Spans, derived_arrays, derived_key, lengths_of_rows

__all__ = ["LengthCounts", "length_counts"]

VERSION = 2
SPANS_AT_ONCE = 64
_known: dict[str, LengthCounts] = {}
"""Counts of this process, some 100 KB each at most."""


class LengthCounts(NamedTuple):
    """Number of rows of each length; arrays int64 [lengths]."""

    length: Int64Array
    """Tokens of a row, rising."""
    num_rows: Int64Array
    """Rows of this length."""

    def cut_tokens(self, most: int) -> int:
        """Return the tokens of all rows, after cutting each to ``most``.

        Example:
            >>> LengthCounts(np.array([2, 9]), np.array([3, 1])).cut_tokens(4)
            10
        """
        return int((np.minimum(self.length, most) * self.num_rows).sum())


def length_counts(spans: Spans) -> LengthCounts:
    """Count the rows of each length.

    All pages of the rows are read, once in a process: with a cache folder of the index
    the counts are kept there, for all processes and later runs.

    Args:
        spans: The rows.

    Raises:
        UnsupportedError: If the column is not a list of integers.
    """
    index = spans.index
    key = derived_key(index, str(VERSION), spans.fingerprint)
    if key in _known:
        return _known[key]

    def write(writer: ArrayWriter) -> None:
        logger.info("the lengths of %d rows are read, once", spans.num_rows)
        length, num_rows = _counted(spans)
        writer.append("length", length)
        writer.append("num_rows", num_rows)

    stored = derived_arrays(index, "lengths", key, write)
    _known[key] = LengthCounts(stored["length"], stored["num_rows"])
    return _known[key]


def _counted(spans: Spans) -> LengthCounts:
    """Read the rows, some spans at a time."""

    def count(first: int) -> tuple[Int64Array, Int64Array]:
        stop = min(first + SPANS_AT_ONCE, len(spans))
        lengths = lengths_of_rows(spans, first, stop)
        return np.unique(lengths, return_counts=True)

    counts = LengthCounts(*np.zeros((2, 0), dtype=np.int64))
    with Work("lengths of rows", total=spans.num_rows, unit="rows") as work:
        for length, num_rows in in_order(count, range(0, len(spans), SPANS_AT_ONCE)):
            both = np.concatenate([counts.length, length])
            distinct, index = np.unique(both, return_inverse=True)
            totals = np.zeros(len(distinct), dtype=np.int64)
            np.add.at(totals, index, np.concatenate([counts.num_rows, num_rows]))
            counts = LengthCounts(distinct, totals)
            work.advance(int(num_rows.sum()))
    return counts
