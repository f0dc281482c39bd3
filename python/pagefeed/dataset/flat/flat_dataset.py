"""Flat files as a dataset: one column of tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from pagefeed._base import check_column, lazy
from pagefeed.dataset.aligned import Aligned, AlignedSource
from pagefeed.dataset.flat.flat_file import FlatFormat
from pagefeed.dataset.flat.flat_recipe import FlatRecipe
from pagefeed.dataset.flat.output import Output
from pagefeed.dataset.index_recipe import CACHE_DIR_VARIABLE, build_or_open
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.rows import DatasetRows
from pagefeed.dataset.select import Selection
from pagefeed.dataset.token_index import ColumnPages
from pagefeed.errors import (
    ColumnNotFoundError,
    InvalidArgumentError,
    UnsupportedError,
)
from pagefeed.storage import PathLike, local_path

__all__ = ["FlatDataset", "TokenFormat", "flat_dataset"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FlatDataset(DatasetRows):
    """Flat token files read as one dataset.

    Made by :func:`tokens`, :func:`megatron`, :func:`mds` and :func:`stream`; for
    sequences, shuffles, mixtures, states and reports a dataset like any other.
    """

    files: tuple[str, ...]
    """Absolute paths of the files with the tokens, in the order of the dataset."""
    column: str
    """What the tokens are called."""
    format: FlatFormat
    """How the files are read."""
    cache_dir: str | None = None
    """Folder of the index."""
    metadata: tuple[str, ...] = ()
    """Further columns of the same rows: none."""
    span_columns: tuple[str, ...] = ()
    """Columns of ranges of tokens: the spans of streams."""
    aligned: tuple[Aligned, ...] = ()
    """Columns with a number for every token: fields of the records of streams."""
    selection: Selection | None = None
    """The rows, if these are not all rows of the files."""

    @property
    def verify_checksums(self) -> bool:
        """Whether checksums of pages are verified: they have none."""
        return False

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """Where the numbers of :attr:`aligned` lie, beside those of tokens."""
        return ()

    @lazy
    def index(self) -> PageIndex:
        """Where the tokens lie: an index of pages, built or opened on first use."""
        if self.selection is not None:
            return cast("PageIndex", self.selection.index)
        folder = self.cache_dir or os.environ.get(CACHE_DIR_VARIABLE)
        recipe = FlatRecipe(
            files=self.files,
            column=self.column,
            cache_dir=local_path(folder, CACHE_DIR_VARIABLE) if folder else None,
            format=self.format,
        )
        return PageIndex(build_or_open(recipe, 1, refresh=False), recipe)

    def column_index(self, column: str) -> PageIndex:
        """Return the index of the column, which is the only one.

        Raises:
            ColumnNotFoundError: If another is meant.
            UnsupportedError: If it comes with the tokens, and not by itself.
        """
        others = (*(each.column for each in self.aligned), *self.span_columns)
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

    def source_of(self, column: str) -> ColumnPages:
        """Return where a column comes from, see :meth:`column_index`."""
        return self.column_index(column)


class TokenFormat(NamedTuple):
    """A format of token files."""

    reader: Callable[..., Any]
    """Names a dataset of such files; its parameters are what can be said of them."""
    writer: type[Output]
    """Writes such files, and says how their names end."""


Kind = TypeVar("Kind", bound=FlatDataset)


def flat_dataset(
    kind: type[Kind],
    files: Sequence[str],
    how: FlatFormat,
    *,
    column: str,
    cache_dir: PathLike | None,
    aligned: tuple[Aligned, ...] = (),
    span_columns: tuple[str, ...] = (),
) -> Kind:
    """Return the dataset of files in a format; checks the arguments all have."""
    if "." in check_column(column, "column"):
        raise InvalidArgumentError(f"column={column!r} is a name, without dots")
    return kind(
        files=tuple(files),
        column=column,
        format=how,
        aligned=aligned,
        span_columns=span_columns,
        cache_dir=None if cache_dir is None else local_path(cache_dir, "cache_dir"),
    )
