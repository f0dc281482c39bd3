"""Columns in the names of folders: ``lang=en/year=2024/part-0.parquet``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import numpy as np

from pagefeed.core._base import Int64Array, require

_MISSING = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, eq=False)
class FolderColumn:
    """A column with one value in all rows of a file."""

    values: tuple[Any, ...]
    """Different values of the column, as whole numbers if all names of folders are."""
    number_of_file: Int64Array
    """Position in ``values`` for each file, int64 [files]; ``len(values)`` for none."""

    def arrow_type(self) -> Any:
        """Return the Arrow type of the values."""
        arrow = require("pyarrow", extra="pyarrow", purpose="selecting rows")
        is_whole = bool(self.values) and isinstance(self.values[0], int)
        return arrow.int64() if is_whole else arrow.string()

    def value_of_file(self, file: int) -> Any:
        """Return the value of a file by its number; None if it has none."""
        value = int(self.number_of_file[file])
        return self.values[value] if value < len(self.values) else None

    def gives(self, file: int) -> bool:  # noqa: ARG002 - tables may lack an entry
        """Return whether a file has an entry, which may be null."""
        return True

    @property
    def is_complete(self) -> bool:
        """Whether all files have an entry."""
        return True

    @property
    def handle(self) -> Any:
        """The values followed by a null, in the form that engines read."""
        return self._for_engines([*self.values, None])

    @property
    def handle_of_files(self) -> Any:
        """The value of each file, in the form that engines read."""
        files = range(len(self.number_of_file))
        return self._for_engines([self.value_of_file(file) for file in files])

    def _for_engines(self, values: list[Any]) -> Any:
        return values

    def with_files(self, numbers: Sequence[int]) -> Self:
        """Return the column for some of the files."""
        at = np.array(numbers, dtype=np.int64)
        return replace(self, number_of_file=self.number_of_file[at])


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
    """Names and values in a folder's path; of two equal names the inner one counts."""
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


def column_of_values(of_files: Sequence[Any]) -> FolderColumn:
    """Return the column with one value per file, all of one type.

    Example:
        >>> column_of_values([7, None, 5]).values
        (5, 7)
    """
    values: Any = sorted({value for value in of_files if value is not None})
    indices = {value: index for index, value in enumerate(values)}
    of_file = [len(values) if value is None else indices[value] for value in of_files]
    return FolderColumn(tuple(values), np.array(of_file, dtype=np.int64))
