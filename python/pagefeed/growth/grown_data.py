"""Datasets that grew: what they were when a state was saved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pagefeed.core.dataset import (
    Dataset,
    identity_of_data,
    same_files,
    snapshot_in,
    what_changed,
)
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.parquet_files import DescribedRows


def before_growth(dataset: Dataset, then: str) -> DescribedRows:
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
            f"the table lost rows of {snapshot_in(then)}, the snapshot of the state, "
            f"up to {table.snapshot}: open the snapshot of the state, erase these "
            "rows, web.erase(where=...), load the state without grown=, and begin the "
            f"next epoch with a loader of {table.snapshot} ({changed})"
        )
    advice = (
        "name paths as a list, the earlier files first, and then those that were added"
        if table is None
        else f"files of the table were removed or rewritten since. Open "
        f"{snapshot_in(then) or 'the snapshot of the state'}, finish the epoch with "
        "the state, without grown=, and begin the next epoch with a loader of "
        f"{table.snapshot}. If files of that snapshot are gone, the epoch cannot be "
        "finished: call set_epoch in place of loading the state"
    )
    raise StateMismatchError(
        "the dataset is not that of the state with some files added: neither its first "
        f"files nor its oldest ones hold what the state records ({changed}); {advice}"
    )


def _with_all_rows(dataset: DescribedRows) -> Iterator[DescribedRows]:
    """Yield the dataset, and a copy without selection if all rows are selected."""
    yield dataset
    # In a table, perhaps only the added files have deleted rows.
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
