"""Values of columns as keys: which rows have one of the keys that are listed.

Two values are equal if they are the same, and null equals null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array

EVERYWHERE = 0
"""Scope of keys that apply to rows of all partitions."""


class _KeyColumn(NamedTuple):
    """One column of keys."""

    values: Any
    """Different values, as an Arrow array; None for scopes."""
    size: int
    """Number of different values."""
    pairs: Int64Array
    """Pairs of the columns before and this one, as rising codes."""


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

        self._columns: list[_KeyColumn] = []
        code = np.zeros(len(times), dtype=np.int64)
        values = [compute.unique(column) for column in columns]
        coded = [_codes(*pair) for pair in zip(columns, values, strict=True)]
        for each, codes in zip([*values, None], [*coded, scopes], strict=True):
            size = int(codes.max(initial=0)) + 1
            pairs, code = np.unique(code * size + codes, return_inverse=True)
            self._columns.append(_KeyColumn(each, size, pairs))
        self._times = np.full(len(self._columns[-1].pairs), -1, dtype=np.int64)
        np.maximum.at(self._times, code, times)

    def times_of(self, columns: Sequence[Any], scopes: Int64Array) -> Int64Array:
        """Return when the key of each row was last deleted; -1 if never.

        Args:
            columns: The values of the rows, of the same types.
            scopes: Scope of each row; -1 if it has none. Keys that apply everywhere
                count for every row.
        """
        times = np.full(len(scopes), -1, dtype=np.int64)
        rows = np.arange(len(scopes))
        code = np.zeros(len(scopes), dtype=np.int64)
        *key_columns, of_scope = self._columns
        for key_column, column in zip(key_columns, columns, strict=True):
            codes = _codes(column.take(rows), key_column.values)
            held, code = _indices(key_column, code, codes)
            rows, code = rows[held], code[held]
        for codes in (np.full(len(rows), EVERYWHERE), scopes[rows]):
            held, index = _indices(of_scope, code, codes)
            times[rows[held]] = np.maximum(times[rows[held]], self._times[index[held]])
        return times


def _codes(column: Any, values: Any) -> Int64Array:
    """Return the position of each value in ``values``; -1 if it is not in there."""
    from pyarrow import compute

    codes = compute.index_in(column.cast(values.type), value_set=values)
    codes = compute.fill_null(codes, -1)
    return np.asarray(codes).astype(np.int64)


def _indices(
    key_column: _KeyColumn, before: Int64Array, codes: Int64Array
) -> tuple[Any, Int64Array]:
    """Return which pairs exist, and the index of each."""
    if not len(key_column.pairs):
        return np.zeros(len(codes), dtype=np.bool_), codes
    wanted = before * key_column.size + codes
    index = np.minimum(
        np.searchsorted(key_column.pairs, wanted), len(key_column.pairs) - 1
    )
    is_known = (codes >= 0) & (codes < key_column.size)
    return is_known & (key_column.pairs[index] == wanted), index
