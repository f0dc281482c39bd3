"""Columns of numbers and spans in the records of streams."""

from __future__ import annotations

from typing import Any

import numpy as np

from pagefeed import _core
from pagefeed.core._base import lazy
from pagefeed.core.dataset import PageIndex

__all__ = ["PayloadFiles", "RecordColumn"]

PayloadFiles = tuple[str, str, int, int]
"""For a shard: path of the payload index, path of the payloads, their number, their
bytes."""


class RecordColumn(PageIndex):
    """A number of every record, or the spans of tokens that its records name.

    Its pages are those of the tokens.

    Args:
        index: The index of the tokens.
        dtype: Type of the number, as NumPy names it; for spans that of payload ids.
        offset: Bytes of a record before the number.
        shards: Files of the payloads of spans; None for plain numbers.
        filling: Bits of the number of special tokens, where documents are infilled;
            None leaves the rows as they are.
    """

    handle: Any

    def __init__(
        self,
        index: PageIndex,
        dtype: str,
        offset: int,
        shards: tuple[PayloadFiles, ...] | None = None,
        filling: int | None = None,
    ) -> None:
        super().__init__(index.core, index.recipe)
        self._made_of = index, dtype, offset, shards, filling
        self.shards = shards
        self.handle = _core.RecordColumn(
            index.core,
            dtype,
            offset,
            None if shards is None else list(shards),
            filling,
        )
        self.value_bytes = np.dtype(dtype).itemsize if shards is None else 0
        self.is_infilled = filling is not None and index.is_infilled

    def __reduce__(self) -> tuple[type[RecordColumn], tuple[Any, ...]]:
        """Pickle as its arguments: the other process makes its own handle."""
        return RecordColumn, self._made_of

    @lazy
    def mean_row_bytes(self) -> int:
        """Approximate bytes of a row in memory."""
        return int(self.handle.mean_row_bytes)

    def read_page(self, page: int) -> _core.ArrowArray:
        """Read the rows of a page."""
        return self.handle.read_page(page)
