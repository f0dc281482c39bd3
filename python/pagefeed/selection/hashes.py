"""Hashes of values, equal for ever and in every copy of the data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from pagefeed.errors import DataError, InvalidArgumentError
from pagefeed.selection.criteria import HASH_BITS, NO_PART, Labels, Scan, share_ends
from pagefeed.selection.query import Expression, Query, Schema, arrow, field_of
from pagefeed.selection.row_groups import RowGroups

_IS_NULL = NO_PART - 1
"""Part of rows without a value, until they are refused."""


@cache
def _register_hash(seed: int) -> str:
    """Register the hash of a seed as a function of pyarrow; return its name."""
    pa, name = arrow(), f"pagefeed.hash.{seed}"
    salt = seed.to_bytes(8, "little")
    begin = hashlib.blake2b(digest_size=8, person=b"pagefeed.hash", salt=salt)

    def digest(_: Any, values: Any) -> Any:
        found: list[int | None] = []
        for value in values.to_pylist():
            if value is not None:
                hashed = begin.copy()
                hashed.update(value)
                value = int.from_bytes(hashed.digest(), "little")  # noqa: PLW2901
            found.append(value)
        return pa.array(found, pa.uint64())

    about = {"summary": "A 64-bit hash", "description": "BLAKE2b of bytes"}
    register = arrow("pyarrow.compute").register_scalar_function
    register(digest, name, about, {"value": pa.large_binary()}, pa.uint64())
    return name


def hash_of(schema: Schema, column: str, seed: int) -> Expression:
    """Return the hash of a column's values: uint64, null where there is no value.

    It is the first 8 bytes, little-endian, of BLAKE2b (RFC 7693) of a text in UTF-8, of
    bytes as they are, or of an integer as decimal text; with a digest of 8 bytes, the
    person ``pagefeed.hash`` and the seed as 8 little-endian bytes of salt.

    Raises:
        ColumnNotFoundError: If the schema lacks the column.
        InvalidArgumentError: If it holds other values.
    """
    pa, pc, types = arrow(), arrow("pyarrow.compute"), arrow("pyarrow.types")
    field, kind = field_of(schema, column)
    if types.is_integer(kind):
        field = field.cast(pa.string())
    elif "string" not in str(kind) and "binary" not in str(kind):
        raise InvalidArgumentError(
            f"column {column!r} has type {kind}: texts, bytes and integers have a hash"
        )
    return pc.Expression._call(  # noqa: SLF001 - its documented way to user functions
        _register_hash(seed), [field.cast(pa.large_binary())]
    )


class _Shares(Query):
    """Divides rows by the hash of a column, in proportion to shares."""

    def __init__(self, column: str, seed: int, shares: Mapping[str, float]) -> None:
        self._column, self._seed = column, seed
        self._ends = share_ends(shares)
        self.text = f"a hash of {column}"
        self.key = f"hash {column!r} {seed} {self._ends.tolist()}"
        self.columns = (column,)

    def bind(self, schema: Schema) -> Expression:
        """Return the expression for files of a schema: int32."""
        pa, pc = arrow(), arrow("pyarrow.compute")
        hashed = hash_of(schema, self._column, self._seed)
        hashed = pc.shift_right(hashed, pa.scalar(64 - HASH_BITS, pa.uint64()))
        # The first end above the hash decides: compare from the last end to the first.
        part = pc.scalar(pa.scalar(NO_PART, pa.int32()))
        for number, end in reversed([*enumerate(self._ends.tolist())]):
            is_below = hashed < pa.scalar(end, pa.uint64())
            part = pc.if_else(is_below, pa.scalar(number, pa.int32()), part)
        return pc.if_else(hashed.is_null(), pa.scalar(_IS_NULL, pa.int32()), part)

    def prunes(self, schema: Schema) -> bool:  # noqa: ARG002 - as others are asked
        """Return False: statistics say nothing about hashes."""
        return False


class HashedColumn(Scan):
    """Divides rows by a hash of a column's value; rows without a value are refused.

    Args:
        column: The column.
        seed: Another seed gives another division.
        shares: Share of the values of each part.
    """

    def __init__(self, column: str, seed: int, shares: Mapping[str, float]) -> None:
        super().__init__(_Shares(column, seed, shares), list(shares))
        self._column = column

    def labels(self, row_groups: RowGroups) -> Labels:
        """Return the parts of the rows of some row groups."""
        labels = super().labels(row_groups)
        part_of_row = labels.part_of_row
        is_null = (part_of_row == _IS_NULL) & row_groups.wanted()
        if num_null := int(np.count_nonzero(is_null)):
            raise DataError(
                f"{row_groups.path}: column {self._column} is null in {num_null} rows "
                f"of row groups {list(row_groups.numbers)}, so split(by=) cannot "
                f"divide them: select where({self._column + ' is not null'!r}) first"
            ).at(file=row_groups.path, column=self._column)
        return labels
