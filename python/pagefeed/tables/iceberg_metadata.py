"""Metadata files of Iceberg tables: the newest of a folder, and types of columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pagefeed.core.storage import is_url, located_exactly
from pagefeed.errors import FileAccessError, MissingFileError
from pagefeed.remote import StorageOptions
from pagefeed.tables.snapshot import value_as

__all__ = ["newest_metadata", "types_of"]

HINT = "version-hint.text"
SUFFIX = ".metadata.json"
_VERSION = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json")


def newest_metadata(table: str, options: StorageOptions | None) -> str:
    """Return the metadata file that a table in a folder is at.

    ``version-hint.text`` names it, else it is the one of the greatest version.

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
    found = next((known[name] for name in named if name in known), None)
    if found is None:
        numbered = {name: _VERSION.fullmatch(name) for name in known}
        versions = [(int(m[1]), name) for name, m in numbered.items() if m is not None]
        if not versions:
            raise MissingFileError(
                f"{table} is no Iceberg table: expected a metadata file such as "
                f"{folder}/v1{SUFFIX}; of a table in a catalog give the name of the "
                "catalog too, catalog='name'"
            ).at(file=table)
        found = known[max(versions)[1]]
    return found


def types_of(schema: Any) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """Return Arrow types of columns, and what rows of files without one have.

    And the dotted paths of fields inside columns that have such a value.

    Args:
        schema: The ``Schema`` of pyiceberg whose columns are meant.
    """
    from pyarrow import scalar
    from pyiceberg.conversions import from_json

    in_arrow = schema.as_arrow()
    types = dict(zip(in_arrow.names, in_arrow.types, strict=True))
    defaults, inside = {}, list[str]()
    for field in schema.fields:
        inside += _with_default(field.field_type, field.name)
        if field.initial_default is not None:
            kind = types[field.name]
            value = from_json(field.field_type, field.initial_default)
            defaults[field.name] = scalar(value_as(value, kind), kind)
    return types, defaults, tuple(inside)


def _with_default(kind: Any, path: str) -> Iterator[str]:
    """Yield the paths of fields inside a type that have a default."""
    for field in getattr(kind, "fields", ()):
        name = f"{path}.{field.name}"
        if field.initial_default is not None:
            yield name
        yield from _with_default(field.field_type, name)
    for name in ("element_type", "key_type", "value_type"):
        inside = getattr(kind, name, None)
        # Files call what is inside in ways of their own: the column is named.
        if inside is not None and any(_with_default(inside, "")):
            yield path
