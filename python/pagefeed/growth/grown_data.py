"""Datasets that grew: what they were when a state was saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, starmap
from typing import Any, cast

import numpy as np

from pagefeed.core._base import check_whole
from pagefeed.core.dataset import (
    Dataset,
    identity_of_data,
    same_files,
    snapshot_in,
    what_changed,
)
from pagefeed.core.run import StatePart, reading_state
from pagefeed.erasure import lost_rows
from pagefeed.errors import (
    InvalidArgumentError,
    MissingFileError,
    StateMismatchError,
    UnsupportedError,
)
from pagefeed.growth.rewritten import rewritten_rows
from pagefeed.parquet_files import DescribedRows
from pagefeed.selection import Selection, select_rows

__all__ = ["GROWN", "before_growth", "before_rewriting", "growth_parts"]


def before_growth(dataset: Dataset, then: str) -> DescribedRows:
    """Return the dataset of the files that a state knew.

    If a table rewrote these files without losing a row, it is the dataset of the
    snapshot of the state. If the files of that snapshot are gone, it has their rows in
    the present files.
    """
    try:
        return _files_before(dataset, then)
    except StateMismatchError as refused:
        snapshot = _snapshot_before(dataset, then, str(refused))
        if snapshot is None:
            raise
        return snapshot


def before_rewriting(dataset: Dataset, then: str) -> DescribedRows | None:
    """Return the earlier rows of a table, if it only rewrote files since.

    None if the table has more rows now, or this is not another snapshot of the table in
    the state.

    Raises:
        StateMismatchError: If it has equally many rows now, but they cannot be matched.
    """
    facts = then.split()
    is_record = len(facts) > 4 and facts[4].isdecimal()  # Rows that are selected.
    if not is_record or int(facts[4]) != len(cast("DescribedRows", dataset)):
        return None
    return _snapshot_before(dataset, then)


def growth_parts(dataset: Dataset, then: Sequence[str]) -> list[DescribedRows]:
    """Return the rows of the first data, then the rows of each addition.

    Args:
        dataset: The dataset with all rows.
        then: Records of the data before each addition, from states.

    Raises:
        StateMismatchError: If the rows are not the earlier rows and some more.
    """
    of_then = [before_growth(dataset, record) for record in then]
    all_data = [*of_then, cast("DescribedRows", dataset)]
    return [all_data[0], *starmap(_added, pairwise(all_data))]


def _added(before: DescribedRows, after: DescribedRows) -> DescribedRows:
    """Return the added rows, found by their files, or by keys of rows.

    Raises:
        StateMismatchError: If nothing identifies them.
    """
    old_files = {*before.spans.layout.files}
    if old_files <= {*after.files}:
        return after.with_files(
            [n for n, f in enumerate(after.files) if f not in old_files]
        )
    keys = [
        None
        if data.table is None or data.table.past is None
        # Of files that are gone the keys were kept.
        else data.table.past.keys_of(data.spans.layout)
        for data in (before, after)
    ]
    old, new = keys
    if old is None or new is None or not after.spans.in_file_order:
        raise StateMismatchError(
            "grown='now' mixes in the rows that were added, but files were rewritten, "
            "and nothing shows which rows are new. Open the table with key=, a column "
            "whose values identify rows or '_row_id', or load with grown='next-epoch'"
        )
    is_old, first = np.isin(new, old), after.index.file_first_row
    rows = {
        file: np.flatnonzero(is_old[begin:end])
        for file, (begin, end) in zip(after.files, pairwise(first), strict=True)
    }
    chosen = select_rows(after.spans, rows, are_deleted=True)
    return replace(after, selection=chosen)


def _files_before(dataset: Dataset, then: str) -> DescribedRows:
    """Return the dataset of the files that a state knew.

    These are its first files, as in a table or a list; or, for files of this machine,
    the files that were written before all others. Their contents must match the state.

    Args:
        dataset: The dataset with the added files.
        then: Record of the data in the state, see :func:`identity_of_data`.

    Raises:
        InvalidArgumentError: If it is not a dataset of Parquet files.
        StateMismatchError: If its files are not the earlier files and some more.
    """
    if not isinstance(dataset, DescribedRows):
        raise InvalidArgumentError(
            f"only datasets of Parquet files can grow under a state, not {dataset}"
        )
    lost_rows = False
    facts = then.split()
    is_record = len(facts) > 1 and facts[1].isdecimal()
    for numbers in _candidates(dataset, int(facts[1]) if is_record else 0):
        for some_files in _with_all_rows(dataset.with_files(numbers)):
            now = identity_of_data(some_files)
            if not what_changed(then, now):
                return some_files
            lost_rows = lost_rows or same_files(then, now)
    changed = what_changed(then, identity_of_data(dataset))
    table = dataset.table
    if table is not None and lost_rows:
        raise StateMismatchError(
            f"the table lost rows of the files that the state is of, up to "
            f"{table.snapshot}: open the snapshot of the state and leave them out, "
            "web.erase(snapshot=...) with the dataset of now, load the state without "
            "grown=, and begin the next epoch with a loader of the snapshot of now "
            f"({changed})"
        )
    of_table = "" if table is None else "it lost rows or files, or they were rewritten"
    advice = (
        "name paths as a list, the files of before first, and then those that were "
        "added"
        if table is None
        else "open the snapshot of the state, web.erase(where=...) what went or "
        "web.erase(snapshot=..., key='id') with the dataset of now and a column that "
        "tells rows, and load it without grown="
    )
    raise StateMismatchError(
        "the dataset is not that of the state with some files added: neither its first "
        f"files nor its oldest ones hold what the state records ({changed}"
        f"{of_table and '; '}{of_table}); {advice}"
    )


def _snapshot_before(
    dataset: Dataset, then: str, refused: str = "rows were rewritten"
) -> DescribedRows | None:
    """Return the table's snapshot in a state; None if the state is not of the table.

    Raises:
        StateMismatchError: If rows of it were lost since, or its files are gone.
    """
    table = dataset.table if isinstance(dataset, DescribedRows) else None
    snapshot = snapshot_in(then)
    if table is None or table.past is None or not snapshot:
        return None
    kind, version = table.snapshot.partition(":")[0], snapshot.partition(":")[2]
    if snapshot == table.snapshot or snapshot != f"{kind}:{version}":
        return None
    if cast("DescribedRows", dataset).erasures:
        raise StateMismatchError(
            f"files of {snapshot}, the snapshot of the state, were rewritten, and "
            f"documents are erased from those of {table.snapshot}: erase them from the "
            "snapshot of the state, go on over it to the end of the epoch, and begin "
            "the next one over the table of now"
        )
    try:
        old = table.past.at(snapshot)
        then_selected = _of_snapshot(cast("DescribedRows", dataset), old)
        if what_changed(then, identity_of_data(then_selected)):
            return None
        lost = lost_rows(old.index, table.past.at(table.snapshot), None)
    except (InvalidArgumentError, MissingFileError):
        return rewritten_rows(cast("DescribedRows", dataset), then)
    except UnsupportedError as unknown:
        raise StateMismatchError(f"{refused}; {unknown}") from None
    count = sum(map(len, lost.values()))
    if count:
        raise StateMismatchError(
            f"the table lost rows of {snapshot}, the snapshot of the state, up to "
            f"{table.snapshot}: {count} in all; open that snapshot and leave them out, "
            "web.erase(snapshot=...) with the dataset of now, load the state without "
            "grown=, and begin the next epoch with a loader of the snapshot of now"
        )
    return then_selected


def _of_snapshot(dataset: DescribedRows, other: DescribedRows) -> DescribedRows:
    """Return the same selection in a different snapshot of the table.

    Args:
        dataset: The dataset with its settings and selection.
        other: The snapshot, with the rows that are deleted there.
    """
    base = replace(
        dataset,
        files=other.files,
        storage=other.storage,
        table=other.table,
        selection=None,
        erasures=(),
        _of_more_files={},
    )
    spans, chosen = base.spans, dataset.selection
    if other.selection is not None:
        spans = other.selection.over(spans)
    if isinstance(chosen, Selection):
        spans = chosen.on_top_of(spans)
    if not isinstance(spans, Selection):
        return base
    selected = replace(base, selection=spans)
    if spans.is_of_table or spans.counts_rows:
        return selected
    return selected.with_files(spans.files_with_rows, "without_rows")


def _with_all_rows(dataset: DescribedRows) -> Iterator[DescribedRows]:
    """Yield the dataset, and a copy without selection if all rows are selected."""
    yield dataset
    # Of a table perhaps only the files that were added have deleted rows.
    if (
        dataset.selection is not None
        and dataset.spans.num_rows == dataset.index.num_rows
    ):
        yield replace(dataset, selection=None)


def _candidates(dataset: DescribedRows, count: int) -> Iterator[list[int]]:
    """Return the numbers of files that may have been there before."""
    everything = range(len(dataset.files))
    if not 0 < count < len(everything):
        return
    yield [*everything[:count]]
    by_age = sorted(everything, key=lambda n: dataset.storage.written(dataset.files[n]))
    yield sorted(by_age[:count])


def _read_growths(given: Any) -> tuple[tuple[str, int], ...] | None:
    with reading_state({}, {}):
        if not isinstance(given, list | tuple):
            raise InvalidArgumentError(f"grown={given!r:.60} must be a list")
        growths = [(str(data), check_whole(at, "grown", least=0)) for data, at in given]
        if [at for _, at in growths] != sorted(at for _, at in growths):
            raise InvalidArgumentError(f"grown={given!r:.60} must rise")
    return tuple(growths) or None


def _growths_in_json(growths: Iterable[tuple[str, int]]) -> list[list[str | int]]:
    return [[record, at] for record, at in growths]


GROWN = StatePart(to_json=_growths_in_json, from_json=_read_growths)
"""Records of the data before others were added, and where in the epoch."""
