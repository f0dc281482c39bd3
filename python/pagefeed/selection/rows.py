"""Rows as plain Python values, to look at a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from pagefeed.core._base import check_whole, require
from pagefeed.core.dataset import (
    FolderColumn,
    PageIndex,
    Spans,
)
from pagefeed.errors import InvalidArgumentError, OutOfRangeError


def checked_row(asked: object, num_rows: int) -> int:
    """Return the number of a row; a negative one counts from the end.

    Raises:
        OutOfRangeError: If there is no such row.
        InvalidArgumentError: If ``row`` is not a number.
    """
    if isinstance(asked, slice):
        raise InvalidArgumentError(
            "a dataset gives one row at a time: dataset[3]; dataset.head(n) gives the "
            "first n, and iter(dataset) gives all of them in turn"
        )
    row = check_whole(asked, "row")
    if not -num_rows <= row < num_rows:
        raise OutOfRangeError(f"row {row} is out of range: there are {num_rows:,} rows")
    return row % num_rows


def rows_at(
    columns: Mapping[str, PageIndex | FolderColumn],
    spans: Spans,
    numbers: Iterable[int],
) -> Iterator[dict[str, Any]]:
    """Yield rows; a page that several neighbours share is read once.

    Rows that were erased have no value.

    Args:
        columns: What to read of each row.
        spans: The rows of the dataset.
        numbers: Numbers of rows, counted over ``spans``.

    Raises:
        MissingDependencyError: If pyarrow, which makes the values, is not installed.
    """
    require("pyarrow", extra="pyarrow", purpose="showing rows")
    readers = {name: _Reader(name, column) for name, column in columns.items()}
    for row_of_dataset in numbers:
        if spans.erased is not None and spans.erased.holds(np.array(row_of_dataset)):
            yield dict.fromkeys(columns)
            continue
        # Rows have the same numbers in all columns.
        [row] = spans.rows_of_index([row_of_dataset]).tolist()
        [file] = spans.index.files_of_rows([row]).tolist()
        yield {name: reader.value(row, file) for name, reader in readers.items()}


class _Reader:
    """Reads one column, and keeps the page that it read last."""

    def __init__(self, name: str, source: PageIndex | FolderColumn) -> None:
        self._inner = name.split(".")[1:]
        self._source = source
        self._page = -1
        self._values: Any = None

    def value(self, row: int, file: int) -> Any:
        """Return the value of a row, numbered through the files."""
        if isinstance(self._source, FolderColumn):
            return self._source.value_of_file(file)
        [page] = self._source.pages_of_rows([row])
        if page != self._page:
            pyarrow = require("pyarrow", extra="pyarrow", purpose="showing rows")
            self._values = pyarrow.array(self._source.read_page(int(page)))
            self._page = int(page)
        [first] = self._source.first_rows([page])
        value = self._values[int(row - first)].as_py()
        for field in self._inner:  # A path leads through structs to what was asked for.
            if not isinstance(value, dict) or field not in value:
                break
            value = value[field]
        return value
