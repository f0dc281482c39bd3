"""Which rows to erase: by a predicate, by their numbers, or by what a table lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pagefeed._base import Int64Array, check_whole, distinct, joined_ranges
from pagefeed.dataset import select
from pagefeed.dataset.index_recipe import IndexRecipe
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.select import Selection
from pagefeed.dataset.spans import Spans, refuse_unknown_rows
from pagefeed.errors import InvalidArgumentError, UnsupportedError

__all__ = ["erased_rows"]


def erased_rows(
    index: PageIndex,
    where: Any | None,
    rows: Mapping[str, Iterable[int]] | None,
    snapshot: Any | None,
) -> Selection:
    """Return the rows of an index that ``Dataset.erase`` means.

    Raises:
        InvalidArgumentError: If not exactly one of them is given, or it is of other
            files or rows.
        UnsupportedError: If files have no documents.
    """
    if sum(each is not None for each in (where, rows, snapshot)) != 1:
        raise InvalidArgumentError(
            "erase takes one of where=, rows= and snapshot=; call it again for more"
        )
    refuse_unknown_rows(Spans(index), "erase()")
    if where is not None:
        if not isinstance(index.recipe, IndexRecipe):
            raise InvalidArgumentError(
                f"where= asks columns, and {index.files[0]} has tokens alone: name "
                "documents by rows="
            )
        return select.where(Spans(index), where)
    found = _lost(index, snapshot) if rows is None else _checked(index, rows)
    return select.rows_of(Spans(index), found)


def _checked(
    index: PageIndex, rows: Mapping[str, Iterable[int]]
) -> dict[str, Int64Array]:
    """Rows by file, rising, each once."""
    if not isinstance(rows, Mapping):
        raise InvalidArgumentError(
            f"rows={rows!r:.60} must be rows of files: {{'web/a.parquet': [17, 204]}}"
        )
    found = {}
    for file, given in rows.items():
        number = index.find_file(file)
        if number is None:
            raise InvalidArgumentError(
                f"rows: {file!r} is no file of the dataset, which has "
                f"{len(index.files)}, such as {index.files[0]!r}"
            )
        count = int(np.diff(index.file_first_row)[number])
        numbers = [check_whole(row, "row") for row in given]
        for row in numbers:
            if not 0 <= row < count:
                raise InvalidArgumentError(
                    f"rows: row {row} is out of range: {file} has {count} rows"
                )
        found[index.files[number]] = distinct(np.array(numbers, dtype=np.int64))
    return found


def _lost(index: PageIndex, snapshot: Any) -> dict[str, Int64Array]:
    """Rows of each file that a later snapshot of a table does not have any more.

    Raises:
        UnsupportedError: If the snapshot has other files in the place of some.
    """
    table, later = index.recipe.table, getattr(snapshot, "index", None)
    if table is None or not isinstance(later, PageIndex) or later.recipe.table is None:
        raise InvalidArgumentError(
            f"snapshot={snapshot!r:.60} must be a later snapshot of the same table, "
            "such as pagefeed.delta(table, column=...), and the dataset one too"
        )
    numbers = {file: later.find_file(file) for file in index.files}
    # Files of which the later dataset selects no row.
    left_out = later.recipe.table.left_out
    without = {file: n for n, file in enumerate(index.files) if file in left_out}
    gone = [file for file, n in numbers.items() if n is None and file not in without]
    if gone:
        raise UnsupportedError(
            f"{len(gone)} files of {table.snapshot} are not in "
            f"{later.recipe.table.snapshot}, such as {gone[0]}: they were written anew "
            "or deleted whole, and the table does not tell which of their rows went; "
            "name the documents by where= or rows="
        ).at(file=gone[0])
    borders = [0, *snapshot.spans.row_runs.reshape(-1).tolist(), later.num_rows]
    between = np.array(borders, dtype=np.int64).reshape(-1, 2)
    rows = joined_ranges(between[:, 0], between[:, 1])
    first = later.file_first_row
    cuts = np.searchsorted(rows, first)
    known = {number: file for file, number in numbers.items()}
    counts = np.diff(index.file_first_row)
    return {file: np.arange(counts[number]) for file, number in without.items()} | {
        known[number]: rows[cuts[number] : cuts[number + 1]] - first[number]
        for number in np.flatnonzero(np.diff(cuts)).tolist()
        if number in known
    }
