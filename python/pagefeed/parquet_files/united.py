"""Columns of files that differ in some of them, as one table has them."""

from __future__ import annotations

from typing import Any

from pagefeed.core._base import Work, require
from pagefeed.core.dataset import folder_columns
from pagefeed.core.storage import Located
from pagefeed.errors import UnsupportedError
from pagefeed.selection import FieldType, NamedField, Naming, TableColumns


def united_columns(files: Located) -> TableColumns:
    """Return all columns and fields of structs of files, by name.

    Reads the footer of each file.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
        UnsupportedError: If a column has types without one in common.
    """
    arrow = require("pyarrow", extra="pyarrow", purpose='missing="null"')
    parquet = require("pyarrow.parquet", extra="pyarrow", purpose='missing="null"')

    def read(file: str) -> Any:
        with files.storage.open_arrow(file) as opened:
            return parquet.read_schema(opened).remove_metadata()

    work = Work("columns of files", total=len(files.files), unit="files")
    known, seen = None, []
    for file, schema in zip(files.files, work.map(read, files.files), strict=True):
        if schema in seen:
            continue
        seen.append(schema)
        try:
            known = arrow.unify_schemas(
                [schema] if known is None else [known, schema],
                promote_options="permissive",
            )
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as problem:
            raise UnsupportedError(
                f"{file}: its columns do not fit those of {files.files[0]}: {problem}. "
                "Make a dataset of each kind of files"
            ).at(file=file) from None
    types = {} if known is None else dict(zip(known.names, known.types, strict=True))
    return TableColumns(
        "",
        types,
        Naming(tuple(_named(*column) for column in types.items()), by_name=True),
        of_files=folder_columns(files.files),
        missing_as_null=True,
    )


def _named(name: str, kind: Any) -> NamedField:
    return NamedField(name, None, (name,), _type(kind))


def _type(kind: Any) -> FieldType:
    from pyarrow import types

    if types.is_struct(kind):
        fields = (_named(field.name, field.type) for field in kind)
        return FieldType("struct", tuple(fields))
    if types.is_map(kind):
        both = kind.key_type, kind.item_type
        return FieldType("map", inside=tuple(map(_type, both)))
    if types.is_nested(kind) and hasattr(kind, "value_type"):
        return FieldType("list", inside=(_type(kind.value_type),))
    return FieldType()
