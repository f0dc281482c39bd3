"""Bounds of columns in an Iceberg table's manifests, by field ids."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pagefeed.selection import Bounds, bounds_of
from pagefeed.tables.snapshot import EPOCH

__all__ = ["IcebergBounds", "Metrics", "known_types"]


class Metrics(NamedTuple):
    """Bounds of the columns of a file in a manifest, by field id; None if not given."""

    lower: Mapping[int, bytes] | None
    upper: Mapping[int, bytes] | None
    num_values: Mapping[int, int] | None
    num_nulls: Mapping[int, int] | None


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
    of_file: Sequence[Metrics]

    def of(self, column: str) -> Sequence[Bounds | None]:
        """Return the bounds of a column in each file; None where unknown."""
        if column not in self.columns:
            return [None] * len(self.of_file)
        number, kind = self.columns[column]
        return [_bounds(metrics, number, kind) for metrics in self.of_file]

    def with_files(self, numbers: Sequence[int]) -> IcebergBounds:
        """Return the bounds of some of the files."""
        return replace(self, of_file=[self.of_file[number] for number in numbers])


def _bounds(metrics: Metrics, number: int, kind: Any) -> Bounds | None:
    return bounds_of(
        _value((metrics.lower or {}).get(number), kind),
        _value((metrics.upper or {}).get(number), kind),
        (metrics.num_nulls or {}).get(number),
        (metrics.num_values or {}).get(number),
    )


def _value(stored: bytes | None, kind: Any) -> Any:
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
