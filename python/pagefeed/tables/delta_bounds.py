"""Bounds of columns in the log of a Delta table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from pagefeed.selection import Bounds, Naming, bounds_of

__all__ = ["DeltaBounds"]

CUT_TEXT = 32
"""Texts of this many bytes may be cut: some writers count as many characters, and do
not round the bound up."""


@dataclass(frozen=True, eq=False)
class DeltaBounds:
    """The bounds of the columns of some files."""

    actions: Any
    """Statistics of deltalake: a table with a row for each file."""
    naming: Naming | None = None
    """Names of columns in the log, if they differ from those of the table."""

    def of(self, column: str) -> Sequence[Bounds | None]:
        """Return the bounds of a column in each file; None where unknown."""
        lower, upper = self._of_files("min", column), self._of_files("max", column)
        nulls = self._of_files("null_count", column)
        rows = self.actions["num_records"].to_pylist()
        unknown = [None] * len(rows)
        said = zip(
            *(each or unknown for each in (lower, upper, nulls)), rows, strict=True
        )
        return [*starmap(_bounds, said)]

    def with_files(self, numbers: Sequence[int]) -> DeltaBounds:
        """Return the bounds of some of the files."""
        return replace(self, actions=self.actions.take(numbers))

    def _of_files(self, name: str, column: str) -> list[Any] | None:
        """Return the statistics of a column by file; None if the log has none."""
        from pyarrow import types

        called = column
        if self.naming is not None:
            called = self.naming.name_in_files(column) or ""
        if name not in self.actions.schema.names:
            return None
        kind = self.actions.schema.field(name).type
        if not types.is_struct(kind) or kind.get_field_index(called) < 0:
            return None
        values: list[Any] = (
            self.actions[name].combine_chunks().field(called).to_pylist()
        )
        return values


def _bounds(
    lower: object, upper: object, nulls: int | None, rows: int | None
) -> Bounds | None:
    if isinstance(upper, str) and len(upper.encode()) >= CUT_TEXT:
        upper = None
    return bounds_of(lower, upper, nulls, rows)
