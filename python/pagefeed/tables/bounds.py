"""Bounds of columns that a Delta log or Iceberg manifests hold for each file."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from pagefeed.selection import Bounds, Naming, bounds_of
from pagefeed.tables.manifests import LiveFile
from pagefeed.tables.snapshot import EPOCH


def known_types(schema: Any, schemas: Iterable[Any]) -> dict[str, tuple[int, Any]]:
    """Return field ids and types of columns that always had this type.

    Fields of structs are left out. So are columns that another ``Schema`` gives another
    type: bounds of that type are stored and compared differently.
    """
    kinds = {field.field_id: {str(field.field_type)} for field in schema.fields}
    for each in schemas:
        for field in each.fields:
            kinds.get(field.field_id, set()).add(str(field.field_type))
    return {
        field.name: (field.field_id, field.field_type)
        for field in schema.fields
        if len(kinds[field.field_id]) == 1 and field.field_type.is_primitive
    }


@dataclass(frozen=True, eq=False)
class IcebergBounds:
    """The bounds of the columns of some files."""

    columns: Mapping[str, tuple[int, Any]]
    """Field id and type of each column with bounds."""
    of_file: Sequence[LiveFile]

    def of(self, column: str) -> Sequence[Bounds | None]:
        """Return the bounds of a column in each file; None where unknown."""
        if column not in self.columns:
            return [None] * len(self.of_file)
        field_id, kind = self.columns[column]
        return [_bounds_in_manifest(file, field_id, kind) for file in self.of_file]

    def with_files(self, files: Sequence[int]) -> IcebergBounds:
        """Return the bounds of some of the files."""
        return replace(self, of_file=[self.of_file[file] for file in files])


def _bounds_in_manifest(file: LiveFile, field_id: int, kind: Any) -> Bounds | None:
    return bounds_of(
        _bound_of((file.lower or {}).get(field_id), kind),
        _bound_of((file.upper or {}).get(field_id), kind),
        (file.num_nulls or {}).get(field_id),
        (file.num_values or {}).get(field_id),
    )


def _bound_of(stored: bytes | None, kind: Any) -> Any:
    """Return a stored bound; None if there is none, or it does not fit its type."""
    from pyiceberg.conversions import from_bytes

    if stored is None:
        return None
    try:
        value: Any = from_bytes(kind, stored)
        name = str(kind)
        if name == "date":
            return EPOCH.date() + datetime.timedelta(days=value)
        if name in ("timestamp", "timestamptz"):
            epoch = EPOCH if name == "timestamptz" else EPOCH.replace(tzinfo=None)
            return epoch + datetime.timedelta(microseconds=value)
    except (ValueError, ArithmeticError, struct.error):
        return None
    return value


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
        return [*starmap(_bounds_in_log, said)]

    def with_files(self, files: Sequence[int]) -> DeltaBounds:
        """Return the bounds of some of the files."""
        return replace(self, actions=self.actions.take(files))

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


def _bounds_in_log(
    lower: object, upper: object, nulls: int | None, rows: int | None
) -> Bounds | None:
    bounds = bounds_of(lower, upper, nulls, rows)
    if bounds and isinstance(upper, str) and len(upper.encode()) >= CUT_TEXT:
        return bounds._replace(upper=None)
    return bounds
