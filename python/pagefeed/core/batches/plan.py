"""Plans: the token ranges of whole batches, as the engine takes them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from pagefeed.core._base import Int64Array, distinct
from pagefeed.core.run import NO_SEQUENCE
from pagefeed.core.sequences import (
    EPOCH_SHIFT,
    AnyIndex,
    Bundles,
    Segments,
    epochs_of,
    epochs_of_bundles,
    numbers_of,
)

__all__ = ["BatchPlan", "plan_batches"]


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Segments of consecutive batches, as the engine takes them."""

    segments: Segments
    """The segments, sorted by batch. Their ``sequence`` is a row among those of all the
    batches. Of a row of a column, ``offset`` is the number of the column."""
    num_batches: int
    bundles: Bundles | None = None
    """The bundles that ``segments.page`` refers to."""
    batch_rows: int | None = None
    """Rows of each batch; None for the number given to the engine."""


def plan_batches(index: AnyIndex, sequences: Int64Array, batch_size: int) -> BatchPlan:
    """Plan batches of the ``sequences`` of a dataset, in their order.

    Args:
        index: The sequences of the dataset.
        sequences: int64 [batches * batch_size]; ``NO_SEQUENCE`` leaves a row of
            padding.
        batch_size: Rows of a batch.
    """
    places = (sequences != NO_SEQUENCE).nonzero()[0]
    epochs = epochs_of(sequences)
    tells_epochs = bool((epochs > 0).any())
    numbers = numbers_of(sequences) if tells_epochs else sequences
    if len(places) == len(sequences):
        segments = index.segments(numbers)
    else:
        segments = index.segments(numbers[places])
        segments = segments._replace(sequence=places[segments.sequence])
    if tells_epochs:
        page = segments.page + (epochs[segments.sequence] << EPOCH_SHIFT)
        segments = segments._replace(page=page)
    has_bundles = index.layout.packing is not None and len(segments.page) > 0
    return BatchPlan(
        segments=segments,
        num_batches=len(sequences) // batch_size,
        bundles=_bundles(index, segments.page) if has_bundles else None,
        batch_rows=batch_size,
    )


def _bundles(index: AnyIndex, pages: Int64Array) -> Bundles:
    """Return the bundles of the segments; each epoch has its own."""
    keys = distinct(pages)
    epochs = epochs_of_bundles(keys)
    borders = [0, len(keys)]
    if epochs[0] != epochs[-1]:
        borders[1:1] = (1 + np.flatnonzero(np.diff(epochs))).tolist()
    found = []
    for begin, end in itertools.pairwise(borders):
        mine, shift = keys[begin:end], int(epochs[begin]) << EPOCH_SHIFT
        bundles = index.bundles(mine - shift)
        page = bundles.part_page + shift
        found.append(bundles._replace(key=mine, part_page=page))
    return Bundles.joined(found)
