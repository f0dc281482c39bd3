"""From steps to plans: their sequences, and where the tokens of these go."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array, UInt64Array, distinct, finished
from pagefeed.errors import InvalidArgumentError
from pagefeed.run.route import NO_POSITION, Route
from pagefeed.run.source import Positions, Track
from pagefeed.sequences import AnyIndex, Segments

__all__ = [
    "NO_SEQUENCE",
    "BatchPlan",
    "Planner",
    "plan_batches",
    "sequence_of_slot",
]

NO_SEQUENCE = -1
"""Stands for a row of padding."""

PIECE_STEPS = 8
"""Steps of a piece of a plan, which one of them waits for."""

LEAST_SEQUENCES = 1 << 9
"""Sequences of a piece at least, of each dataset: so that NumPy's calls cost little."""

MOST_SEQUENCES = 1 << 13
"""Sequences of a piece at most, where steps are of many: a millisecond."""


class BatchPlan(NamedTuple):
    """What the engine takes: segments of consecutive batches, sorted by batch."""

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
    """The bundles that ``page`` refers to, as the engine takes them."""


class Planner:
    """Finds the sequences of a route's steps, some steps ahead of their plans.

    Args:
        track: What is delivered where.
        route: The way through the positions.
        num_datasets: How many the sequences of a step come from.
    """

    def __init__(self, track: Track, route: Route, num_datasets: int = 1) -> None:
        self._num_datasets = num_datasets
        self.track = track
        """What is delivered where."""
        self.route = route
        """The way through the positions."""

    def sequences(self, first: int, count: int) -> Int64Array:
        """Return the sequences of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size]; ``NO_SEQUENCE`` past the end of the iteration.
        """
        return finished(self._reading(first, count))

    def begin_next_epoch(self, step: int) -> Iterator[None]:
        """Prepare the epoch after the one that a step begins in, in short steps.

        An epoch of very many blocks takes a pass over them before its first batch.
        """
        return self.track.begin_next_epoch(self.route.position_after(step))

    def pieces(
        self,
        first: int,
        count: int,
        most: int = MOST_SEQUENCES,
        *,
        is_begin: bool = False,
    ) -> Iterator[Int64Array | None]:
        """Find the sequences of these steps, in pieces that are soon planned.

        Args:
            first: First step.
            count: Number of steps.
            most: Sequences of a piece at most, if these are a step or more.
            is_begin: Whether an engine begins with them: it would read again what it
                let go of for want of a next piece, so that these are longer.

        Yields:
            Those of the next few steps, all of each; None after other work.
        """
        sequences = yield from self._reading(first, count)
        batch_size = self.route.batch_size
        least = (LEAST_SEQUENCES << is_begin) * self._num_datasets
        size = min(max(PIECE_STEPS * batch_size, least), MOST_SEQUENCES, most)
        size = max(1, size // batch_size) * batch_size
        for begin in range(0, len(sequences), size):
            yield sequences[begin : begin + size]

    def _reading(self, first: int, count: int) -> Generator[None, None, Int64Array]:
        """Find the sequences of steps, in steps of a few milliseconds."""
        positions = self.route.progression(first, count)
        if positions is not None:
            return (yield from self._found(positions))
        with_padding = self.route.positions(first, count)
        rows = np.flatnonzero(with_padding != NO_POSITION)
        sequences = np.full(len(with_padding), NO_SEQUENCE)
        sequences[rows] = yield from self._found(with_padding[rows])
        return sequences

    def _found(self, positions: Positions) -> Generator[None, None, Int64Array]:
        parts = []
        for part in self.track.sequences(positions):
            if part is not None:
                parts.append(part)
            yield
        return np.concatenate(parts or [np.empty(0, dtype=np.int64)])


def plan_batches(index: AnyIndex, sequences: Int64Array, batch_size: int) -> BatchPlan:
    """Plan batches of the ``sequences`` of a dataset, in their order.

    Args:
        index: The sequences of the dataset.
        sequences: int64 [batches * batch_size]; ``NO_SEQUENCE`` leaves a row of
            padding.
        batch_size: Rows of a batch.
    """
    is_sequence = sequences != NO_SEQUENCE
    if is_sequence.all():
        segments = index.segments(sequences)
        place = segments.sequence
    else:
        places = np.flatnonzero(is_sequence)
        segments = index.segments(sequences[places])
        place = places[segments.sequence]
    return BatchPlan(
        num_batches=len(sequences) // batch_size,
        page=_unsigned(segments.page),
        row=segments.row,
        first_token=segments.first_token,
        num_tokens=segments.num_tokens,
        destination=place,
        destination_offset=segments.offset,
        bundles=_bundles(index, segments),
    )


def _bundles(
    index: AnyIndex, segments: Segments
) -> tuple[npt.NDArray[Any], ...] | None:
    """Return the bundles of the segments, None if there are no such."""
    if index.layout.packing is None or not len(segments.page):
        return None
    bundles = index.bundles(distinct(segments.page))
    key, num_sequences, part_offsets, page, row, rows = bundles
    return _unsigned(key), num_sequences, part_offsets, _unsigned(page), row, rows


def _unsigned(numbers: Int64Array) -> UInt64Array:
    """The same numbers, none negative, in the same memory."""
    return np.ascontiguousarray(numbers).view(np.uint64)


def sequence_of_slot(planner: Planner, step: int, row: int) -> int:
    """Return the sequence that a row of this rank's batches holds.

    Raises:
        InvalidArgumentError: If there is none: no such step or row, or padding.
    """
    route = planner.route
    index = route.checked_index(step)
    if not 0 <= row < route.batch_size:
        raise InvalidArgumentError(f"row={row} must lie below {route.batch_size}")
    if route.number_of(index) != step:
        raise InvalidArgumentError(f"step={step} is skipped")
    sequence = int(planner.sequences(index, 1)[row])
    if sequence == NO_SEQUENCE:
        raise InvalidArgumentError(f"step={step}, row={row} is padding")
    return sequence
