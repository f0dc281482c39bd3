"""Spans that are stored as runs of rows, each inside one page."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, UInt32Array, narrow_difference
from pagefeed.core.dataset import SpanParts, Spans, cut_at

__all__ = ["RowRuns"]


class RowRuns(Spans, ABC):
    """Some rows of an index, as runs whose rows and values are summed up."""

    @property
    @abstractmethod
    def _row(self) -> Int64Array:
        """First row of each span, numbered through the index: int64 [spans]."""

    @property
    @abstractmethod
    def _rows_before(self) -> Int64Array:
        """Rows of the spans before each, and of all: int64 [spans + 1]."""

    @property
    @abstractmethod
    def values_before(self) -> Int64Array:
        """Values of the spans before each, and of all: int64 [spans + 1]."""

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self._row)

    @property
    def num_rows(self) -> int:
        """Rows of all spans."""
        return int(self._rows_before[-1])

    @property
    def num_values(self) -> int:
        """Values of these rows; for a column of tokens, their tokens."""
        return int(self.values_before[-1])

    def first_rows(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``spans``; for ``len(self)``, all rows."""
        return self._rows_before[np.asarray(spans, dtype=np.int64)]

    def first_values(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the values before each of ``spans``; for ``len(self)``, all values."""
        return self.values_before[np.asarray(spans, dtype=np.int64)]

    def spans_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the span of each of ``rows``."""
        return np.searchsorted(self._rows_before, rows, side="right") - 1

    def rows_of_index(self, rows: npt.ArrayLike) -> Int64Array:
        """Return which rows of the index ``rows`` of the spans are."""
        numbers = np.asarray(rows, dtype=np.int64)
        span = np.minimum(self.spans_of_rows(numbers), len(self) - 1)
        return self._row[span] + numbers - self.first_rows(span)

    def values_of_rows(self, rows: Int64Array) -> Int64Array:
        """Return the values before each of ``rows`` of the spans; reads their pages."""
        span = np.minimum(self.spans_of_rows(rows), len(self) - 1)
        borders = np.stack([self._row[span], self.rows_of_index(rows)])
        first, here = self.index.values_of_rows(borders)
        return self.first_values(span) + here - first

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> SpanParts:
        """Cut ranges of tokens, none of them empty, at the ends of spans."""
        return cut_at(self.values_before, self._rows_before, per_row, starts, stops)

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, UInt32Array]:
        """Return the page of the index, and the row in that page, of their starts."""
        rows = self._row[np.asarray(spans, dtype=np.int64)]
        pages = self.index.pages_of_rows(rows)
        return pages, narrow_difference(rows, self.index.first_rows(pages))
