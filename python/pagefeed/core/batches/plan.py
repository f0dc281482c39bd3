"""Plans: the token ranges of whole batches, as the engine takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array, UInt32Array, check_whole, distinct
from pagefeed.core.run import NO_SEQUENCE, Cursor, Sequences, Step
from pagefeed.core.sequences import AnyIndex, Bundles, Segments
from pagefeed.errors import InvalidArgumentError


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """Segments of consecutive batches, as the engine takes them."""

    segments: Segments
    """The segments, sorted by batch. Their ``sequence`` is a row, counted through all
    the batches. For rows of columns, ``offset`` is the number of the column."""
    num_batches: int
    epoch: UInt32Array | None = None
    """Epoch for which each segment is read: documents are infilled differently in each
    epoch. uint32 [segments]; None if it is 0 for all segments."""
    bundles: Bundles | None = None
    """The bundles that ``segments.page`` refers to."""
    batch_rows: int | None = None
    """Rows of each batch; None for the number given to the engine."""
    row_parts: int = 0
    """Rows that each of these is divided into, as if it were cut there; 0 for one."""


def plan_batches(index: AnyIndex, sequences: Sequences, batch_size: int) -> BatchPlan:
    """Plan batches of the ``sequences`` of a dataset, in their order.

    Args:
        index: The sequences of the dataset.
        sequences: [batches * batch_size]; ``NO_SEQUENCE`` leaves a row of padding.
        batch_size: Rows of a batch.
    """
    numbers, epochs = sequences.numbers, sequences.epochs
    places = (numbers != NO_SEQUENCE).nonzero()[0]
    if len(places) == len(numbers):
        segments = index.segments(numbers)
    else:
        segments = index.segments(numbers[places])
        segments = segments._replace(sequence=places[segments.sequence])
    has_bundles = index.layout.packing is not None and len(segments.page) > 0
    return BatchPlan(
        segments=segments,
        num_batches=len(sequences) // batch_size,
        epoch=None if epochs is None else epochs[segments.sequence],
        bundles=index.bundles(distinct(segments.page)) if has_bundles else None,
        batch_rows=batch_size,
    )


class Plan(NamedTuple):
    """The data that some steps of a rank read: sequences, and their segments.

    ``step``, ``row`` and ``sequence`` have an element for each row of the batches, step
    after step. The engine is given the other attributes.
    """

    step: Int64Array
    """Number of the step: int64 [rows]."""
    row: Int64Array
    """Row of the step's batch: int64 [rows]."""
    sequence: Int64Array
    """Sequence, counted over all datasets; -1 for padding: int64 [rows]."""
    segments: Segments
    """Token ranges of pages. Their ``sequence`` is an index into the arrays above."""
    epoch: UInt32Array
    """Epoch for which each segment is read: uint32 [segments]. 0 unless documents are
    infilled, which differs between epochs."""
    bundles: Bundles | None
    """For :class:`Packed`, the pages of each bundle that ``segments.page`` names."""


def plan_of_steps(
    cursor: Cursor, make: Callable[[Sequences], BatchPlan], steps: Iterable[int]
) -> Plan:
    """Return the plan of some steps.

    Args:
        cursor: Cursor that finds the sequences of the steps.
        make: Function that plans whole batches of sequences.
        steps: Numbers of the steps.

    Raises:
        InvalidArgumentError: If no step is given, or a step does not exist or is
            skipped.
    """
    numbers = [Step(check_whole(step, "steps", least=0)) for step in steps]
    if not numbers:
        raise InvalidArgumentError("steps=[] must name a step, such as [7] or range(3)")
    found = [cursor.sequences_in(step) for step in numbers]
    sequences = _table(found, max(map(len, found)))
    made = make(sequences)
    rows = made.batch_rows or sequences.numbers.shape[1]
    if cursor.run.takes_batches:  # Each of their documents is a row.
        found = [_by_document(cursor, own.numbers) for own in found]
    return Plan(
        step=np.repeat(numbers, rows),
        row=np.tile(np.arange(rows), len(numbers)),
        sequence=_table(found, rows).numbers.reshape(-1),
        segments=made.segments,
        epoch=np.zeros_like(made.segments.row) if made.epoch is None else made.epoch,
        bundles=made.bundles,
    )


def _by_document(cursor: Cursor, batches: Int64Array) -> Sequences:
    """Return the sequence of each document; sequences are batches of documents."""
    own = batches[batches != NO_SEQUENCE]
    each = [len(cursor.run.documents_of(sequence)) for sequence in own.tolist()]
    return Sequences(np.repeat(own, each))


def _table(steps: Sequence[Sequences], width: int) -> Sequences:
    """Return sequences of steps as [steps, width], filled up with padding."""
    lines = (((row, slice(len(own))), own) for row, own in enumerate(steps))
    return Sequences.placed((len(steps), width), lines)
