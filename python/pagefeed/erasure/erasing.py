"""Erase rows by a predicate or by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pagefeed.core._base import Int64Array, check_whole, distinct
from pagefeed.core.dataset import (
    IndexRecipe,
    PageIndex,
    Spans,
    refuse_unknown_rows,
)
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection import Selection, select_rows
from pagefeed.selection import where as rows_where


def erased_rows(
    index: PageIndex,
    where: Any | None,
    rows: Mapping[str, Iterable[int]] | None,
    others: Iterable[str] = (),
) -> Selection:
    """Return the rows of an index that ``Dataset.erase`` means.

    Raises:
        InvalidArgumentError: If not exactly one argument is given, or it names other
            files or rows.
        UnsupportedError: If the files do not mark documents.
    """
    for name in others:
        raise InvalidArgumentError(
            f"erase has no argument {name!r}: give where=, a predicate such as that of "
            "the delete in the table, or rows="
        )
    if (where is None) == (rows is None):
        raise InvalidArgumentError(
            "erase takes one of where= and rows=; call it again for more"
        )
    refuse_unknown_rows(Spans(index), "erase()")
    if where is not None:
        if not isinstance(index.recipe, IndexRecipe):
            raise InvalidArgumentError(
                f"where= asks columns, and {index.files[0]} has tokens alone: name "
                "documents by rows="
            )
        return rows_where(Spans(index), where)
    return select_rows(Spans(index), _checked(index, rows))


def _checked(
    index: PageIndex, rows: Mapping[str, Iterable[int]] | None
) -> dict[str, Int64Array]:
    """Return the rows of each file, rising and without repeats."""
    if not isinstance(rows, Mapping):
        raise InvalidArgumentError(
            f"rows={rows!r:.60} must be rows of files: {{'web/a.parquet': [17, 204]}}"
        )
    checked = {}
    for file, given in rows.items():
        file_number = index.find_file(file)
        if file_number is None:
            raise InvalidArgumentError(
                f"rows: {file!r} is not a file of the dataset, which has "
                f"{len(index.files)}, such as {index.files[0]!r}"
            )
        count = int(np.diff(index.file_first_row)[file_number])
        numbers = [check_whole(row, "row") for row in given]
        for row in numbers:
            if not 0 <= row < count:
                raise InvalidArgumentError(
                    f"rows: row {row} is out of range: {file} has {count} rows"
                )
        checked[index.files[file_number]] = distinct(np.array(numbers, dtype=np.int64))
    return checked
