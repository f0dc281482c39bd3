"""Columns of the files of an Iceberg table, by field id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError
from pagefeed.parsing import json_value
from pagefeed.selection import check_expansion
from pagefeed.tables.iceberg_metadata import default_of

FIELD_ID = b"PARQUET:field_id"
NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, eq=False)
class FileColumns:
    """All columns that the table has or had."""

    kinds: Mapping[int, Any]
    """Fields of pyiceberg by their ids."""
    structs: Mapping[int, int]
    """Id of the struct around each field in one."""
    names: Sequence[Mapping[str, Any]]
    """Field id of each name, for files without field ids."""

    @classmethod
    def of(cls, metadata: Any) -> FileColumns:
        """Return the columns of a table, by its metadata of pyiceberg."""
        schemas = [*metadata.schemas, metadata.schema()]
        kinds = {field.field_id: field for each in schemas for field in _fields(each)}
        structs = {
            inner.field_id: field_id
            for field_id, field in kinds.items()
            for inner in getattr(field.field_type, "fields", ())
        }
        given = metadata.properties.get(NAME_MAPPING)
        names = [] if given is None else json_value(given, NAME_MAPPING)
        return cls(kinds, structs, names)

    def read(
        self,
        storage: Storage,
        path: str,
        ids: Sequence[int],
        groups: Sequence[int] | None = None,
        constants: Mapping[int, Any] | None = None,
    ) -> list[Any]:
        """Read columns, which have the types of the table.

        Args:
            storage: Storage of the file.
            path: The file.
            ids: Field ids of the columns.
            groups: Row groups; None for all.
            constants: Values of columns that a file lacks, from its partition; None if
                it must have all columns.

        Raises:
            CorruptFileError: If the file cannot be read, or lacks a column that it must
                have.
            MissingFileError: If the file is gone.
        """
        import pyarrow as pa
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(
                storage.open_arrow(path), coerce_int96_timestamp_unit="us"
            )
            groups = range(file.num_row_groups) if groups is None else groups
            paths = dict(_numbered(file.schema_arrow))
            paths = paths or dict(_named(file.schema_arrow, self.names))
            used = [self._told_by(field_id, paths) for field_id in ids]
            held = [".".join(paths[field_id]) for field_id in used if field_id in paths]
            check_expansion(storage, path, held, groups)
            table = file.read_row_groups([*groups], columns=held, use_threads=False)
            return [
                self._typed(field_id, _leaf(table, paths[field_id]))
                if field_id in paths
                else self._made_up(
                    field_id, constants, path, self._holder(table, field_id, paths)
                )
                for field_id in ids
            ]
        except (pa.ArrowException, OSError) as problem:
            storage.size(path)  # Raises MissingFileError if the file is gone.
            raise CorruptFileError(f"{path}: pyarrow cannot read it: {problem}").at(
                file=path
            ) from None

    def _typed(self, field_id: int, column: Any) -> Any:
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        column = getattr(column, "storage", column)
        return (
            column if field_id not in self.kinds else column.cast(self._type(field_id))
        )

    def _told_by(self, field_id: int, paths: Mapping[int, Any]) -> int:
        """Return the id of a column, or of the struct around one that a file lacks."""
        return field_id if field_id in paths else self.structs.get(field_id, field_id)

    def _holder(self, table: Any, field_id: int, paths: Mapping[int, Any]) -> Any:
        """Return in which rows a column that a file lacks has a value: booleans."""
        import pyarrow as pa

        struct = self.structs.get(field_id)
        if struct is None or struct not in paths:
            return pa.repeat(struct is None, table.num_rows)
        return _leaf(table, paths[struct]).combine_chunks().is_valid()

    def _made_up(
        self, field_id: int, constants: Mapping[int, Any] | None, path: str, holder: Any
    ) -> Any:
        """Values of a column that a file lacks: of its partition, by default, null."""
        import pyarrow as pa
        from pyarrow import compute

        if constants is None:
            raise CorruptFileError(
                f"{path}, which deletes rows, has no column of field id {field_id}, by "
                "which it deletes"
            ).at(file=path)
        if field_id not in self.kinds:
            return pa.nulls(len(holder))
        kind = self._type(field_id)
        value = constants.get(field_id)
        value = pa.scalar(getattr(value, "bytes", value), kind)
        if field_id not in constants:
            value = default_of(self.kinds[field_id]) or value
            value = pa.scalar(value.as_py(), kind)
        column = pa.repeat(value, len(holder))
        return compute.if_else(holder, column, pa.scalar(None, kind))

    def _type(self, field_id: int) -> Any:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        kind = schema_to_pyarrow(self.kinds[field_id].field_type)
        return getattr(kind, "storage_type", kind)


def _leaf(table: Any, path: Sequence[str]) -> Any:
    from pyarrow import compute

    column = table[path[0]]
    return compute.struct_field(column, path[1:]) if path[1:] else column


def _fields(kind: Any) -> Iterator[Any]:
    """Return the fields of a struct, and of structs inside it."""
    for field in kind.fields:
        yield field
        if hasattr(field.field_type, "fields"):
            yield from _fields(field.field_type)


def _numbered(
    fields: Iterable[Any], before: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Ids that a file has of its columns, and their paths."""
    from pyarrow import types

    for field in fields:
        path = (*before, field.name)
        field_id = (field.metadata or {}).get(FIELD_ID)
        if field_id is not None:
            yield int(field_id), path
        if types.is_struct(field.type):
            yield from _numbered(field.type, path)


def _named(
    fields: Iterable[Any],
    names: Sequence[Mapping[str, Any]],
    before: tuple[str, ...] = (),
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Ids of columns by their names, and their paths."""
    from pyarrow import types

    for field in fields:
        path = (*before, field.name)
        for each in names:
            if field.name not in each["names"]:
                continue
            if each.get("field-id") is not None:
                yield int(each["field-id"]), path
            if types.is_struct(field.type):
                yield from _named(field.type, each.get("fields") or (), path)
