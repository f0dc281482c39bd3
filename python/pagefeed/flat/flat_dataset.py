"""Flat files as a dataset: one column of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pagefeed import _core
from pagefeed.core._base import lazy
from pagefeed.core.dataset import Dataset, PageIndex, cache_folder
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    UnsupportedError,
)
from pagefeed.flat.flat_file import FlatFormat
from pagefeed.flat.flat_recipe import FlatRecipe
from pagefeed.flat.output import Output
from pagefeed.parquet_files import Erasable, Infillable, Selectable

PayloadFiles = tuple[str, str]
"""For a shard: path of the payload index, path of the payloads."""


class RecordColumn(PageIndex):
    """A field of token records: numbers of the tokens, or ids of payloads of spans.

    It shares the pages of the tokens.

    Args:
        index: The index of the tokens.
        dtype: NumPy name of the type of the number; for spans that of payload ids.
        offset: Byte offset of the field in a record.
        width: How many numbers a record has.
        shards: Files of the payloads of spans; None for plain numbers.
        filling: Bits of the number that special tokens get in infilled documents. None
            leaves the rows as they are.
    """

    handle: Any

    def __init__(
        self,
        index: PageIndex,
        dtype: str,
        offset: int,
        width: int = 1,
        shards: tuple[PayloadFiles, ...] | None = None,
        filling: int | None = None,
    ) -> None:
        super().__init__(index.core, index.recipe)
        self._made_of = index, dtype, offset, width, shards, filling
        self.shards = shards
        self.handle = _core.RecordColumn(
            index.core,
            dtype,
            offset,
            width,
            None if shards is None else list(shards),
            filling,
        )
        self.value_bytes = 0 if shards is not None else width * np.dtype(dtype).itemsize
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


@dataclass(frozen=True, kw_only=True, repr=False)
class FlatDataset(Selectable, Erasable, Infillable):
    """Flat token files read as one dataset.

    Made by :func:`tokens`, :func:`megatron`, :func:`mds` and :func:`stream`. Sequences,
    shuffles, mixtures, states and reports treat it like any other dataset.
    """

    format: FlatFormat
    """Format of the files."""

    def __post_init__(self) -> None:
        Dataset.__post_init__(self)
        if "." in self.column:
            raise InvalidArgumentError(
                f"column={self.column!r} must be a name without dots"
            )

    def _plain_index(self) -> PageIndex:
        recipe = FlatRecipe(
            files=self.files,
            column=self.column,
            cache_dir=cache_folder(self.cache_dir),
            format=self.format,
        )
        return PageIndex.of(recipe, num_threads=1)

    def column_index(self, column: str) -> PageIndex:
        """Return the index of the token column, the only one with an index.

        Raises:
            ColumnNotFoundError: If there is no such column.
            UnsupportedError: If the column is part of the records of tokens.
        """
        others = (*(beside.column for beside in self.aligned), *self.span_columns)
        if column in others:
            raise UnsupportedError(
                f"{column!r} lies in the pages of {self.column!r}, next to the "
                f"tokens of {self.files[0]}: name {self.column!r}"
            )
        if column != self.column:
            raise ColumnNotFoundError(
                f"there is no column {column!r}: {self.files[0]} and the files with it "
                f"have {', '.join(map(repr, (self.column, *others)))}"
            )
        return self.index


class TokenFormat(NamedTuple):
    """A format of token files."""

    reader: Callable[..., Any]
    """Returns a dataset of such files; its parameters describe them."""
    writer: type[Output]
    """Writes such files, and knows their suffixes."""
