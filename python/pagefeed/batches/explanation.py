"""What an error at a step says of the steps that it concerns."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, starmap

from pagefeed.errors import DataError, PagefeedError
from pagefeed.run import (
    MAX_SKIPPED,
    LoaderState,
    Ranges,
    Run,
    joined_ranges_of,
    sequence_of_slot,
)

__all__ = ["explain"]


def explain(error: Exception, run: Run, now: LoaderState, step: int) -> None:
    """Note the steps that cannot be made, in a note and in ``error.steps``.

    Args:
        error: What was raised.
        run: The run.
        now: The state in which it was raised.
        step: The step at which it was.
    """
    if isinstance(error, DataError) and error.batch_row is not None:
        with suppress(PagefeedError):
            _name_row(error, run, now, step, error.batch_row)
    ranges: Ranges = ((step, step + 1),)
    if isinstance(error, DataError):
        with suppress(PagefeedError):  # The error itself matters more.
            ranges = _damaged(error, run, now, step)
    call = f"loader.skip([{step}])"
    if isinstance(error, PagefeedError):
        error.steps = tuple(chain.from_iterable(starmap(range, ranges)))
        if len(error.steps) > 1:
            call = f"loader.skip(error.steps), which are {_shown(ranges)}"
    error.add_note(
        f"At step {step}. It was not taken: the iterator tries it again, or passes "
        f"over it after {call}, on every rank."
    )


def _damaged(error: DataError, run: Run, now: LoaderState, step: int) -> Ranges:
    """The steps from this one on, on any rank, that need what is damaged."""
    route = run.route(now)
    held = run.source.damaged_sequences(error)
    positions = run.source.at(now).positions(held, route.start)
    slots = route.slots(positions[positions >= route.start])
    numbers = {step, *(slot.step for slot in slots)}
    ahead = sum(end > route.start for _, end in now.skipped)
    return joined_ranges_of(numbers, max(1, MAX_SKIPPED - ahead))


def _name_row(
    error: DataError, run: Run, now: LoaderState, step: int, row: int
) -> None:
    """Say which row of which file a row of the batch is."""
    planner = run.planner(now, run.route(now))
    [origin, *_] = run.source.origins(sequence_of_slot(planner, step, row))
    error.file, error.row_group = origin.file, origin.row_group
    error.add_note(
        f"{origin.file}, row group {origin.row_group}, column {error.column}, row "
        f"{origin.row} of the file."
    )


def _shown(ranges: Ranges) -> str:
    return ", ".join(
        str(begin) if end == begin + 1 else f"{begin}-{end - 1}"
        for begin, end in ranges
    )
