"""What lies beside the tokens of streams, by the rows of their documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed._base import Int64Array, lazy
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.token_index import Page

__all__ = ["PayloadFiles", "RecordColumn"]

PayloadFiles = tuple[str, str, int, int]
"""Of a shard: where its payloads lie, these, how many there are, and their bytes."""


@dataclass(frozen=True, eq=False)
class RecordColumn:
    """A part of the records of streams: a number of each, or spans that they are of.

    Its pages are those of the tokens.
    """

    index: PageIndex
    """Where the tokens lie."""
    dtype: str
    """Type of the number, as NumPy names it; of spans that of the ids of payloads."""
    offset: int
    """Bytes of a record before it."""
    shards: tuple[PayloadFiles, ...] | None = None
    """Where the payloads of spans lie; None for plain numbers."""

    def __reduce__(self) -> tuple[type[RecordColumn], tuple[Any, ...]]:
        return RecordColumn, (self.index, self.dtype, self.offset, self.shards)

    @lazy
    def handle(self) -> _core.RecordColumn:
        """The same as the data plane takes it."""
        shards = None if self.shards is None else list(self.shards)
        return _core.RecordColumn(self.index.handle, self.dtype, self.offset, shards)

    @property
    def value_bytes(self) -> int:
        """Bytes of a number; 0 of spans."""
        return np.dtype(self.dtype).itemsize if self.shards is None else 0

    @property
    def mean_row_bytes(self) -> int:
        """Bytes of a row in memory, about."""
        return self.handle.mean_row_bytes

    @property
    def num_rows(self) -> int:
        """Number of rows in all files."""
        return self.index.num_rows

    @property
    def num_values(self) -> int:
        """Number of tokens, of which each has a number."""
        return self.index.num_values

    @property
    def file_first_value(self) -> Int64Array:
        """First of these in each file, and the number of all: int64 [files + 1]."""
        return self.index.file_first_value

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self.index)

    def first_rows(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``pages``."""
        return self.index.first_rows(pages)

    def pages_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the page in which each of ``rows`` begins."""
        return self.index.pages_of_rows(rows)

    def locate(self, page: int) -> Page:
        """Return where a page lies."""
        return self.index.locate(page)

    def row_offsets(self, page: int) -> Int64Array:
        """Return where the rows of a page begin in its tokens: int64 [rows + 1]."""
        return self.index.row_offsets(page)

    def read_page(self, page: int) -> _core.ArrowArray:
        """Read the rows of a page."""
        return self.handle.read_page(page)
