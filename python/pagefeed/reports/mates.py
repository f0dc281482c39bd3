"""Measure how often two rows of a batch share a batch again in the next epoch."""

from __future__ import annotations

import numpy as np

from pagefeed.core.run import Cursor, DatasetRun
from pagefeed.reports.sampling import evenly

__all__ = ["met_again"]

SAMPLED_SEQUENCES, LEAST_STEPS = 1 << 12, 8


def met_again(cursor: Cursor) -> tuple[float, float] | None:
    """Return which share of the pairs of a batch meet again, and of a random one.

    Documents of a batch of so many tokens all do: batches are made before they are
    shuffled. Other pairs are counted, in batches of this rank from all over the epoch.

    Args:
        cursor: The begin of an epoch.

    Returns:
        None of a mixture, whose datasets have epochs of their own, of an epoch in which
        data were added, of a fleet, whose ranks come and go, and where a batch is one
        sequence.
    """
    run, begin = cursor.run, cursor.begin
    if not isinstance(run, DatasetRun) or begin.grown or run.fleet is not None:
        return None
    if run.takes_batches:
        documents = run.documents_each * run.num_sequences
        return 1.0, (run.documents_each - 1) / max(1.0, documents - 1)
    most = max(LEAST_STEPS, SAMPLED_SEQUENCES // run.batch_size)
    steps = evenly(cursor.route.num_steps or 0, most).tolist()
    if run.batch_size == 1 or not steps:
        return None
    batches = np.array([cursor.sequences(step, 1) for step in steps])
    after = run.at(run.beginning(begin.epoch + 1))
    batch = np.full(batches.shape, -1)
    is_here = batches >= 0
    positions = after.positions([(0, batches[is_here])], after.start) - after.start
    turn, rank = np.divmod(positions, run.world_size)
    batch[is_here] = turn // run.batch_size * run.world_size + rank
    same = (batch[:, :, None] == batch[:, None, :]) & is_here[:, :, None]
    rows = is_here.sum(axis=1)
    # A row is its own mate, and no pair.
    met, pairs = same.sum() - rows.sum(), (rows * (rows - 1)).sum()
    random = (run.batch_size - 1) / max(1, run.num_sequences - 1)
    return float(met / max(1, pairs)), random
