"""Columns in the names of folders: ``lang=en/year=2024/part-0.parquet``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.dataset.bounds import FileBounds
from pagefeed.errors import UnsupportedError

__all__ = [
    "ColumnNames",
    "FolderColumn",
    "TableColumns",
    "column_of_values",
    "folder_columns",
]

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, eq=False)
class FolderColumn:
    """A column with one value in all rows of a file."""

    values: tuple[int, ...] | tuple[str, ...]
    """Its different values; whole numbers if all values are."""
    number_of_file: Int64Array
    """Number of the value of each file, int64 [files]; ``len(values)`` without one."""

    @property
    def is_whole(self) -> bool:
        """Whether the values are whole numbers."""
        return bool(self.values) and isinstance(self.values[0], int)

    def value_of_file(self, file: int) -> int | str | None:
        """Return the value of a file by its number; None if it has none."""
        number = int(self.number_of_file[file])
        return self.values[number] if number < len(self.values) else None


@dataclass(frozen=True, eq=False)
class ColumnNames:
    """What files of a table call its columns, by dotted names.

    Example:
        >>> names = ColumnNames({"tokens": "col-7"})
        >>> names.in_files("tokens"), names.in_table(0)
        ('col-7', {'col-7': 'tokens'})
    """

    in_all: Mapping[str, str]
    """Names in all files, by those in the table, where they differ."""
    torn: Mapping[str, str] = field(default_factory=dict)
    """Columns that files call otherwise than others do, and what is to be told."""
    of_file: Sequence[Mapping[str, str]] = ()
    """Names in the table by those in each file, if files differ."""

    def in_files(self, column: str) -> str:
        """Return what all files call a column of the table.

        Raises:
            UnsupportedError: If they differ.
        """
        if column in self.torn:
            raise UnsupportedError(self.torn[column]).at(column=column)
        return self.in_all.get(column, column)

    def in_table(self, file: int) -> Mapping[str, str]:
        """Return what the table calls columns of a file, by their names there."""
        if self.of_file:
            return self.of_file[file]
        return {in_file: name for name, in_file in self.in_all.items()}


@dataclass(frozen=True, eq=False)
class TableColumns:
    """What a table says of its snapshot: which one it is, and its columns."""

    snapshot: str
    """Kind of the table and number of the snapshot: ``delta:12``."""
    of_files: Mapping[str, FolderColumn]
    """Columns with one value in all rows of a file: its partition."""
    names: ColumnNames
    """What columns are called in the files."""
    reads: Mapping[str, tuple[int, int]]
    """Files that were read to know this, and their bytes, by what they are."""
    types: Mapping[str, Any] = field(default_factory=dict)
    """Arrow types of the columns of the snapshot."""
    missing_as_null: bool = False
    """Whether these are null in the rows of files that lack them."""
    bounds: FileBounds | None = None
    """Between which values the columns of files lie."""
    pruned: frozenset[str] = frozenset()
    """Files that are left out, as the table proves that no row of them is selected."""
    without_rows: frozenset[str] = frozenset()
    """Files that are left out, as no row of them is selected, which were looked at."""

    @property
    def if_missing(self) -> Mapping[str, Any]:
        """Arrow types of the columns that are null where files lack them."""
        return self.types if self.missing_as_null else {}

    @property
    def left_out(self) -> frozenset[str]:
        """Files of the snapshot of which no row is selected."""
        return self.pruned | self.without_rows

    def with_files(self, numbers: Sequence[int]) -> TableColumns:
        """Return the same of some of the files."""
        at = np.array(numbers, dtype=np.int64)
        of_files = {
            name: replace(column, number_of_file=column.number_of_file[at])
            for name, column in self.of_files.items()
        }
        of_file = tuple(self.names.of_file[n] for n in numbers if self.names.of_file)
        names = replace(self.names, of_file=of_file)
        bounds = self.bounds and self.bounds.with_files(numbers)
        return replace(self, of_files=of_files, names=names, bounds=bounds)


def folder_columns(files: Sequence[str]) -> dict[str, FolderColumn]:
    """Return the columns that the folders of files name, as in Hive.

    Text is unquoted (``%20``). Files in ``__HIVE_DEFAULT_PARTITION__``, or without such
    a folder, have no value.

    Example:
        >>> column = folder_columns(["/lang=en/a.parquet", "/lang=de/b"])["lang"]
        >>> column.values, column.value_of_file(1)
        (('de', 'en'), 'de')
    """
    known: dict[str, dict[str, str]] = {}
    of_file = []
    for file in files:
        folder = os.path.dirname(file)
        if folder not in known:
            known[folder] = _pairs(folder)
        of_file.append(known[folder])
    names = dict.fromkeys(name for pairs in known.values() for name in pairs)
    return {name: _column([pairs.get(name) for pairs in of_file]) for name in names}


def _pairs(folder: str) -> dict[str, str]:
    """Names and values in the path of a folder; the inner one of two with one name."""
    parts = (part.partition("=") for part in Path(folder).parts)
    return {
        unquote(name): unquote(value)
        for name, separator, value in parts
        if name and separator and value != _MISSING
    }


def _column(found: Sequence[str | None]) -> FolderColumn:
    texts = {value for value in found if value is not None}
    if texts and all(map(_WHOLE.fullmatch, texts)):
        return column_of_values([None if text is None else int(text) for text in found])
    return column_of_values(found)


def column_of_values(found: Sequence[int | str | None]) -> FolderColumn:
    """Return the column that files have these values of, all numbers or all texts.

    Example:
        >>> column_of_values([7, None, 5]).values
        (5, 7)
    """
    known: Any = sorted({value for value in found if value is not None})
    places = {value: number for number, value in enumerate(known)}
    of_file = [len(known) if value is None else places[value] for value in found]
    return FolderColumn(tuple(known), np.array(of_file, dtype=np.int64))
