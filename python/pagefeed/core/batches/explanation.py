"""Notes on errors: which steps need the data that cannot be read."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, starmap

from pagefeed.core.run import MOST_RANGES, Cursor, Ranges, joined_ranges_of
from pagefeed.errors import DataError, InvalidArgumentError, PagefeedError

__all__ = ["explain"]


def explain(error: Exception, now: Cursor, step: int) -> None:
    """Name the steps that cannot be made, in a note and in ``error.steps``.

    Args:
        error: What was raised.
        now: Where the run was when it was raised.
        step: The step at which it was.
    """
    ranges: Ranges = ((step, step + 1),)
    if isinstance(error, DataError):
        with suppress(PagefeedError):  # The error itself matters more.
            _name_row(error, now, step)
        with suppress(PagefeedError):
            ranges = _unreadable_steps(error, now, step)
    call = f"loader.skip([{step}])"
    if isinstance(error, PagefeedError):
        error.steps = tuple(chain.from_iterable(starmap(range, ranges)))
        if len(error.steps) > 1:
            call = f"loader.skip(error.steps), which are {_shown(ranges)}"
    error.add_note(
        f"At step {step}. It was not taken: the iterator tries it again, or passes "
        f"over it after {call}, on every rank."
    )


def _name_row(error: DataError, now: Cursor, step: int) -> None:
    """Say which row of which file a row of the batch is."""
    if error.batch_row is None:
        return
    [origin, *_] = now.origins(step, error.batch_row)
    error.file, error.row_group = origin.file, origin.row_group
    error.add_note(
        f"{origin.file}, row group {origin.row_group}, column {error.column}, row "
        f"{origin.row} of the file."
    )


def _unreadable_steps(error: DataError, now: Cursor, step: int) -> Ranges:
    """Return the steps from this one on, on any rank, that need what cannot be read.

    They are exact, unless a state cannot hold so many ranges: then the nearest are
    joined, so that all of them can be skipped.
    """
    route = now.route
    positions = now.positions(now.run.unreadable_sequences(error), route.start)
    slots = route.slots(positions[positions >= route.start])
    numbers = {step, *(slot.step for slot in slots)}
    ranges = joined_ranges_of(numbers, MOST_RANGES)
    while len(ranges) > 1:
        with suppress(InvalidArgumentError):
            now.begin.skipping(route, chain.from_iterable(starmap(range, ranges)))
            break
        ranges = joined_ranges_of(numbers, len(ranges) * 3 // 4)
    return ranges


def _shown(ranges: Ranges) -> str:
    return ", ".join(
        str(begin) if end == begin + 1 else f"{begin}-{end - 1}"
        for begin, end in ranges
    )
