"""Rows as plain Python values: for a look at a dataset, not for training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from pagefeed._base import check_whole, require
from pagefeed.dataset.aligned import Aligned
from pagefeed.dataset.folders import FolderColumn
from pagefeed.dataset.spans import Spans
from pagefeed.dataset.token_index import ColumnPages
from pagefeed.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["RowSource", "checked_row", "rows_at"]

Row = dict[str, Any]


class RowSource(Protocol):
    """What has rows of several columns: a dataset."""

    @property
    def column(self) -> str:
        """The column that is fed."""

    @property
    def metadata(self) -> tuple[str, ...]:
        """Further columns of the same rows."""

    @property
    def span_columns(self) -> tuple[str, ...]:
        """Columns of ranges of tokens."""

    @property
    def aligned(self) -> tuple[Aligned, ...]:
        """Columns with a number for every token."""

    @property
    def spans(self) -> Spans:
        """The rows."""

    def source_of(self, column: str) -> ColumnPages | FolderColumn:
        """Return where any column of the same rows comes from."""


def checked_row(number: object, num_rows: int) -> int:
    """Return the number of a row, of one counted from the end too.

    Raises:
        OutOfRangeError: If there is no such row.
        InvalidArgumentError: If it is no number.
    """
    if isinstance(number, slice):
        raise InvalidArgumentError(
            "a dataset gives one row at a time: dataset[3]; dataset.head(n) gives the "
            "first n, and iter(dataset) one after the other"
        )
    row = check_whole(number, "row")
    if not -num_rows <= row < num_rows:
        raise OutOfRangeError(f"row {row} is out of range: there are {num_rows:,} rows")
    return row % num_rows


def rows_at(dataset: RowSource, numbers: Iterable[int]) -> Iterator[Row]:
    """Yield rows; of neighbours a page is read once.

    Args:
        dataset: Where they are.
        numbers: Numbers of rows there are, counted through the dataset.

    Raises:
        MissingDependencyError: If pyarrow, which makes the values, is not installed.
    """
    require("pyarrow", extra="pyarrow", purpose="showing rows")
    beside = (each.column for each in dataset.aligned)
    names = (dataset.column, *beside, *dataset.metadata, *dataset.span_columns)
    readers = {name: _Reader(name, dataset.source_of(name)) for name in names}
    spans = dataset.spans
    for number in numbers:
        [span] = spans.spans_of_rows([number])
        [page], [row] = spans.places([span])
        first = spans.index.first_rows([page]) + row
        # Rows are numbered through the files alike in all columns.
        [place] = first + number - spans.first_rows([span])
        [file] = spans.index.files_of_rows([place])
        yield {
            name: reader.value(int(place), int(file))
            for name, reader in readers.items()
        }


class _Reader:
    """Reads one column, and keeps the page that it read last."""

    def __init__(self, name: str, source: ColumnPages | FolderColumn) -> None:
        self._inner = name.split(".")[1:]
        self._source = source
        self._page = -1
        self._values: Any = None

    def value(self, row: int, file: int) -> Any:  # noqa: ANN401 - as the file has it
        """Return the value of a row, numbered through the files."""
        if isinstance(self._source, FolderColumn):
            return self._source.value_of_file(file)
        [page] = self._source.pages_of_rows([row])
        if page != self._page:
            pyarrow = require("pyarrow", extra="pyarrow", purpose="showing rows")
            self._values = pyarrow.array(self._source.read_page(int(page)))
            self._page = int(page)
        [first] = self._source.first_rows([page])
        found = self._values[int(row - first)].as_py()
        for field in self._inner:  # A path leads through structs to what was asked for.
            if not isinstance(found, dict) or field not in found:
                break
            found = found[field]
        return found
