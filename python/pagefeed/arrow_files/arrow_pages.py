"""Pages of Arrow files: runs of integers as they lie, other columns as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pagefeed.arrow_files.mapped_column import MappedColumn
from pagefeed.core._base import in_order, lazy
from pagefeed.core.storage import Storage
from pagefeed.errors import UnsupportedError
from pagefeed.flat import (
    FilePages,
    FlatFile,
    FlatFormat,
    Records,
    document_pages,
    sampled_digest,
)
from pagefeed.made import Layout, MadePages, num_leaves

_PAGE_BYTES = 64 << 10


class ArrowPages(MadePages):
    """Pages of a column of Arrow files; a page is some rows of a record batch.

    Args:
        files: The files, in order.
        column: The column.
    """

    def __init__(self, files: Sequence[str], column: str) -> None:
        self._files, self._column = files, column

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what was read."""
        return ArrowPages, (self._files, self._column)

    @property
    def settings(self) -> list[str]:
        """Everything that the layout depends on, except the files."""
        return ["arrow"]

    @lazy
    def opened(self) -> list[MappedColumn]:
        """The files.

        Raises:
            UnsupportedError: If two files have the column in different types.
        """
        opened = [*in_order(lambda file: MappedColumn(file, self._column), self._files)]
        for other in opened:
            if other.type != opened[0].type:
                raise UnsupportedError(
                    f"{other.path}: column {self._column!r} is {other.type}, and "
                    f"{opened[0].type} in {self._files[0]}: make a dataset of each "
                    "kind of files, and mix them"
                ).at(file=other.path, column=self._column)
        return opened

    @property
    def are_runs(self) -> bool:
        """Whether all rows are integers that lie in the files one after another."""
        return all(
            file.run(batch) is not None
            for file in self.opened
            for batch in range(len(file))
        )

    def find(self) -> Layout:
        """Find the pages."""
        pages = list[tuple[int, ...]]()
        file_pages = list[int]()
        self._places = list[tuple[MappedColumn, int, int, int]]()
        for file in self.opened:
            place = 0
            for batch in range(len(file)):
                rows = file.rows(batch)
                parts = (
                    max(1, rows.nbytes // _PAGE_BYTES) if file.lie_mapped(rows) else 1
                )
                step = max(1, -(-len(rows) // parts))
                for first in range(0, len(rows), step):
                    some = rows.slice(first, step)
                    size = some.nbytes + 256  # Each leaf has its place.
                    values = num_leaves(some) if file.is_list else len(some)
                    pages.append((place, size, len(some), values))
                    self._places.append((file, batch, first, first + len(some)))
                    place += size
            file_pages.append(len(pages) - sum(file_pages))
        return Layout(
            self._column,
            self.opened[0].empty,
            file_pages,
            [sampled_digest(Storage(), file) for file in self._files],
            *np.array(pages, np.int64).reshape(-1, 4).T.copy(),
        )

    def make(self, page: int) -> Any:
        """Read the rows of a page."""
        file, batch, first, stop = self._places[page]
        return file.slice(batch, first, stop)


class ArrowFormat(FlatFormat):
    """The runs of integers in a column of Arrow files, as flat files.

    Args:
        column: Name of the column.
    """

    __slots__ = ("_column",)

    def __init__(self, column: str) -> None:
        self._column = column

    def __repr__(self) -> str:
        return f"ArrowFormat({self._column!r})"

    def read(self, storage: Storage, path: str) -> FlatFile:  # noqa: ARG002
        """Find the tokens and documents of a file."""
        file = MappedColumn(path, self._column)
        size = file.type.value_type.bit_width // 8
        runs = [run for batch in range(len(file)) if (run := file.run(batch))]
        each = [document_pages(begin, [lengths], size) for begin, lengths in runs]
        each.append(document_pages(0, [], size))
        pages = FilePages(*map(np.concatenate, zip(*each, strict=True)))
        return Records(str(file.type.value_type), size), pages
