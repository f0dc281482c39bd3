"""Columns in the names of folders: ``lang=en/year=2024/part-0.parquet``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from pagefeed._base import Int64Array

__all__ = ["FolderColumn", "folder_columns"]

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
    texts = sorted({value for value in found if value is not None})
    numbers: Mapping[str | None, int]
    values: tuple[int, ...] | tuple[str, ...] = tuple(texts)
    numbers = {text: number for number, text in enumerate(texts)}
    if texts and all(map(_WHOLE.fullmatch, texts)):
        values = tuple(sorted({int(text) for text in texts}))
        places = {value: number for number, value in enumerate(values)}
        numbers = {text: places[int(text)] for text in texts}
    of_file = [numbers.get(value, len(values)) for value in found]
    return FolderColumn(values, np.array(of_file, dtype=np.int64))
