"""Columns in the names of folders: ``lang=en/year=2024/part-0.parquet``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import Int64Array, require

BoolArray: TypeAlias = npt.NDArray[np.bool_]

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, eq=False)
class FolderColumn:
    """A column with one value in all rows of a file."""

    values: tuple[Any, ...]
    """Different values of the column, as whole numbers if all names of folders are."""
    number_of_file: Int64Array
    """Position in ``values`` for each file, int64 [files]; ``len(values)`` for none."""
    kind: Any = None
    """Arrow type of the values, as a table has it; None of folders."""
    is_given: BoolArray | None = None
    """Whether the table has an entry, also null, for each file; None: for all files."""

    def arrow_type(self) -> Any:
        """Return the Arrow type of the values."""
        if self.kind is not None:
            return self.kind
        arrow = require("pyarrow", extra="pyarrow", purpose="selecting rows")
        is_whole = bool(self.values) and isinstance(self.values[0], int)
        return arrow.int64() if is_whole else arrow.string()

    def value_of_file(self, file: int) -> Any:
        """Return the value of a file by its number; None if it has none."""
        value = int(self.number_of_file[file])
        return self.values[value] if value < len(self.values) else None

    def gives(self, file: int) -> bool:
        """Return whether the table has an entry, also null, for a file."""
        return self.is_given is None or bool(self.is_given[file])

    @property
    def handle(self) -> Any:
        """The values followed by a null, in the form that engines read."""
        return self._read_by_engines([*self.values, None])

    @property
    def handle_of_files(self) -> Any:
        """The value of each file, in the form that engines read."""
        files = range(len(self.number_of_file))
        return self._read_by_engines([self.value_of_file(file) for file in files])

    def _read_by_engines(self, values: list[Any]) -> Any:
        return values if self.kind is None else read_by_engines(values, self.kind)

    def with_files(self, numbers: Sequence[int]) -> FolderColumn:
        """Return the column for some of the files."""
        at = np.array(numbers, dtype=np.int64)
        is_given = None if self.is_given is None else self.is_given[at]
        return replace(self, number_of_file=self.number_of_file[at], is_given=is_given)


def read_by_engines(values: list[Any], kind: Any) -> Any:
    """Return values of an Arrow type in the form that engines read."""
    arrow = require("pyarrow", extra="pyarrow", purpose="columns of tables")
    batch = arrow.record_batch({"": arrow.array(values, _as_in_files(kind))})
    stream = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(stream, batch.schema) as writer:
        writer.write(batch)
    return _core.ArrowArray._from_bytes(stream.getvalue().to_pybytes())  # noqa: SLF001


def _as_in_files(kind: Any) -> Any:
    """Return a type as files have texts and lists, or wider ones, which take these."""
    arrow = require("pyarrow", extra="pyarrow", purpose="columns of tables")
    types = arrow.types
    if types.is_large_string(kind) or types.is_string_view(kind):
        return arrow.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return arrow.binary()
    if types.is_struct(kind):
        fields = [(f, getattr(f.type, "storage_type", f.type)) for f in kind]
        return arrow.struct([f.with_type(_as_in_files(own)) for f, own in fields])
    if types.is_list(kind) or types.is_large_list(kind):
        item = kind.value_field
        return arrow.list_(item.with_type(_as_in_files(item.type)))
    if types.is_map(kind):
        return arrow.map_(_as_in_files(kind.key_type), _as_in_files(kind.item_type))
    return kind


def folder_columns(files: Sequence[str]) -> dict[str, FolderColumn]:
    """Return the columns in folder names, as Hive writes them: ``lang=en/``.

    Escapes such as ``%20`` are decoded. A file in ``__HIVE_DEFAULT_PARTITION__``, or in
    no folder of this name, has no value.

    Example:
        >>> column = folder_columns(["/lang=en/a.parquet", "/lang=de/b"])["lang"]
        >>> column.values, column.value_of_file(1)
        (('de', 'en'), 'de')
    """
    pairs_in: dict[str, dict[str, str]] = {}
    of_file = []
    for file in files:
        folder = os.path.dirname(file)
        if folder not in pairs_in:
            pairs_in[folder] = _pairs(folder)
        of_file.append(pairs_in[folder])
    names = dict.fromkeys(name for pairs in pairs_in.values() for name in pairs)
    return {name: _column([pairs.get(name) for pairs in of_file]) for name in names}


def _pairs(folder: str) -> dict[str, str]:
    """Names and values in the path of a folder; the inner one of two with one name."""
    parts = (folder_name.partition("=") for folder_name in Path(folder).parts)
    return {
        unquote(name): unquote(value)
        for name, separator, value in parts
        if name and separator and value != _MISSING
    }


def _column(texts_of: Sequence[str | None]) -> FolderColumn:
    texts = {value for value in texts_of if value is not None}
    if texts and all(map(_WHOLE.fullmatch, texts)):
        return column_of_values([t if t is None else int(t) for t in texts_of])
    return column_of_values(texts_of)


def column_of_values(of_files: Sequence[Any], kind: Any = None) -> FolderColumn:
    """Return the column with one value per file, all of one type.

    Example:
        >>> column_of_values([7, None, 5]).values
        (5, 7)
    """
    values: Any = sorted({value for value in of_files if value is not None})
    indices = {value: index for index, value in enumerate(values)}
    of_file = [len(values) if value is None else indices[value] for value in of_files]
    return FolderColumn(tuple(values), np.array(of_file, dtype=np.int64), kind)
