"""Picture of an order: position in the files against position in the epoch."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.loader import Loader
from pagefeed.core.sequences import JoinedIndex, PackedRuns
from pagefeed.reports.sampling import evenly

COLUMNS, MOST_ROWS = 240, 96
MOST_STEPS = 4096
MEAN_COUNT = 4
"""Sequences in a cell of the picture at least: with fewer all is noise."""
MOST_BLOCKS = 2 * MOST_ROWS
"""Blocks whose inside is drawn; with more, a block is narrower than a line."""


def order_counts(loader: Loader) -> Int64Array:
    """Return how many sequences of each file region come in each stretch of the epoch.

    For long epochs, it samples steps of this rank. Regions have equal size and follow
    the order of the files; the datasets of a mixture follow each other. A sequence of
    several documents is counted where each of them lies.

    Returns:
        int64 [regions, stretches].
    """
    session = loader.view()
    run = session.run
    cursor = run.at(run.first_of(session.position.start))
    steps = cursor.route.num_steps or MOST_STEPS
    chosen = evenly(steps, MOST_STEPS)
    batches = [cursor.sequences(step, 1) for step in chosen.tolist()]
    sequence = np.concatenate(batches) if batches else np.empty(0, dtype=np.int64)
    at_step = np.repeat(chosen, [len(batch) for batch in batches])
    at_step, sequence = at_step[sequence >= 0], sequence[sequence >= 0]
    which, line = _lines(run.index, sequence)
    at_step = at_step[which]
    cells = max(1, len(sequence) // MEAN_COUNT)
    rows = min(MOST_ROWS, max(1, math.isqrt(cells * MOST_ROWS // COLUMNS)))
    columns = max(1, min(COLUMNS, len(chosen), cells // rows))
    counts = np.zeros((rows, columns), dtype=np.int64)
    row = np.minimum((line * rows).astype(np.int64), rows - 1)
    np.add.at(counts, (row, at_step * columns // max(1, steps)), 1)
    return counts


def _lines(
    joined: JoinedIndex, sequences: Int64Array
) -> tuple[Int64Array, npt.NDArray[np.float64]]:
    """Return indexes into sequences, and the position of their tokens in the files.

    Sequences are numbered in the order of the files; sequences of packed documents in
    the order in which their block was packed.
    """
    dataset = joined.dataset_of(sequences)
    which, line = [], []
    for member, own in enumerate(joined.parts):
        mine = np.flatnonzero(dataset == member)
        before, stop = joined.first_sequence[[member, member + 1]].tolist()
        local, total = sequences[mine] - before, own.num_sequences
        is_wide = len(own.blocks("page")) <= MOST_BLOCKS
        if isinstance(own, PackedRuns) and is_wide:
            local, here = own.documents_of(local)
            mine, total = mine[here], own.spans.num_rows
        which.append(mine)
        line.append(before + (stop - before) * local / max(1, total))
    lines = np.concatenate(line) / max(1, joined.num_sequences)
    return np.concatenate(which), lines
