"""Pages that are made when they are read, and the recipe of their index."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pagefeed import _core
from pagefeed.core._base import Int64Array, lazy, require
from pagefeed.core.dataset import Recipe
from pagefeed.core.storage import Storage
from pagefeed.errors import PagefeedError

VERSION = 1


class Layout(NamedTuple):
    """The pages of a column in all files, one file after another."""

    name: str
    """Name of the top-level column."""
    like: Any
    """Array of its type, as pyarrow has it; without rows. None of texts."""
    file_pages: list[int]
    """Number of pages of each file."""
    digests: list[bytes]
    """16 bytes for each file that differ between files with different contents."""
    offset: Int64Array
    """Offset of each page in its file; pages do not overlap: int64 [pages]."""
    size: Int64Array
    """Bytes of each page, at least as many as the column has leaves: int64 [pages]."""
    num_rows: Int64Array
    """Rows of each page, 1 or more: int64 [pages]."""
    num_values: Int64Array
    """Values of its lists, or its rows: int64 [pages]."""


class MadePages(ABC):
    """The pages of one column. Threads of the data plane call :meth:`read`."""

    @property
    @abstractmethod
    def settings(self) -> list[str]:
        """Everything that the layout depends on, except the files."""

    @abstractmethod
    def find(self) -> Layout:
        """Find the pages."""

    @abstractmethod
    def make(self, page: int) -> Any:
        """Return the rows of a page: an Arrow array of the type of the layout."""

    @lazy
    def layout(self) -> Layout:
        """The pages, found once."""
        return self.find()

    def read(self, files: Sequence[str], file: str, place: int) -> tuple[Any, int]:
        """Return the array that has a leaf at a place of a file, and the leaf."""
        number, first, counts = files.index(file), 0, self.layout.file_pages
        first = sum(counts[:number])
        offsets = self.layout.offset[first : first + counts[number]]
        page = int(np.searchsorted(offsets, place, side="right")) - 1
        try:
            return self.make(first + page), place - int(offsets[page])
        except PagefeedError:
            raise
        except Exception as problem:
            raise RuntimeError(f"{type(problem).__name__}: {problem}") from problem


class MadeStorage(Storage):
    """A storage whose pages are made.

    Args:
        pages: The pages of a column.
        files: Names of the files, in order.
        is_of_files: Whether these are files of this machine, which may change.
    """

    handle: Any

    def __init__(
        self, pages: MadePages, files: Sequence[str], *, is_of_files: bool
    ) -> None:
        self._made_of, self._is_of_files = (pages, files), is_of_files
        self.handle = _core.MadePages(partial(pages.read, files), is_of_files)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what it was made of."""
        make = partial(MadeStorage, is_of_files=self._is_of_files)
        return make, self._made_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MadeStorage) and self._made_of == other._made_of

    __hash__ = Storage.__hash__

    def name_of(self, path: str) -> str:
        """Return the name of a file, as the dataset has it."""
        return super().name_of(path) if self._is_of_files else path

    def size(self, file: str) -> int:
        """Return the size of a file in bytes; 0 if it does not exist."""
        return super().size(file) if self._is_of_files else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeRecipe(Recipe):
    """Recipe of the index of a column whose pages are made."""

    pages: MadePages

    @property
    def settings(self) -> list[str]:
        """Everything that the index depends on, except the files."""
        return [f"made {VERSION}", self.column, *self.pages.settings]

    def build(self, num_threads: int, advance: Callable[[int], object]) -> _core.Index:  # noqa: ARG002
        """Find the pages."""
        layout = self.pages.layout
        advance(len(self.files))
        made: Any = self.storage.handle
        return _core.made_index(
            made,
            self.files,
            [self.file_identity(self.storage, n) for n in range(len(self.files))],
            layout.file_pages,
            self.column,
            (layout.name, layout.like),
            [layout.offset, layout.size, layout.num_rows, layout.num_values],
        )

    def file_identity(self, storage: Storage, file: int) -> bytes:  # noqa: ARG002
        """Return bytes that differ between files with different contents."""
        layout = self.pages.layout
        first = sum(layout.file_pages[:file])
        own = slice(first, first + layout.file_pages[file])
        kind = "string" if layout.like is None else layout.like.type
        about = f"{self.settings} {kind}".encode()
        digest = hashlib.blake2b(about + layout.digests[file], digest_size=16)
        for numbers in (layout.num_rows, layout.num_values):
            digest.update(numbers[own].tobytes())
        return digest.digest()


def num_leaves(array: Any) -> int:
    """Return the values of the innermost lists of an array that are not null."""
    while is_list(array.type):
        array = array.flatten()
    return len(array) - int(array.null_count)


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is a list of any kind."""
    types = require("pyarrow.types", extra="pyarrow", purpose="lists of rows")
    kinds = types.is_list, types.is_large_list, types.is_fixed_size_list
    return any(is_kind(kind) for is_kind in kinds)
