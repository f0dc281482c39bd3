"""INT96 timestamps, which pyarrow reads in one unit; times outside of it wrap around.

They are read as microseconds where the writer had no finer times, else as nanoseconds.
Before a predicate uses a column, its values are checked in seconds: a year that the
unit cannot hold is refused.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from pagefeed.errors import ColumnNotFoundError, UnsupportedError
from pagefeed.selection.query import (
    Expression,
    Schema,
    arrow,
    field_of,
    scalar_columns,
    type_of,
)

ARROW_KEY = b"ARROW:schema"
SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
"""Key under which Spark records its schema; its times are in microseconds."""
SECONDS_PER_YEAR = 31_556_952
PER_SECOND = {"us": 10**6, "ns": 10**9}


def int96_columns(fragment: Any) -> list[str]:
    """Return the dotted paths of the INT96 columns of a Parquet fragment."""
    schema = fragment.metadata.schema
    leaves = map(schema.column, range(len(schema)))
    return [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]


def is_coarse(fragment: Any, names: Iterable[str]) -> bool:
    """Return whether the writer of some columns had no times finer than microseconds.

    Spark has none; writers of Arrow record what they had.
    """
    pa, said = arrow(), fragment.metadata.metadata or {}
    if SPARK_KEY in said:
        return True
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said[ARROW_KEY])))
        fields = [schema.field(name.partition(".")[0]) for name in names]
    except (KeyError, binascii.Error, pa.ArrowException):
        return False
    units = {unit for field in fields for unit in _units(field.type)}
    return bool(units) and "ns" not in units


def _units(kind: Any) -> Iterable[str]:
    """Units of the timestamps in a type."""
    if arrow("pyarrow.types").is_timestamp(kind):
        yield kind.unit
    for child in range(kind.num_fields):
        yield from _units(kind.field(child).type)


def used_of(
    names: Iterable[str], expression: Expression, schema: Schema
) -> dict[str, Expression]:
    """Return the fields, out of some columns, that an expression uses."""
    columns, used = dict(scalar_columns(schema)), {}
    for name in names:
        if name not in columns:
            continue  # A column in lists: predicates do not take it.
        position = schema.get_field_index(columns[name][0][0])
        try:
            type_of(expression, schema.remove(position), name)
        except ColumnNotFoundError:
            used[name] = field_of(schema, name)[0]
    return used


def check_years(name: str, times: Any, unit: str, path: str) -> None:
    """Refuse times that a unit cannot hold.

    Args:
        name: The column.
        times: Its values in seconds, as an Arrow array.
        unit: ``"us"`` or ``"ns"``.
        path: The file.

    Raises:
        UnsupportedError: If there is one.
    """
    most = (1 << 63) // PER_SECOND[unit] - 1
    ends = arrow("pyarrow.compute").min_max(times.cast("int64"))
    for seconds in (ends["min"].as_py(), ends["max"].as_py()):
        if seconds is not None and abs(seconds) > most:
            year = 1970 + seconds // SECONDS_PER_YEAR
            raise UnsupportedError(
                f"{path}: column {name!r} has an INT96 timestamp of about the year "
                f"{year}, which {unit} since 1970 do not hold in 64 bits: write it as "
                "INT64 microseconds, as spark.sql.parquet.outputTimestampType = "
                "TIMESTAMP_MICROS does"
            ).at(file=path, column=name)
