"""Rows that a table lost between two of its snapshots."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, in_order, joined_ranges
from pagefeed.core.dataset import PageIndex
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.selection import ROW_ID, Files, column_of

__all__ = ["lost_rows"]


def lost_rows(
    index: PageIndex, snapshot: Any, key: str | None
) -> dict[str, Int64Array]:
    """Return the rows of each file that a later snapshot of a table lacks.

    Args:
        index: Index of the files of the earlier snapshot.
        snapshot: A dataset of the later snapshot.
        key: A column that identifies rows in rewritten files, or ``"_row_id"``.

    Raises:
        InvalidArgumentError: If this is not a later snapshot, or values of the key are
            not unique.
        UnsupportedError: If files were rewritten, and nothing identifies their rows.
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
    gone = [n for n, file in enumerate(index.files) if numbers[file] is None]
    rewritten = [n for n in gone if index.files[n] not in left_out]
    is_old = [file in numbers or file in table.left_out for file in later.files]
    added = np.flatnonzero(~np.array(is_old, dtype=np.bool_)).tolist()
    counts = np.diff(index.file_first_row)
    lost = {index.files[n]: np.arange(counts[n]) for n in gone}
    lost |= _deselected(later, snapshot, numbers)
    if not rewritten or not added:
        return lost
    if key is None:
        past = later.recipe.table.past
        gone_by_name = {index.files[n] for n in rewritten}
        if past is not None and past.keeps_rows(table.snapshot, gone_by_name):
            for file in gone_by_name:
                del lost[file]
            return lost
        named = None if past is None else past.key
        if named in later.recipe.table.types:
            key = named  # The one that the table was opened with.
    if key in (None, ROW_ID):
        values, of_added = (_ids(index, rewritten), _ids(later, added))
        if values is None or of_added is None:
            raise UnsupportedError(
                f"rows were rewritten: {len(rewritten)} files of {table.snapshot} are "
                f"not in {later.recipe.table.snapshot}, such as "
                f"{index.files[rewritten[0]]}, and {len(added)} others are, and the "
                "table does not tell which rows are left of them: it changed data "
                "since, and gives rows no ids (row ids of Iceberg 3, row tracking of "
                "Delta); name a column that does, key='id', or the documents that went "
                "by where= or rows="
            ).at(file=index.files[rewritten[0]])
    else:
        values, of_added = _values(index, key, rewritten), _values(later, key, added)
        _check_key(values, key)
    left = of_added.filter(_is_selected(later, snapshot, added))
    from pyarrow import compute

    is_lost = ~np.asarray(compute.is_in(values, value_set=left.cast(values.type)))
    ends = np.cumsum(counts[rewritten])[:-1]
    for n, is_lost_here in zip(rewritten, np.split(is_lost, ends), strict=True):
        lost[index.files[n]] = np.flatnonzero(is_lost_here)
    return lost


def _deselected(
    later: PageIndex, snapshot: Any, numbers: dict[str, int | None]
) -> dict[str, Int64Array]:
    """Rows of files of both that the later dataset does not have."""
    borders = [0, *snapshot.spans.row_runs.reshape(-1).tolist(), later.num_rows]
    between = np.array(borders, dtype=np.int64).reshape(-1, 2)
    rows = joined_ranges(between[:, 0], between[:, 1])
    first = later.file_first_row
    cuts = np.searchsorted(rows, first)
    file_of = {file_number: file for file, file_number in numbers.items()}
    return {
        file_of[file_number]: rows[cuts[file_number] : cuts[file_number + 1]]
        - first[file_number]
        for file_number in np.flatnonzero(np.diff(cuts)).tolist()
        if file_number in file_of
    }


def _is_selected(
    later: PageIndex, snapshot: Any, files: list[int]
) -> npt.NDArray[np.bool_]:
    """Return which rows of some files the later dataset has."""
    runs, first = snapshot.spans.row_runs, later.file_first_row
    rows = joined_ranges(first[files], first[np.array(files) + 1])
    run = np.searchsorted(runs[:, 0], rows, side="right") - 1
    is_selected: npt.NDArray[np.bool_] = (run >= 0) & (rows < runs[run, 1])
    return is_selected


def _ids(index: PageIndex, files: list[int]) -> Any | None:
    """The ids of the rows of some files, one below the other; None if rows lack one."""
    import pyarrow as pa

    table = index.recipe.table
    past = None if table is None else table.past
    ids = None if past is None else past.row_ids
    if ids is None:
        return None
    read = in_order(partial(ids.of, index.storage), [index.files[n] for n in files])
    ids_of_files = [*read]
    return (
        None
        if any(file_ids is None for file_ids in ids_of_files)
        else pa.concat_arrays(ids_of_files)
    )


def _values(index: PageIndex, column: str, files: list[int]) -> Any:
    """Return the values of a column in some files, joined."""
    import pyarrow as pa

    table = index.recipe.table
    read = [*in_order(partial(column_of, Files.of(index), column), files)]
    kind = read[0].type if table is None else table.types.get(column, read[0].type)
    # Functions know few of the types that writers use for the same.
    kind = getattr(kind, "value_type", kind)
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    kind = views.get(kind, kind)
    return pa.concat_arrays([values.cast(kind) for values in read])


def _check_key(values: Any, key: str) -> None:
    """Refuse a key with repeated values.

    Raises:
        InvalidArgumentError: If there are any; the message names one.
    """
    from pyarrow import compute

    if values.null_count:
        raise InvalidArgumentError(
            f"key={key!r} does not identify rows: {values.null_count} of the rewritten "
            "rows have none. Name a column with a value of its own in each row"
        )
    counts = compute.value_counts(values)
    several = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(several):
        first = several[0].as_py()
        raise InvalidArgumentError(
            f"key={key!r} does not tell rows: {first['counts']} rows that were "
            f"rewritten have {first['values']!r}"
        )
