"""The user's rows: taken by their numbers, with errors that name the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pagefeed.core._base import near_name
from pagefeed.errors import ColumnNotFoundError, DataError, InvalidArgumentError

WHOLE = "row"
"""Column of rows that are neither dicts nor tuples: the row itself."""


class AnyRows(Protocol):
    """Objects with a length and rows by number."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def __getitem__(self, row: int, /) -> Any:
        """Return a row."""


class Given:
    """Rows of an object of the user.

    Args:
        rows: The object. A row of a pandas, polars or pyarrow table is a dict.
        name: Name of the rows in locations and errors; that of the type by default.

    Raises:
        InvalidArgumentError: If it has no length, or no rows by number.
    """

    def __init__(self, rows: AnyRows, name: str | None = None) -> None:
        self.name = name or f"rows of {type(rows).__name__}"
        self.rows = rows
        has_rows = {"__len__", "__getitem__"} <= {*dir(type(rows))}
        if isinstance(rows, Mapping | Iterator) or not has_rows:
            raise InvalidArgumentError(
                f"rows={type(rows).__name__}: expected an object with len() and rows "
                "by number, such as a list, a table or a map-style dataset of torch"
            )
        self.num_rows = self._count()

    def _count(self) -> int:
        try:
            return len(self.rows)
        except Exception as problem:
            raise InvalidArgumentError(
                f"{self.name}: len() raised {type(problem).__name__}: {problem}: give "
                "an object whose length is known and not negative"
            ) from problem

    def take(self, numbers: list[int]) -> list[Any]:
        """Return rows by their numbers, in this order.

        Raises:
            DataError: If the object raised; it names the row.
        """
        if (now := self._count()) != self.num_rows:
            raise self._error(
                f"had {self.num_rows} rows when the dataset was made, and has {now} "
                "now: leave it as it is while a loader reads it",
                numbers[0] if numbers else None,
            )
        try:
            found = self._taken(numbers)
        except Exception as problem:
            for number in numbers if len(numbers) > 1 else ():
                self.take([number])  # The row that raises is the one to name.
            raise self._error(
                f"row {numbers[0]}: {type(problem).__name__}: {problem}: correct the "
                "row, or pass over it by loader.skip(error.steps)",
                numbers[0],
            ) from problem
        if len(found) != len(numbers):
            raise self._error(
                f"{len(numbers)} rows were asked for, from row {numbers[0]} on, and "
                f"__getitems__ returned {len(found)}",
                numbers[0],
            )
        return found

    def _taken(self, numbers: list[int]) -> list[Any]:
        rows: Any = self.rows
        library, name = type(rows).__module__.partition(".")[0], type(rows).__name__
        if (library, name) == ("pandas", "DataFrame"):
            some = rows.iloc[numbers]
            columns = [some[name].tolist() for name in some.columns]
            names = [*map(str, some.columns)]
            return [
                dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)
            ]
        if (library, name) == ("pyarrow", "Table"):
            return [*rows.take(numbers).to_pylist()]
        if (library, name) == ("polars", "DataFrame"):
            return [*rows[numbers].to_dicts()]
        if hasattr(rows, "__getitems__"):
            return [*rows.__getitems__(numbers)]
        return [rows[number] for number in numbers]

    def _error(self, what: str, row: int | None) -> DataError:
        error = DataError(f"{self.name}: {what}")
        return error.at(file=self.name, row_group=0, row=row)

    def cell(self, number: int, row: Any, column: str) -> Any:
        """Return the value of a column in a row.

        Raises:
            ColumnNotFoundError: If the row lacks it; lists the columns it has.
        """
        columns = columns_of(row)
        if column not in columns:
            names = [*map(str, columns)]
            raise ColumnNotFoundError(
                f"{self.name}: row {number} has no column {column!r}"
                f"{near_name(column, names)}; it has {names}"
            ).at(file=self.name, column=column, row_group=0, row=number)
        return columns[column]


def columns_of(row: Any) -> Mapping[str, Any]:
    """Return the columns of a row: keys of a dict, fields or places of a tuple.

    Example:
        >>> columns_of((7, "a"))
        {'0': 7, '1': 'a'}
    """
    if isinstance(row, Mapping):
        return row
    if isinstance(row, tuple):
        names = getattr(row, "_fields", map(str, range(len(row))))
        return dict(zip(names, row, strict=True))
    return {WHOLE: row}
