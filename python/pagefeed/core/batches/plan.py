"""Plans: the token ranges of whole batches, as the engine takes them."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, UInt64Array, distinct
from pagefeed.core.run import NO_SEQUENCE
from pagefeed.core.sequences import (
    EPOCH_SHIFT,
    AnyIndex,
    Bundles,
    epochs_of,
    epochs_of_bundles,
    numbers_of,
)

__all__ = ["BatchPlan", "plan_batches"]


class BatchPlan(NamedTuple):
    """Segments of consecutive batches, sorted by batch, as the engine takes them."""

    num_batches: int
    page: npt.NDArray[np.uint64]
    row: npt.NDArray[np.uint32]
    first_token: npt.NDArray[np.uint32] | None
    """None, with ``num_tokens``, if all are rows of columns."""
    num_tokens: npt.NDArray[np.uint32] | None
    destination: Int64Array
    """Row among those of all the batches."""
    destination_offset: npt.NDArray[np.uint32]
    """Place in the row; of a row of a column, the column's number."""
    bundles: tuple[npt.NDArray[Any], ...] | None = None
    """The bundles that ``page`` refers to."""
    batch_rows: int | None = None
    """Rows of each batch; None for those that the engine was told."""


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
        place = segments.sequence
    else:
        segments = index.segments(numbers[places])
        place = places[segments.sequence]
    if tells_epochs:
        page = segments.page + (epochs[place] << EPOCH_SHIFT)
        segments = segments._replace(page=page)
    bundles: tuple[npt.NDArray[Any], ...] | None = None
    if index.layout.packing is not None and len(segments.page):
        found = _bundles(index, segments.page)
        key, page = _unsigned(found.key), _unsigned(found.part_page)
        bundles = key, *found[1:3], page, *found[4:]
    return BatchPlan(
        num_batches=len(sequences) // batch_size,
        page=_unsigned(segments.page),
        row=segments.row,
        first_token=segments.first_token,
        num_tokens=segments.num_tokens,
        destination=place,
        destination_offset=segments.offset,
        bundles=bundles,
        batch_rows=batch_size,
    )


def _bundles(index: AnyIndex, pages: Int64Array) -> Bundles:
    """Return the bundles that segments name, of each epoch apart."""
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


def _unsigned(numbers: Int64Array) -> UInt64Array:
    """The same numbers, none negative, in the same memory."""
    return np.ascontiguousarray(numbers).view(np.uint64)
