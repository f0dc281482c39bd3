"""Erase rows by a predicate, by their numbers, or because a table lost them."""

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
from pagefeed.erasure.lost import lost_rows
from pagefeed.errors import InvalidArgumentError
from pagefeed.selection import Selection, select_rows
from pagefeed.selection import where as rows_where

__all__ = ["erased_rows"]


def erased_rows(
    index: PageIndex,
    where: Any | None,
    rows: Mapping[str, Iterable[int]] | None,
    snapshot: Any | None,
    key: str | None,
) -> Selection:
    """Return the rows of an index that ``Dataset.erase`` means.

    Raises:
        InvalidArgumentError: If not exactly one argument is given, or it names other
            files or rows.
        UnsupportedError: If the files do not mark documents.
    """
    if sum(choice is not None for choice in (where, rows, snapshot)) != 1:
        raise InvalidArgumentError(
            "erase takes one of where=, rows= and snapshot=; call it again for more"
        )
    if key is not None and snapshot is None:
        raise InvalidArgumentError(
            f"key={key!r} tells the rows of a later snapshot: give snapshot= too"
        )
    refuse_unknown_rows(Spans(index), "erase()")
    if where is not None:
        if not isinstance(index.recipe, IndexRecipe):
            raise InvalidArgumentError(
                f"where= asks columns, and {index.files[0]} has tokens alone: name "
                "documents by rows="
            )
        return rows_where(Spans(index), where)
    rows_of_files = (
        _checked(index, rows) if rows is not None else lost_rows(index, snapshot, key)
    )
    return select_rows(Spans(index), rows_of_files)


def _checked(
    index: PageIndex, rows: Mapping[str, Iterable[int]]
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
                f"rows: {file!r} is no file of the dataset, which has "
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
