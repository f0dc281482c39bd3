"""Names and types of a table's columns in files of Iceberg and Delta tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pagefeed.errors import CorruptFileError, UnsupportedError
from pagefeed.parsing import parsing
from pagefeed.selection import FieldType, NamedField, Naming

MAPPING = "delta.columnMapping."
NAME_MAPPING = "schema.name-mapping.default"


def iceberg_naming(table: str, schema: Any, properties: Mapping[str, str]) -> Naming:
    """Return how columns are identified: by field ids, else by the name mapping.

    Args:
        table: Its name, for messages.
        schema: The ``Schema`` of pyiceberg that has the columns.
        properties: Those of the table.

    Raises:
        CorruptFileError: If the name mapping is malformed.
    """
    stored = properties.get(NAME_MAPPING)
    with parsing(None, f"{table}: its property {NAME_MAPPING} is not a name mapping"):
        names = {} if stored is None else dict(_names_of(json.loads(stored)))
    fields = tuple(_iceberg_field(field, names) for field in schema.fields)
    return Naming(fields, by_id=True, by_name=stored is not None)


def _names_of(
    mapping: list[Mapping[str, Any]],
) -> Iterator[tuple[int, tuple[str, ...]]]:
    for each in mapping:
        if each.get("field-id") is not None:
            yield int(each["field-id"]), tuple(map(str, each["names"]))
        yield from _names_of(each.get("fields") or [])


def _iceberg_field(field: Any, names: Mapping[int, tuple[str, ...]]) -> NamedField:
    field_id = int(field.field_id)
    if not 0 <= field_id < 1 << 31:
        raise CorruptFileError(f"column {field.name!r} has the field id {field_id}")
    held = _iceberg_held(field.field_type, names)
    return NamedField(field.name, field_id, names.get(field_id, ()), held)


def _iceberg_held(kind: Any, names: Mapping[int, tuple[str, ...]]) -> FieldType:
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, StructType):
        return FieldType(
            "struct", tuple(_iceberg_field(each, names) for each in kind.fields)
        )
    if isinstance(kind, ListType):
        return FieldType("list", inside=(_iceberg_held(kind.element_type, names),))
    if isinstance(kind, MapType):
        both = kind.key_type, kind.value_type
        return FieldType(
            "map", inside=tuple(_iceberg_held(each, names) for each in both)
        )
    return FieldType()


def delta_naming(
    table: str, schema: Mapping[str, Any], configuration: Mapping[str, str]
) -> Naming:
    """Return how columns are identified: by the column mapping, else by name.

    Args:
        table: Its path, for messages.
        schema: The schema of the table, as its log has it.
        configuration: Properties of the table.

    Raises:
        CorruptFileError: If a column lacks what the mapping needs.
        UnsupportedError: If the mode of the mapping is unknown.
    """
    mode = configuration.get(f"{MAPPING}mode", "none")
    if mode not in ("none", "id", "name"):
        raise UnsupportedError(
            f"{table}: its columns are mapped by {mode!r}, and pagefeed knows the "
            "mappings 'id' and 'name'"
        )
    try:
        is_mapped = mode != "none"
        fields = tuple(
            _delta_field(each, is_mapped=is_mapped) for each in schema["fields"]
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise CorruptFileError(
            f"{table}: its columns are mapped by {mode}, and one lacks {problem}"
        ) from None
    return Naming(fields, by_id=mode == "id", by_name=mode != "id")


def _delta_field(field: Mapping[str, Any], *, is_mapped: bool) -> NamedField:
    held = _delta_held(field["type"], is_mapped=is_mapped)
    if not is_mapped:
        return NamedField(field["name"], None, (field["name"],), held)
    physical = (field["metadata"][f"{MAPPING}physicalName"],)
    field_id = field["metadata"].get(f"{MAPPING}id")
    return NamedField(
        field["name"], None if field_id is None else int(field_id), physical, held
    )


def _delta_held(kind: Any, *, is_mapped: bool) -> FieldType:
    if isinstance(kind, Mapping):
        if kind["type"] == "struct":
            return FieldType(
                "struct",
                tuple(
                    _delta_field(each, is_mapped=is_mapped) for each in kind["fields"]
                ),
            )
        if kind["type"] == "array":
            return FieldType(
                "list", inside=(_delta_held(kind["elementType"], is_mapped=is_mapped),)
            )
        if kind["type"] == "map":
            both = kind["keyType"], kind["valueType"]
            return FieldType(
                "map",
                inside=tuple(_delta_held(each, is_mapped=is_mapped) for each in both),
            )
    return FieldType()
