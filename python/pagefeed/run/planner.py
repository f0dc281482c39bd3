"""From steps to plans: which token ranges go to which rows of which batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array, distinct, finished
from pagefeed.errors import InvalidArgumentError
from pagefeed.run.route import NO_POSITION, Route
from pagefeed.sequences import Segments, Sequences

__all__ = [
    "NO_SEQUENCE",
    "BatchPlan",
    "Delivery",
    "Planner",
    "plan_batches",
    "sequence_of_slot",
]

NO_SEQUENCE = -1
"""Stands for a row of padding."""

PIECE_SEQUENCES = 1 << 14
"""Sequences of a piece of a plan: with several of most pages, as pages are looked up
rather than sequences, which would cost twice as much; few enough for a millisecond or
two, once in as many sequences."""


class BatchPlan(NamedTuple):
    """What the engine takes: segments of consecutive batches, sorted by batch."""

    batch_offsets: npt.NDArray[np.uint32]
    page: npt.NDArray[np.uint64]
    row: npt.NDArray[np.uint32]
    first_token: npt.NDArray[np.uint32]
    num_tokens: npt.NDArray[np.uint32]
    destination_row: npt.NDArray[np.uint32]
    destination_offset: npt.NDArray[np.uint32]
    bundles: tuple[npt.NDArray[Any], ...] | None = None
    """The bundles that ``page`` refers to, as the engine takes them."""


class Delivery(Protocol):
    """The sequences of an iteration by position."""

    def deliver(self, positions: Int64Array) -> Iterator[Int64Array | None]:
        """Yield the sequences at rising positions, in parts, and None after other work.

        No step takes more than a few milliseconds.
        """

    def begin_next_epoch(self, position: int, end: int | None) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""


class Planner:
    """Plans the batches of a route.

    Args:
        delivery: What is delivered where.
        route: The way through the positions.
        plan_sequences: Plans whole batches of sequences.
    """

    def __init__(
        self,
        delivery: Delivery,
        route: Route,
        plan_sequences: Callable[[Int64Array], tuple[Any, ...]],
    ) -> None:
        self._delivery = delivery
        self._plan_sequences = plan_sequences
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
        position = self.route.position_after(step)
        return self._delivery.begin_next_epoch(position, self.route.end)

    def pieces(
        self, first: int, count: int
    ) -> Iterator[tuple[int, tuple[Any, ...]] | None]:
        """Plan these steps in pieces, so that no piece takes long to make.

        Yields:
            The next few steps: how many, and their plan; None after other work.
        """
        sequences = yield from self._reading(first, count)
        batch_size = self.route.batch_size
        at_once = max(1, PIECE_SEQUENCES // batch_size)
        for begin in range(0, count, at_once):
            steps = min(at_once, count - begin)
            part = sequences[begin * batch_size : (begin + steps) * batch_size]
            yield steps, self._plan_sequences(part)

    def _reading(self, first: int, count: int) -> Generator[None, None, Int64Array]:
        """Find the sequences of steps, in steps of a few milliseconds."""
        positions = self.route.positions(first, count)
        rows = np.flatnonzero(positions != NO_POSITION)
        sequences = np.full(len(positions), NO_SEQUENCE)
        done = 0
        for part in self._delivery.deliver(positions[rows]):
            if part is not None:
                sequences[rows[done : done + len(part)]] = part
                done += len(part)
            yield
        return sequences


def plan_batches(cut: Sequences, sequences: Int64Array, batch_size: int) -> BatchPlan:
    """Plan batches of the ``sequences`` of a dataset, in their order.

    Args:
        cut: The dataset, cut.
        sequences: int64 [batches * batch_size]; ``NO_SEQUENCE`` leaves a row of
            padding.
        batch_size: Rows of a batch.
    """
    is_sequence = sequences != NO_SEQUENCE
    if is_sequence.all():
        segments = cut.segments(sequences)
        place = segments.sequence
    else:
        places = np.flatnonzero(is_sequence)
        segments = cut.segments(sequences[places])
        place = places[segments.sequence]
    borders = np.arange(0, len(sequences) + 1, batch_size)
    return BatchPlan(
        batch_offsets=np.searchsorted(place, borders).astype(np.uint32),
        page=segments.page.astype(np.uint64),
        row=segments.row.astype(np.uint32),
        first_token=segments.first_token.astype(np.uint32),
        num_tokens=segments.num_tokens.astype(np.uint32),
        destination_row=(place % batch_size).astype(np.uint32),
        destination_offset=segments.offset.astype(np.uint32),
        bundles=_bundles(cut, segments),
    )


def _bundles(cut: Sequences, segments: Segments) -> tuple[npt.NDArray[Any], ...] | None:
    """Return the bundles of the segments, None if there are no such."""
    if cut.layout.packing is None or not len(segments.page):
        return None
    bundles = cut.bundles(distinct(segments.page))
    wide = {"key", "part_page"}
    return tuple(
        part.astype(np.uint64 if name in wide else np.uint32)
        for name, part in bundles._asdict().items()
    )


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
