"""Flat files as a dataset: one column of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pagefeed._base import check_column
from pagefeed.dataset.aligned import AlignedColumn, AlignedSource
from pagefeed.dataset.flat.flat_file import FlatFormat
from pagefeed.dataset.flat.flat_recipe import FlatRecipe
from pagefeed.dataset.flat.output import Output
from pagefeed.dataset.index_recipe import cache_folder
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.rows import DatasetRows
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

    Made by :func:`tokens`, :func:`megatron`, :func:`mds` and :func:`stream`. Sequences,
    shuffles, mixtures, states and reports treat it like any other dataset.
    """

    format: FlatFormat
    """How the files are read."""

    @property
    def verify_checksums(self) -> bool:
        """Whether checksums of pages are verified: flat files have none."""
        return False

    @property
    def aligned_sources(self) -> tuple[AlignedSource, ...]:
        """The numbers of :attr:`aligned`, beside the tokens."""
        return ()

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

    def source_of(self, column: str) -> PageIndex:
        """Return the pages of a column, see :meth:`column_index`."""
        return self.column_index(column)


class TokenFormat(NamedTuple):
    """A format of token files."""

    reader: Callable[..., Any]
    """Names a dataset of such files; its parameters describe them."""
    writer: type[Output]
    """Writes such files; has the ends of their names."""


Kind = TypeVar("Kind", bound=FlatDataset)


def flat_dataset(
    kind: type[Kind],
    files: Sequence[str],
    how: FlatFormat,
    *,
    column: str,
    cache_dir: PathLike | None,
    aligned: tuple[AlignedColumn, ...] = (),
    span_columns: tuple[str, ...] = (),
) -> Kind:
    """Return a dataset of files; checks the arguments that all formats have."""
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
