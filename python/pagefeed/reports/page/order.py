"""Which files come when: positions of the order against files or datasets."""

from __future__ import annotations

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.loader import Loader, session_of
from pagefeed.sequences import AnyIndex, JoinedIndex

__all__ = ["order_counts"]

COLUMNS, MOST_ROWS = 240, 96
MOST_STEPS = 4096


def order_counts(loader: Loader) -> Int64Array:
    """Return how often each file comes in each stretch of the epoch, on this rank.

    Of long epochs some steps are looked at. Of many files neighbours are joined, and of
    a mixture the files of all datasets follow each other.

    Returns:
        int64 [files, stretches].
    """
    session = session_of(loader)
    run = session.run
    planner = run.planner(session.first)
    steps = planner.route.num_steps or MOST_STEPS
    chosen = np.unique(np.linspace(0, steps - 1, min(steps, MOST_STEPS)).astype(int))
    held = [planner.sequences(int(step), 1) for step in chosen]
    sequence = np.concatenate(held) if held else np.empty(0, dtype=np.int64)
    place = np.repeat(chosen, [len(each) for each in held])
    place, sequence = place[sequence >= 0], sequence[sequence >= 0]
    borders = _file_borders(run.source.index)
    file = np.searchsorted(borders[1:], sequence, side="right")
    rows = min(MOST_ROWS, len(borders) - 1)
    columns = min(COLUMNS, len(chosen))
    found = np.zeros((rows, columns), dtype=np.int64)
    np.add.at(
        found,
        (file * rows // max(1, len(borders) - 1), place * columns // max(1, steps)),
        1,
    )
    return found


def _file_borders(index: AnyIndex) -> Int64Array:
    """First sequence of each file, and the number of all: int64 [files + 1]."""
    if not isinstance(index, JoinedIndex):
        return index.file_first_sequence
    parts = [
        part.file_first_sequence[:-1] + first
        for part, first in zip(index.parts, index.first_sequence, strict=False)
    ]
    return np.concatenate([*parts, index.first_sequence[-1:]])
