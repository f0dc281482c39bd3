"""Pages of a column of the user's rows: each row, which can be read alone, is one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, Work, require
from pagefeed.errors import DataError, UnsupportedError
from pagefeed.made import Layout, MadePages, is_list, num_leaves
from pagefeed.own_rows.collate import is_tensor
from pagefeed.own_rows.given import Given

_AT_ONCE = 1024
_LOOKED_AT = 128
"""Rows in which the first value that is not None says the type of a column."""


class RowPages(MadePages):
    """The pages of a column.

    Args:
        given: The rows.
        column: The column; None for rows of which no column is read.
        lengths: Values of each row; None to count them, once.
        identity: Text that differs between rows with different contents.
        file_rows: Number of rows of each file.
    """

    def __init__(
        self,
        given: Given,
        column: str | None,
        lengths: Int64Array | None,
        identity: str,
        file_rows: Sequence[int],
    ) -> None:
        self._given, self._column, self._lengths = given, column, lengths
        self._identity, self._file_rows = identity, file_rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without what was found."""
        made_of = (self._given, self._column, self._lengths, self._identity)
        return RowPages, (*made_of, self._file_rows)

    @property
    def settings(self) -> list[str]:
        """Everything that the layout depends on, except the files."""
        lengths = b"" if self._lengths is None else self._lengths.tobytes()
        digest = hashlib.blake2b(lengths, digest_size=16).hexdigest()
        return [self._identity, str(self._column), str(self._file_rows), digest]

    def find(self) -> Layout:
        """Find the type of the column, and the values of each row."""
        like = None if self._column is None else self._like(self._column)
        counts = np.ones(self._given.num_rows, np.int64)
        if like is not None and is_list(like.type):
            counts = self._lengths if self._lengths is not None else self._counted(like)
        size = 8 * np.maximum(counts, 1)
        return Layout(
            name=self._column or "rows",
            like=like,
            file_pages=[*self._file_rows],
            digests=[b""] * len(self._file_rows),
            offset=np.concatenate(
                [np.cumsum(own) - own for own in self._of_files(size)]
            ),
            size=size,
            num_rows=np.ones_like(counts),
            num_values=counts,
        )

    def _of_files(self, numbers: Int64Array) -> list[Int64Array]:
        return np.split(numbers, np.cumsum(self._file_rows)[:-1])

    def _like(self, column: str) -> Any:
        pa = require_pyarrow()
        for number in range(min(_LOOKED_AT, self._given.num_rows)):
            value = self._value(number, column)
            if value is not None and not (isinstance(value, list) and not value):
                kind = pa.array([value]).type
                if is_list(kind) and pa.types.is_integer(kind.value_type):
                    break
                return pa.array([], kind)
        return pa.array([], pa.list_(pa.int64()))

    def _counted(self, like: Any) -> Int64Array:
        """Read all rows, once, and count their values."""
        counts, pa = np.empty(self._given.num_rows, np.int64), require_pyarrow()
        with Work("lengths of rows", total=len(counts), unit="rows") as work:
            for first in range(0, len(counts), _AT_ONCE):
                numbers = [*range(first, min(first + _AT_ONCE, len(counts)))]
                for number, row in zip(numbers, self._given.take(numbers), strict=True):
                    value = self._cell(number, row, str(self._column))
                    counts[number] = num_leaves(pa.array([value], like.type))
                work.advance(len(numbers))
        return counts

    def _value(self, number: int, column: str) -> Any:
        [row] = self._given.take([number])
        return self._cell(number, row, column)

    def _cell(self, number: int, row: Any, column: str) -> Any:
        value = self._given.cell(number, row, column)
        return value.numpy() if is_tensor(value) else value

    def make(self, page: int) -> Any:
        """Return a row: the page of its number."""
        pa, layout, column = require_pyarrow(), self.layout, self._column
        if column is None:
            raise UnsupportedError(
                f"{self._given.name}: name the column to read, by rows(..., column=)"
            )
        value = self._value(page, column)
        try:
            array = pa.array([value], layout.like.type)
        except (TypeError, ValueError, OverflowError, NotImplementedError) as problem:
            raise DataError(
                f"{self._given.name}: row {page}: {column!r} is no "
                f"{layout.like.type}: {problem}"
            ) from problem
        expected = int(layout.num_values[page])
        if is_list(array.type) and (found := num_leaves(array)) != expected:
            raise DataError(
                f"{self._given.name}: row {page} has {found} values in {column!r}, and "
                f"lengths= says {expected}: give the lengths of these rows"
            )
        return array


def require_pyarrow() -> Any:
    """Return pyarrow, which makes arrays of rows."""
    return require("pyarrow", extra="pyarrow", purpose="a column of rows")
