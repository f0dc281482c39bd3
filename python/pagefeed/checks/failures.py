"""Notes on errors: which steps need the data that cannot be read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, pairwise, starmap

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import Dataset
from pagefeed.core.run import MOST_RANGES, Cursor, Ranges, Step, merge_ranges
from pagefeed.core.sequences import SequenceIndex
from pagefeed.errors import DataError, InvalidArgumentError, PagefeedError

BAD_PAGES: set[tuple[str, int | None, str | None, int | None]] = set()
"""Places that could not be read in this process: file, row group, column and page."""
MOST_SHOWN = 32
"""Ranges of steps that a note tells."""
MOST_SEQUENCES = 1 << 18
"""Sequences searched at most; no run skips the steps of more."""


def explain(error: Exception, now: Cursor, step: Step) -> None:
    """Add to an error the steps that it prevents: in a note, and in ``error.steps``.

    Args:
        error: The error.
        now: Position of the run when it was raised.
        step: The step that raised it.
    """
    ranges: Ranges = ((step, step + 1),)
    needed = 1
    if isinstance(error, DataError):
        if error.file is not None:
            BAD_PAGES.add((error.file, error.row_group, error.column, error.page))
        with suppress(PagefeedError):  # The error itself matters more.
            _name_row(error, now, step)
        with suppress(PagefeedError):
            ranges, needed = _unreadable_steps(error, now, step)
    call = f"loader.skip([{step}])"
    if isinstance(error, PagefeedError):
        error.steps = tuple(chain.from_iterable(starmap(range, ranges)))
        if len(error.steps) > 1:
            call = f"loader.skip(error.steps), which are {_shown(ranges)}"
        if len(error.steps) > needed:
            call += (
                f" ({len(error.steps):,} steps, though {needed:,} would do: a state "
                f"does not hold as many ranges)"
            )
    error.add_note(
        f"At step {step}. It was not taken: the iterator tries it again, or passes "
        f"over it after {call}, on every rank."
    )


def _name_row(error: DataError, now: Cursor, step: Step) -> None:
    """Say which row of which file a row of the batch is."""
    if error.batch_row is None:
        return
    [origin, *_] = now.origins(step, error.batch_row)
    error.file, error.row_group, error.row = origin.file, origin.row_group, origin.row
    place = f"{origin.file}, row group {origin.row_group}, column {error.column}, row "
    error.args = f"{place}{origin.row} of the file: {error.args[0]}", *error.args[1:]


def _unreadable_steps(error: DataError, now: Cursor, step: int) -> tuple[Ranges, int]:
    """Return the steps from this one on, on any rank, that need unreadable data.

    If a state cannot hold all ranges, the nearest ranges are joined. They then
    include readable steps too, and all can be skipped.

    Returns:
        Ranges of steps, and the number of steps that need the data.
    """
    route = now.route
    run = now.run
    unreadable = [
        (dataset, unreadable_sequences(*indexed, error))
        for dataset, indexed in enumerate(zip(run.datasets, run.indexes, strict=True))
    ]
    positions = now.positions(unreadable, route.start)
    slots = route.slots(positions[positions >= route.start])
    numbers = {step, *(slot.step for slot in slots)}
    ranges = joined_ranges_of(numbers, MOST_RANGES)
    while len(ranges) > 1:
        with suppress(InvalidArgumentError):
            now.begin.skipping(route, chain.from_iterable(starmap(range, ranges)))
            break
        ranges = joined_ranges_of(numbers, len(ranges) * 3 // 4)
    return ranges, len(numbers)


def _shown(ranges: Ranges) -> str:
    shown = [
        str(begin) if end == begin + 1 else f"{begin}-{end - 1}"
        for begin, end in ranges[:MOST_SHOWN]
    ]
    more = len(ranges) - MOST_SHOWN
    return ", ".join(shown) + (f" and {more:,} more ranges" if more > 0 else "")


def unreadable_sequences(
    dataset: Dataset, sequences: SequenceIndex, error: PagefeedError
) -> Int64Array:
    """Return the sequences that need the data which an error names.

    Args:
        dataset: The dataset.
        sequences: Its sequences.
        error: With its file and row group. Without a page, the whole row group counts.

    Returns:
        int64, rising. Empty if the error names no part of the dataset, or if the
        sequences are too many.
    """
    rows = _rows(dataset, sequences, error)
    sequence_range = range(0) if rows is None else sequences.sequences_with_rows(*rows)
    return np.array(
        sequence_range if len(sequence_range) <= MOST_SEQUENCES else (), dtype=np.int64
    )


def _rows(
    dataset: Dataset, sequences: SequenceIndex, error: PagefeedError
) -> tuple[int, int] | None:
    """Return the rows that an error names: first and end; None if it names none."""
    file = None if error.file is None else dataset.index.find_file(error.file)
    if file is None or error.row_group is None:
        return None
    index = dataset.column_index(_column(dataset, sequences, error.column or ""))
    pages = range(*index.file_first_page[file : file + 2].tolist())
    if error.row is not None:
        row = int(index.file_first_row[file]) + error.row
        return row, row + 1
    group, page = error.row_group, error.page

    def group_and_page(page_number: int) -> tuple[int, int]:
        location = index.locate(page_number)
        return location.row_group, location.page

    last = (group + 1, 0) if page is None else (group, page + 1)
    begin = pages.start + bisect_left(pages, (group, page or 0), key=group_and_page)
    end = pages.start + bisect_left(pages, last, key=group_and_page)
    if begin == end:
        return None
    first_row, end_row = index.first_rows(np.array([begin, end])).tolist()
    return first_row, end_row


def _column(dataset: Dataset, sequences: SequenceIndex, leaf: str) -> str:
    """Return the column of the dataset, or of its documents, that has a leaf."""
    names = [column.column for column in dataset.aligned]
    names += (*sequences.columns, *dataset.metadata, *dataset.span_columns)
    matches = [name for name in names if leaf == name or leaf.startswith(f"{name}.")]
    return matches[0] if matches else dataset.column


def joined_ranges_of(numbers: Iterable[int], most: int) -> Ranges:
    """Return at most ``most`` ranges that hold all numbers, and as few more as can be.

    Example:
        >>> joined_ranges_of([1, 2, 9, 11, 40], 2)
        ((1, 12), (40, 41))
    """
    ranges = list(merge_ranges((first, first + 1) for first in set(numbers)))
    gaps = [after[0] - before[1] for before, after in pairwise(ranges)]
    num_closed = max(0, len(ranges) - most)
    closed = set(sorted(range(len(gaps)), key=gaps.__getitem__)[:num_closed])
    filled = [(ranges[gap][1], ranges[gap + 1][0]) for gap in closed]
    return merge_ranges([*ranges, *filled])
