"""Flat files as a dataset: one column of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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

__all__ = ["FlatDataset", "TokenFormat"]


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
                f"{column!r} lies beside the tokens of {self.files[0]}, in pages of "
                f"{self.column!r}: name that one"
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
