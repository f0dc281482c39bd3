"""Which parts of the data come when: positions of the order against sequences."""

from __future__ import annotations

import math

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.loader import Loader
from pagefeed.reports.sampling import evenly

__all__ = ["order_counts"]

COLUMNS, MOST_ROWS = 240, 96
MOST_STEPS = 4096
MEAN_COUNT = 4
"""Sequences in a cell of the picture at least: with fewer all is noise."""


def order_counts(loader: Loader) -> Int64Array:
    """Return how often each part of the data comes in each stretch of the epoch.

    Of long epochs some steps of this rank are looked at. Parts are of as many sequences
    each, in the order of the files, and of a mixture one dataset follows the other.

    Returns:
        int64 [parts, stretches].
    """
    session = loader.view()
    run = session.run
    cursor = run.at(session.first)
    steps = cursor.route.num_steps or MOST_STEPS
    chosen = evenly(steps, MOST_STEPS)
    held = [cursor.sequences(step, 1) for step in chosen.tolist()]
    sequence = np.concatenate(held) if held else np.empty(0, dtype=np.int64)
    place = np.repeat(chosen, [len(each) for each in held])
    place, sequence = place[sequence >= 0], sequence[sequence >= 0]
    cells = max(1, len(sequence) // MEAN_COUNT)
    rows = min(MOST_ROWS, max(1, math.isqrt(cells * MOST_ROWS // COLUMNS)))
    columns = max(1, min(COLUMNS, len(chosen), cells // rows))
    found = np.zeros((rows, columns), dtype=np.int64)
    total = max(1, run.index.num_sequences)
    np.add.at(found, (sequence * rows // total, place * columns // max(1, steps)), 1)
    return found
