"""Metadata files of Iceberg tables: the newest of a folder, and types of columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pagefeed.core.storage import is_url, located_exactly
from pagefeed.errors import FileAccessError, MissingFileError
from pagefeed.remote import StorageOptions
from pagefeed.tables.snapshot import value_as

HINT = "version-hint.text"
SUFFIX = ".metadata.json"
_VERSION = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json")


def newest_metadata(table: str, options: StorageOptions | None) -> str:
    """Return the current metadata file of a table in a folder.

    ``version-hint.text`` names it; else it is the one with the greatest version.

    Raises:
        MissingFileError: If there is none.
    """
    root = table.rstrip("/")
    folder = f"{root}/metadata"
    storage = located_exactly(
        (f"{folder}/{HINT}",), options if is_url(root) else None
    ).storage
    try:
        listed = storage.list_files(folder, (SUFFIX,))
    except MissingFileError:
        listed = []
    known = {path.rpartition("/")[2]: path for path in listed}
    try:
        hint = storage.read_all(f"{folder}/{HINT}").decode(errors="replace").strip()
    except FileAccessError:  # Few writers leave one.
        hint = ""
    named = (f"v{hint}{SUFFIX}", f"v{hint}.gz{SUFFIX}", f"{hint}{SUFFIX}", hint)
    newest = next((known[name] for name in named if name in known), None)
    if newest is None:
        numbered = {name: _VERSION.fullmatch(name) for name in known}
        versions = [(int(m[1]), name) for name, m in numbered.items() if m is not None]
        if not versions:
            raise MissingFileError(
                f"{table} is not an Iceberg table: expected a metadata file such as "
                f"{folder}/v1{SUFFIX}; of a table in a catalog give the name of the "
                "catalog too, catalog='name'"
            ).at(file=table)
        newest = known[max(versions)[1]]
    return newest


class ColumnTypes(NamedTuple):
    """Types of the columns of a schema, and what files that lack one have of it."""

    types: dict[str, Any]
    """Arrow types."""
    defaults: dict[str, Any]
    """Values of columns: a ``pyarrow.Scalar`` each."""
    inner_defaults: dict[tuple[str, ...], Any]
    """Values of fields in columns, by their paths: ``item`` and ``value`` stand for
    what is in a list and in a map."""


def column_types(schema: Any) -> ColumnTypes:
    """Return the types and defaults of columns.

    Args:
        schema: The ``Schema`` of pyiceberg that has the columns.
    """
    from pyarrow import ExtensionScalar

    in_arrow = schema.as_arrow()
    types = dict(zip(in_arrow.names, in_arrow.types, strict=True))
    defaults = dict(_defaults(schema.as_struct()))
    # Arrow cannot put values of extension types, such as UUIDs, into structs.
    inside = {
        path: value.value if isinstance(value, ExtensionScalar) else value
        for path, value in defaults.items()
        if path[1:]
    }
    whole = {path[0]: value for path, value in defaults.items() if not path[1:]}
    return ColumnTypes(types, whole, inside)


def default_of(field: Any) -> Any | None:
    """Return the value of a field in files that lack it: a ``Scalar``, or None."""
    from pyarrow import scalar
    from pyiceberg.conversions import from_json
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    if field.initial_default is None:
        return None
    kind = schema_to_pyarrow(field.field_type)
    value = from_json(field.field_type, field.initial_default)
    return scalar(value_as(value, kind), kind)


def _defaults(
    kind: Any, before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each field in a type that has a default."""
    for field in getattr(kind, "fields", ()):
        path, value = (*before, field.name), default_of(field)
        if value is not None:
            yield path, value
        yield from _defaults(field.field_type, path)
    for attribute, name in (("element_type", "item"), ("value_type", "value")):
        if hasattr(kind, attribute):
            yield from _defaults(getattr(kind, attribute), (*before, name))
