"""Columns of the files of an Iceberg table, by field id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError

__all__ = ["FileColumns"]

FIELD_ID = b"PARQUET:field_id"
NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True, eq=False)
class FileColumns:
    """All columns that the table has or had."""

    kinds: Mapping[int, Any]
    """Fields of pyiceberg by their ids."""
    names: Sequence[Mapping[str, Any]]
    """Field id of each name, for files without field ids."""

    @classmethod
    def of(cls, metadata: Any) -> FileColumns:
        """Return the columns of a table, by its metadata of pyiceberg."""
        schemas = [*metadata.schemas, metadata.schema()]
        kinds = {field.field_id: field for each in schemas for field in _fields(each)}
        given = metadata.properties.get(NAME_MAPPING)
        return cls(kinds, [] if given is None else json.loads(given))

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
            storage: Where the file lies.
            path: The file.
            ids: Which columns.
            groups: Row groups; None for all.
            constants: Values of columns that a file lacks, as its partition has them;
                None if it must have all.

        Raises:
            CorruptFileError: If it cannot be read, or lacks a column that it must have.
            MissingFileError: If it is gone.
        """
        import pyarrow as pa
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(
                storage.open_arrow(path), coerce_int96_timestamp_unit="us"
            )
            groups = range(file.num_row_groups) if groups is None else groups
            found = dict(_numbered(file.schema_arrow))
            found = found or dict(_named(file.schema_arrow, self.names))
            held = [".".join(found[number]) for number in ids if number in found]
            table = file.read_row_groups([*groups], columns=held, use_threads=False)
            return [
                self._typed(number, _leaf(table, found[number]))
                if number in found
                else self._made_up(number, table.num_rows, constants, path)
                for number in ids
            ]
        except (pa.ArrowException, OSError) as problem:
            storage.size(path)  # If it is gone, that is what to tell.
            raise CorruptFileError(f"{path}: pyarrow cannot read it: {problem}").at(
                file=path
            ) from None

    def _typed(self, number: int, column: Any) -> Any:
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        column = getattr(column, "storage", column)
        return column if number not in self.kinds else column.cast(self._type(number))

    def _made_up(
        self,
        number: int,
        num_rows: int,
        constants: Mapping[int, Any] | None,
        path: str,
    ) -> Any:
        """Values of a column that a file lacks: of its partition, by default, null."""
        import pyarrow as pa

        if constants is None:
            raise CorruptFileError(
                f"{path}, which deletes rows, has no column of field id {number}, by "
                "which it deletes"
            ).at(file=path)
        kind = self._type(number) if number in self.kinds else pa.null()
        default = getattr(self.kinds.get(number), "initial_default", None)
        value = constants.get(number, default)
        value = getattr(value, "bytes", value)
        return pa.repeat(pa.scalar(value, kind), num_rows)

    def _type(self, number: int) -> Any:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        kind = schema_to_pyarrow(self.kinds[number].field_type)
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
        number = (field.metadata or {}).get(FIELD_ID)
        if number is not None:
            yield int(number), path
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
