"""Values of columns as keys: which rows have one of the keys that are listed.

Two values are equal if they are the same, and null equals null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array

__all__ = ["EVERYWHERE", "DeletedKeys"]

EVERYWHERE = 0
"""Scope of keys that apply to rows of all partitions."""


class _KeyColumn(NamedTuple):
    """One column of keys."""

    values: Any
    """Different values, as an Arrow array; None for scopes."""
    size: int
    """Number of different values."""
    pairs: Int64Array
    """Pairs of the columns before and this one, as rising numbers."""


class DeletedKeys:
    """Deleted keys, of one or more columns; each has a scope and a time.

    Args:
        columns: Arrow arrays of the values: one of each column.
        scopes: Number of the partition that each key applies to.
        times: Time at which each key was deleted; of equal keys, the latest counts.
    """

    def __init__(
        self, columns: Sequence[Any], scopes: Int64Array, times: Int64Array
    ) -> None:
        from pyarrow import compute

        self._parts: list[_KeyColumn] = []
        code = np.zeros(len(times), dtype=np.int64)
        values = [compute.unique(column) for column in columns]
        coded = [_codes(*pair) for pair in zip(columns, values, strict=True)]
        for each, numbers in zip([*values, None], [*coded, scopes], strict=True):
            size = int(numbers.max(initial=0)) + 1
            pairs, code = np.unique(code * size + numbers, return_inverse=True)
            self._parts.append(_KeyColumn(each, size, pairs))
        self._times = np.full(len(self._parts[-1].pairs), -1, dtype=np.int64)
        np.maximum.at(self._times, code, times)

    def times_of(self, columns: Sequence[Any], scopes: Int64Array) -> Int64Array:
        """Return when the key of each row was last deleted; -1 if never.

        Args:
            columns: The values of the rows, of the same types.
            scopes: Scope of each row; -1 if it has none. Keys that apply everywhere
                count for every row.
        """
        found = np.full(len(scopes), -1, dtype=np.int64)
        rows = np.arange(len(scopes))
        code = np.zeros(len(scopes), dtype=np.int64)
        *parts, of_scope = self._parts
        for part, column in zip(parts, columns, strict=True):
            numbers = _codes(column.take(rows), part.values)
            held, code = _places(part, code, numbers)
            rows, code = rows[held], code[held]
        for numbers in (np.full(len(rows), EVERYWHERE), scopes[rows]):
            held, place = _places(of_scope, code, numbers)
            found[rows[held]] = np.maximum(found[rows[held]], self._times[place[held]])
        return found


def _codes(column: Any, values: Any) -> Int64Array:
    """Return the position of each value in ``values``; -1 if it is not in there."""
    from pyarrow import compute

    found = compute.index_in(column.cast(values.type), value_set=values)
    found = compute.fill_null(found, -1)
    return np.asarray(found).astype(np.int64)


def _places(
    part: _KeyColumn, before: Int64Array, numbers: Int64Array
) -> tuple[Any, Int64Array]:
    """Return which pairs exist, and the position of each."""
    if not len(part.pairs):
        return np.zeros(len(numbers), dtype=np.bool_), numbers
    wanted = before * part.size + numbers
    place = np.minimum(np.searchsorted(part.pairs, wanted), len(part.pairs) - 1)
    is_known = (numbers >= 0) & (numbers < part.size)
    return is_known & (part.pairs[place] == wanted), place
