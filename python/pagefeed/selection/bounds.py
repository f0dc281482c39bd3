"""Bounds of values that a table records for its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Bounds", "FileBounds", "bounds_of"]


class Bounds(NamedTuple):
    """Lower and upper bound of a column in a file."""

    lower: Any
    """Lower bound; None if unknown. NaN does not count."""
    upper: Any
    """Upper bound; None if unknown. NaN does not count."""
    may_be_null: bool = True
    """Whether rows may have no value."""
    may_have_values: bool = True
    """Whether rows may have one."""


def bounds_of(
    lower: object, upper: object, num_nulls: int | None, num_rows: int | None
) -> Bounds | None:
    """Return bounds, and what follows from the counts; None if nothing is known."""
    bounds = Bounds(
        lower,
        upper,
        may_be_null=num_nulls != 0,
        may_have_values=None in (num_nulls, num_rows) or num_nulls != num_rows,
    )
    return None if bounds == Bounds(None, None) else bounds


class FileBounds(Protocol):
    """The bounds of the columns of some files."""

    def of(self, column: str) -> Sequence[Bounds | None]:
        """Return the bounds of a column in each file; None where unknown.

        Args:
            column: Its name in the table.
        """

    def with_files(self, numbers: Sequence[int]) -> FileBounds:
        """Return the bounds of some of the files."""
