"""What sequences, runs and reports ask of an index of pages, of whatever kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy.typing as npt

from pagefeed._base import Int64Array, UInt32Array
from pagefeed._core import ArrowArray, Index
from pagefeed.dataset.folders import FolderColumn
from pagefeed.storage import Storage

__all__ = ["BlockKind", "ColumnPages", "Page", "Pieces", "TokenIndex"]

BlockKind = Literal["page", "row_group"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Where one page lies."""

    file: str
    """Path of the file."""
    row_group: int
    """Row group in the file."""
    page: int
    """Number of the data page within its column chunk."""
    first_row: int
    """First row that begins in the page, counted within the file."""
    num_rows: int
    """Rows that begin in the page."""
    offset: int
    """Offset of the page header in the file, in bytes."""
    compressed_size: int
    """Header and data as stored, in bytes; without the dictionary page."""


Pieces = tuple[Int64Array, Int64Array, UInt32Array, UInt32Array, UInt32Array]
"""Ranges of tokens cut at the ends of pages: what :class:`SpanParts` calls by name."""


class ColumnPages(Protocol):
    """Pages in which the rows of one column lie, numbered through.

    A page is what the data plane loads at once; rows belong to the page they begin in.
    """

    @property
    def handle(self) -> Any:  # noqa: ANN401 - the core's, of one kind or another
        """The column as the data plane takes it."""

    @property
    def num_rows(self) -> int:
        """Number of rows in all files."""

    @property
    def num_values(self) -> int:
        """Number of values: the tokens of a token column."""

    @property
    def value_bytes(self) -> int:
        """Bytes of one value in the column's own type; 0 if it is not a number."""

    @property
    def mean_row_bytes(self) -> int:
        """Bytes of a row in memory, about."""

    @property
    def file_first_value(self) -> Int64Array:
        """First value of each file, and the number of values: int64 [files + 1]."""

    def __len__(self) -> int:
        """Return the number of pages."""

    def first_rows(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``pages``; ``len(self)`` gives them all."""

    def pages_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the page in which each of ``rows`` begins."""

    def locate(self, page: int) -> Page:
        """Return where a page lies."""

    def row_offsets(self, page: int) -> Int64Array:
        """Return where the rows of a page begin in its tokens: int64 [rows + 1]."""

    def read_page(self, page: int) -> ArrowArray:
        """Read and decode one page, as an Arrow array of its rows."""


class TokenIndex(ColumnPages, Protocol):
    """An index of the rows of one column, and of its files."""

    @property
    def handle(self) -> Index:
        """The index as the data plane takes it."""

    @property
    def storage(self) -> Storage:
        """Where the files lie."""

    @property
    def column(self) -> str:
        """The column as it was asked for."""

    @property
    def files(self) -> list[str]:
        """Names of the files, in order."""

    @property
    def fingerprint(self) -> str:
        """What identifies the contents, wherever they lie."""

    @property
    def cache_dir(self) -> str | None:
        """Folder of what is derived from the index; None if there is none."""

    @property
    def file_first_page(self) -> Int64Array:
        """First page of each file, and the number of pages: int64 [files + 1]."""

    @property
    def file_first_row(self) -> Int64Array:
        """First row of each file, and the number of rows: int64 [files + 1]."""

    @property
    def folder_columns(self) -> Mapping[str, FolderColumn]:
        """Columns that lie in the names of folders (``lang=en/``), by their names."""

    @property
    def null_pages(self) -> Int64Array:
        """Pages in which a list holds a null: int64, rising."""

    @property
    def is_joined(self) -> bool:
        """Whether nothing is known of documents: a file is one row.

        Every page, a part of that row, counts as one.
        """

    def stored_bytes(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the stored bytes of ``pages``, each with its share of a dictionary."""

    def file_identity(self, file: int) -> bytes:
        """Return what tells the contents of a file from those of others."""

    def first_values(self, pages: npt.ArrayLike) -> Int64Array:
        """Return the values before each of ``pages``; ``len(self)`` gives them all."""

    def files_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of the file of each of ``rows``."""

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> Pieces:
        """Cut ranges of tokens, none of them empty, at the ends of pages."""

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first page of each run that a shuffle moves as one.

        None if every page is a run.
        """

    def find_file(self, path: str) -> int | None:
        """Return the number of a file of the index; None if it is none of them."""

    def check_files(self) -> None:
        """Refuse files that are not as they were indexed.

        Raises:
            StaleFileError: For the first file that changed.
            MissingFileError: For the first that is gone.
        """
