"""Indexes whose pages hold other numbers of tokens than the files say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import Int64Array, lazy
from pagefeed.core.dataset import PageIndex, Pieces, Recipe, cut_at


class CountedIndex(PageIndex):
    """The pages of a column with token counts that are stored apart.

    Args:
        core: The index of the data plane.
        recipe: Everything needed to build it again.
        first_token: Tokens before each page, and of all: int64 [pages + 1].
    """

    def __init__(
        self, core: _core.Index, recipe: Recipe, first_token: Int64Array
    ) -> None:
        super().__init__(core, recipe)
        self._first_token = first_token
        self.num_values = int(first_token[-1])

    @lazy
    def mean_row_bytes(self) -> int:
        """Approximate bytes of a row in memory."""
        return self.num_values * self.value_bytes // max(self.num_rows, 1)

    def first_values(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the number of tokens before each page; ``len(index)`` gives all."""
        return self._first_token[np.asarray(pages, dtype=np.int64)]

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> Pieces:
        """Cut ranges of tokens, none of them empty, at the ends of pages."""
        rows = self._first_row
        return cut_at(self._first_token, rows, per_row, starts, stops)

    def row_lengths(self, pages: Int64Array) -> Int64Array:
        """Return the number of tokens in each row of some pages."""
        lengths = [np.diff(self.row_offsets(page)) for page in pages.tolist()]
        return np.concatenate([np.empty(0, dtype=np.int64), *lengths])

    @lazy
    def _first_row(self) -> Int64Array:
        """Number of rows before each page, and of all rows: int64 [pages + 1]."""
        return self.first_rows(np.arange(len(self) + 1))

    def pages_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the page that holds each of ``values``."""
        return np.searchsorted(self._first_token, values, side="right") - 1
