"""Picture of an order: position in the files against position in the epoch."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.loader import Loader
from pagefeed.core.sequences import JoinedIndex, PackedRuns
from pagefeed.reports.sampling import evenly

__all__ = ["order_counts"]

COLUMNS, MOST_ROWS = 240, 96
MOST_STEPS = 4096
MEAN_COUNT = 4
"""Sequences in a cell of the picture at least: with fewer all is noise."""
MOST_BLOCKS = 2 * MOST_ROWS
"""Blocks whose inside is drawn; with more, a block is narrower than a line."""


def order_counts(loader: Loader) -> Int64Array:
    """Return how many sequences of each file region come in each stretch of the epoch.

    Of long epochs some steps of this rank are looked at. Parts are as large each, in
    the order of the files, and of a mixture one dataset follows the other. A sequence
    of several documents is counted where each of them lies.

    Returns:
        int64 [parts, stretches].
    """
    session = loader.view()
    run = session.run
    cursor = run.at(run.first_of(session.position.start))
    steps = cursor.route.num_steps or MOST_STEPS
    chosen = evenly(steps, MOST_STEPS)
    held = [cursor.sequences(step, 1) for step in chosen.tolist()]
    sequence = np.concatenate(held) if held else np.empty(0, dtype=np.int64)
    place = np.repeat(chosen, [len(each) for each in held])
    place, sequence = place[sequence >= 0], sequence[sequence >= 0]
    which, line = _lines(run.index, sequence)
    place = place[which]
    cells = max(1, len(sequence) // MEAN_COUNT)
    rows = min(MOST_ROWS, max(1, math.isqrt(cells * MOST_ROWS // COLUMNS)))
    columns = max(1, min(COLUMNS, len(chosen), cells // rows))
    found = np.zeros((rows, columns), dtype=np.int64)
    row = np.minimum((line * rows).astype(np.int64), rows - 1)
    np.add.at(found, (row, place * columns // max(1, steps)), 1)
    return found


def _lines(
    joined: JoinedIndex, sequences: Int64Array
) -> tuple[Int64Array, npt.NDArray[np.float64]]:
    """Return indexes into sequences, and the position of their tokens in the files.

    Sequences are numbered in the order of the files, but those of packed documents in
    the order in which a block was packed.
    """
    dataset = joined.dataset_of(sequences)
    which, line = [], []
    for number, part in enumerate(joined.parts):
        mine = np.flatnonzero(dataset == number)
        before, stop = joined.first_sequence[[number, number + 1]].tolist()
        place, total = sequences[mine] - before, part.num_sequences
        is_wide = len(part.blocks("page")) <= MOST_BLOCKS
        if isinstance(part, PackedRuns) and is_wide:
            place, here = part.documents_of(place)
            mine, total = mine[here], part.spans.num_rows
        which.append(mine)
        line.append(before + (stop - before) * place / max(1, total))
    lines = np.concatenate(line) / max(1, joined.num_sequences)
    return np.concatenate(which), lines
