"""Datasets that grew: what they were when a state was saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from pagefeed.core.dataset import (
    Dataset,
    ParquetRows,
    identity_of_data,
    same_files,
    snapshot_in,
    what_changed,
)
from pagefeed.erasure import lost_rows
from pagefeed.errors import (
    InvalidArgumentError,
    MissingFileError,
    StateMismatchError,
    UnsupportedError,
)
from pagefeed.selection import Selection

__all__ = ["before_growth", "growth_parts"]


def before_growth(dataset: Dataset, then: str) -> ParquetRows:
    """Return the files of a dataset that there were, as a dataset, see below.

    If a table rewrote them and lost no row, they are those of its snapshot of then.
    """
    try:
        return _files_before(dataset, then)[0]
    except StateMismatchError as refused:
        found = _snapshot_before(dataset, then, refused)
        if found is None:
            raise
        return found


def growth_parts(dataset: Dataset, then: Sequence[str]) -> list[ParquetRows]:
    """Return the files there were at first, those added next, and so on.

    Args:
        dataset: With all files.
        then: What states recorded before each addition.

    Raises:
        StateMismatchError: If its files are not those of before and some more.
    """
    found: list[ParquetRows] = []
    held: list[int] = []
    for record in then:
        part, numbers = _files_before(dataset, record)
        added = [number for number in numbers if number not in {*held}]
        found.append(part.with_files([numbers.index(number) for number in added]))
        held = numbers
    whole, known = cast("ParquetRows", dataset), {*held}
    added = [n for n in range(len(whole.files)) if n not in known]
    return [*found, whole.with_files(added)]


def _files_before(dataset: Dataset, then: str) -> tuple[ParquetRows, list[int]]:
    """The files of a dataset that there were, as a dataset, and their numbers.

    These are its first files, as in a table or a list; or, of this machine, those that
    were written before all others. What they hold must be what the state records.

    Args:
        dataset: With the files that were added.
        then: What the state records, see :func:`identity_of_data`.

    Raises:
        InvalidArgumentError: If it is no dataset of Parquet files.
        StateMismatchError: If its files are not those of before and some more.
    """
    if not isinstance(dataset, ParquetRows):
        raise InvalidArgumentError(
            f"a state goes on over data that grew in Parquet files alone, not {dataset}"
        )
    lost_rows = False
    facts = then.split()
    is_record = len(facts) > 1 and facts[1].isdecimal()
    for numbers in _candidates(dataset, int(facts[1]) if is_record else 0):
        for part in _with_all_rows(dataset.with_files(numbers)):
            now = identity_of_data(part)
            if not what_changed(then, now):
                return part, numbers
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
    dataset: Dataset, then: str, refused: StateMismatchError
) -> ParquetRows | None:
    """Return the snapshot of a table that a state is of; None if it is not that.

    Raises:
        StateMismatchError: If rows of it were lost since, or its files are gone.
    """
    table = dataset.table if isinstance(dataset, ParquetRows) else None
    snapshot = snapshot_in(then)
    if table is None or table.past is None or not snapshot:
        return None
    kind, number = table.snapshot.partition(":")[0], snapshot.partition(":")[2]
    if snapshot == table.snapshot or snapshot != f"{kind}:{number}":
        return None
    try:
        old = table.past.at(snapshot)
        part = _of_snapshot(cast("ParquetRows", dataset), old)
        if what_changed(then, identity_of_data(part)):
            return None
        lost = lost_rows(old.index, table.past.at(table.snapshot), None)
    except (InvalidArgumentError, MissingFileError) as gone:
        raise StateMismatchError(
            f"the files of {snapshot}, of which the state is, were rewritten up to "
            f"{table.snapshot}, and are not there any more: {gone}; keep the files of "
            "a snapshot until the end of the runs that read it"
        ) from None
    except UnsupportedError as unknown:
        raise StateMismatchError(f"{refused.args[0]}; {unknown}") from None
    count = sum(map(len, lost.values()))
    if count:
        raise StateMismatchError(
            f"the table lost rows of {snapshot}, of which the state is, up to "
            f"{table.snapshot}: {count} in all; open that snapshot and leave them out, "
            "web.erase(snapshot=...) with the dataset of now, load the state without "
            "grown=, and begin the next epoch with a loader of the snapshot of now"
        )
    return part


def _of_snapshot(dataset: ParquetRows, other: ParquetRows) -> ParquetRows:
    """Return the same choice of rows of another snapshot of the table.

    Args:
        dataset: Says what is wanted, and which rows.
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
    found = replace(base, selection=spans)
    if spans.is_of_table or spans.counts_rows:
        return found
    return found.with_files(spans.held_files, "without_rows")


def _with_all_rows(part: ParquetRows) -> Iterator[ParquetRows]:
    """Yield files with their selection, and without it if it leaves out none."""
    yield part
    # Of a table perhaps only the files that were added have deleted rows.
    if part.selection is not None and part.spans.num_rows == part.index.num_rows:
        yield replace(part, selection=None)


def _candidates(dataset: ParquetRows, count: int) -> Iterator[list[int]]:
    """Numbers of the files that may be those of before."""
    everything = range(len(dataset.files))
    if not 0 < count < len(everything):
        return
    yield [*everything[:count]]
    by_age = sorted(everything, key=lambda n: dataset.storage.written(dataset.files[n]))
    yield sorted(by_age[:count])
