"""The route of a rank: which positions its steps take, and which they skip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NewType

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, lazy
from pagefeed.core.run.delivered import Sequences
from pagefeed.errors import InvalidArgumentError

NO_POSITION = -1
"""Marks a row of padding."""

Ranges = tuple[tuple[int, int], ...]
"""Ranges of positions: first, and one past the last."""


Step = NewType("Step", int)
"""Number of a step in its iteration, as users know it: skipped steps have one, too."""

StepIndex = NewType("StepIndex", int)
"""Index of a step among those of a route, which begins anywhere and skips steps."""

RunPosition = NewType("RunPosition", int)
"""Position as a cursor counts them: not that of a state, which begins at its epoch."""

NEVER = 1 << 62
"""A position that is never reached."""


class Slot(NamedTuple):
    """A row of a batch that some rank gets in an iteration."""

    step: int
    """Step of the iteration."""
    rank: int
    """Rank that is given the batch."""
    row: int
    """Row of the batch."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """The positions that one rank takes in one iteration, step by step.

    Without skips, step s takes the positions ``start + (s * batch_size + j) *
    world_size + rank``, j below ``batch_size``. If ``num_workers`` processes share a
    rank's steps, each takes every ``num_workers``-th: the k-th step of this process is
    step ``k * num_workers + worker``.

    Steps pass over skipped positions as if these did not exist. Each step keeps the
    number that its first position has without skips. The number of a skipped step is
    not used again.

    If the last step has fewer sequences than there are ranks, some rank would get none,
    and its mean loss would be undefined. Then the last step borrows the last row of
    every rank's batch before it, if these batches have other rows.
    """

    start: int
    """First position, if it is not skipped."""
    end: int | None
    """One past the last position of the iteration; None: without end."""
    batch_size: int
    """Sequences of a step on one rank."""
    rank: int
    """This rank."""
    world_size: int
    """Number of ranks."""
    drop_last: bool
    """Leave the last, incomplete step out."""
    first_step: int = 0
    """Number of the step at ``start``."""
    skipped: Ranges = ()
    """Positions to skip: disjoint ranges, in order."""
    worker: int = 0
    """Number of this worker among those that share the steps of the rank."""
    num_workers: int = 1
    """Number of workers that share the steps of the rank."""

    @property
    def step_sequences(self) -> int:
        """Sequences of a step on all ranks."""
        return self.batch_size * self.world_size

    def rows(self, index: int) -> int:  # noqa: ARG002 - others have steps of more sizes
        """Return the rows of this rank's batch of a step."""
        return self.batch_size

    def num_alike(self, index: int) -> int | None:  # noqa: ARG002
        """Return how many steps in a row have as many rows; None for all."""
        return None

    def weight(self, index: StepIndex) -> float:
        """Return the weight of this rank's part of a step in a mean over ranks.

        It is the rank's share of the step's sequences, times the number of ranks.
        """
        whole = replace(self, worker=0, num_workers=1)  # Whichever worker takes it.
        here = int((whole.positions(index, 1) != NO_POSITION).sum())
        begin, end = self._first_place(index), self._first_place(index + 1)
        if self.end is not None:
            end = min(end, int(self._places(self.end)))
        return here * self.world_size / max(1, int(end - begin))

    @property
    def num_sequences(self) -> int | None:
        """Number of sequences left for all ranks together, without skipped ones."""
        if self.end is None:
            return None
        return max(0, int(self._places(self.end)) - self.start)

    @property
    def num_steps(self) -> int | None:
        """Steps to the end, equal on all ranks."""
        if (num_sequences := self.num_sequences) is None:
            return None
        steps, rest = self._divided(num_sequences)
        return int(steps) + bool(rest > 0 and not self.drop_last)

    @property
    def num_taken_here(self) -> int | None:
        """Steps to the end that this process takes."""
        steps = self.num_steps
        if steps is None:
            return None
        return len(range(self.worker, steps, self.num_workers))

    @lazy
    def _borrowed(self) -> int:
        """Sequences that the last step borrows from the step before."""
        num_sequences = self.num_sequences
        if num_sequences is None or self.drop_last or self.batch_size == 1:
            return 0
        steps, rest = divmod(num_sequences, self.step_sequences)
        is_short = 0 < rest < self.world_size and steps > 0
        return self.world_size if is_short else 0

    def positions(self, first: int, count: int) -> Int64Array:
        """Return the positions of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size], ascending except for ``NO_POSITION`` for
            padding.
        """
        step = np.arange(first, first + count) * self.num_workers + self.worker
        turn = np.arange(self.batch_size) * self.world_size
        turns = self.start + step[:, None] * self.step_sequences + turn
        last = self.num_steps
        if self._borrowed and last is not None:
            turns[step == last - 1] -= self._borrowed
        places = self._places_in(turns)
        positions = self._positions(places.reshape(-1))
        if last is None or self.end is None:
            return positions
        if self._borrowed:
            positions.reshape(places.shape)[step == last - 2, -1] = NO_POSITION
        return np.where(positions < self.end, positions, NO_POSITION)

    def progression(self, first: int, count: int) -> range | None:
        """Return :meth:`positions` as a range, if they are one without padding."""
        if self.num_workers > 1 or len(self._gaps[0]):
            return None
        last = self.num_steps
        if self._borrowed and last is not None and first + count > last - 2:
            return None
        begin = self.start + first * self.step_sequences + self.rank
        positions = range(begin, begin + count * self.step_sequences, self.world_size)
        is_whole = self.end is None or not positions or positions[-1] < self.end
        return positions if is_whole else None

    def position_after(self, num_taken: int) -> RunPosition:
        """Return the position after ``num_taken`` steps of this process."""
        consumed = self._first_position(num_taken * self.num_workers)
        return RunPosition(consumed if self.end is None else min(consumed, self.end))

    def step_after(self, num_taken: int) -> Step:
        """Return the step at which a process continues after ``num_taken`` steps."""
        return self.number_of(StepIndex(num_taken * self.num_workers))

    def number_of(self, index: StepIndex) -> Step:
        """Return the number of the ``index``-th step from the start."""
        last, last_number = self._last_number
        own = self._number_at(self.start + self._distance(index))
        return Step(max(own, last_number + index - last) if index >= last else own)

    def _number_at(self, kept_position: int) -> int:
        position = int(self._positions(np.array([kept_position]))[0])
        if self.end is not None:  # Skips after the end are not steps.
            position = min(position, self.end)
        return self.first_step + (position - self.start) // self.step_sequences

    @lazy
    def _last_number(self) -> tuple[int, int]:
        """Index and number of the last step.

        Borrowed sequences do not count: the step has the number of its first sequence
        that is not borrowed. It keeps this number if the step before it is skipped. The
        step is then known by its size: more than one sequence for each rank, fewer than
        two.
        """
        steps = self.num_steps
        if not steps or self.end is None:
            return NEVER, 0
        last_place = self.start + (steps - 1) * self.step_sequences
        rest = int(self._places(self.end)) - last_place
        if not self.drop_last and self.world_size < rest < 2 * self.world_size:
            last_place += self.world_size
        return steps - 1, self._number_at(last_place)

    def number_here(self, num_taken: int) -> Step:
        """Return the step after ``num_taken`` steps of this process."""
        return self.number_of(StepIndex(num_taken * self.num_workers + self.worker))

    def index_of(self, step: Step) -> StepIndex:
        """Return the index of the step with this number, or of the next step after it.

        The number after the last step gives ``num_steps``.
        """
        position = self.start + (step - self.first_step) * self.step_sequences
        distance = int(self._places(position)) - self.start
        index = -(-distance // self.step_sequences)
        last, last_number = self._last_number
        if index < last or step <= last_number:
            return StepIndex(min(index, last))
        behind = StepIndex(last + 1)
        if step <= self.number_of(behind):
            return behind
        return StepIndex(max(last + 2, index))

    def checked_index(self, step: Step, *, past_end: bool = False) -> StepIndex:
        """Return :meth:`index_of` for a step that exists, or for the end if allowed.

        Raises:
            InvalidArgumentError: If there is no such step.
        """
        last, index = self.num_steps, self.index_of(step)
        if step < self.first_step or (last is not None and index >= last + past_end):
            end = (
                "" if last is None else f" and below {self.number_of(StepIndex(last))}"
            )
            raise InvalidArgumentError(
                f"step={step} is not in this iteration: its steps are at least "
                f"{self.first_step}{end}"
            )
        return index

    def slots(self, positions: Int64Array) -> list[Slot]:
        """Return the slots in which positions are delivered, without skipped positions.

        Raises:
            InvalidArgumentError: If a position lies before the start, and steps of
                other sizes came before it.
        """
        if np.any(positions < self.start) and self.first_step > 0:
            raise InvalidArgumentError(
                f"some of its batches were delivered before step {self.first_step}, "
                "where this run "
                "resumed with other sizes"
            )
        begin, end, _ = self._gaps
        gap = np.searchsorted(begin, positions, side="right")
        is_skipped = (gap > 0) & (positions < np.append(end, 0)[gap - 1])
        kept = positions[(positions >= self.start) & ~is_skipped]
        last = self.num_steps
        return sorted(
            Slot(self.number_of(step), rank, row)
            for step, rank, row in zip(
                *(column.tolist() for column in self.dealt(kept)), strict=True
            )
            if last is None or step < last
        )

    def dealt(self, positions: Int64Array) -> tuple[Int64Array, ...]:
        """Return the slots of positions after the start, none of which is skipped.

        Returns:
            Index of the step, rank and row of each position; int64 each. A step after
            the last one is never taken.
        """
        places, last = self._places(positions) - self.start, self.num_steps
        index, in_step = self._divided(places)
        if self._borrowed and last is not None:
            begin = (last - 1) * self.step_sequences - self._borrowed
            index = np.where(places < begin, index, last - 1)
            in_step = np.where(places < begin, in_step, places - begin)
        row, rank = self._dealt(index, in_step)
        return index, rank, row

    def span(self, first: StepIndex, stop: StepIndex) -> tuple[int, int]:
        """Return the range of positions from step index ``first`` up to ``stop``."""
        last_place = self._first_place(stop) - 1
        begin = self._first_position(first)
        end = int(self._positions(np.array([last_place]))[0]) + 1
        return begin, end if self.end is None else min(end, self.end)

    def _first_position(self, index: int) -> int:
        return int(self._positions(np.array([self._first_place(index)]))[0])

    def _first_place(self, index: int) -> int:
        first = self.start + self._distance(index)
        return first - self._borrowed if index + 1 == self.num_steps else first

    # Overridden for steps of other sizes, or dealt in another way.

    def _distance(self, index: int) -> int:
        """Sequences between the start and a step."""
        return index * self.step_sequences

    def _divided(self, distance: Any) -> tuple[Any, Any]:
        """Return the step that holds a distance from the start, and the rest in it."""
        return np.divmod(distance, self.step_sequences)

    def _dealt(
        self,
        index: Int64Array,  # noqa: ARG002
        in_step: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:
        """Return row and rank of positions within steps."""
        return np.divmod(in_step, self.world_size)

    def _places_in(self, turns: Int64Array) -> Int64Array:
        """Return the position of this rank in each turn of all ranks."""
        return turns + self.rank

    # A place is a position less the skipped ones between the start and it.

    @lazy
    def _gaps(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Begin and end of each skipped range, and positions skipped before it."""
        ahead = [(max(a, self.start), b) for a, b in self.skipped if b > self.start]
        begin, end = np.array(ahead, dtype=np.int64).reshape(-1, 2).T
        return begin, end, np.concatenate([[0], np.cumsum(end - begin)])

    def _positions(self, places: Int64Array) -> Int64Array:
        begin, _, num_skipped = self._gaps
        if not len(begin):
            return places
        gap = np.searchsorted(begin - num_skipped[:-1], places, side="right")
        return places + num_skipped[gap]

    def _places(self, positions: npt.ArrayLike) -> Int64Array:
        """Number of kept positions before each position."""
        begin, end, num_skipped = self._gaps
        position = np.asarray(positions, dtype=np.int64)
        gap = np.searchsorted(begin, position, side="right")
        overshoot = np.where(gap > 0, np.append(end, 0)[gap - 1] - position, 0)
        return position - num_skipped[gap] + np.maximum(overshoot, 0)


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return ranges in order, with touching ones joined.

    Example:
        >>> merge_ranges([(5, 7), (0, 2), (2, 3)])
        ((0, 3), (5, 7))
    """
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif begin < end:
            merged.append((begin, end))
    return tuple(merged)


MAX_HORIZON = 1 << 17
"""Sequences that are planned ahead at most where a page's sequences are anywhere."""

PIECE_STEPS = 32
"""Steps of a piece of a plan: the consumer of one step waits for a whole piece."""

LEAST_SEQUENCES = 1 << 9
"""Sequences of each dataset in a piece, at least, so that NumPy calls cost little."""

MOST_SEQUENCES = 1 << 13
"""Sequences of a piece at most, where a step has many: planning takes a millisecond."""


def in_pieces(
    sequences: Sequences, rows: int, planned_each: float, least: int, most: int
) -> Iterator[Sequences]:
    """Yield the sequences of some steps in pieces that take little time to plan.

    Args:
        sequences: Sequences of whole steps.
        rows: Sequences of a step.
        planned_each: Items to plan per sequence.
        least: Sequences of a piece at least.
        most: Sequences of a piece at most, if these are a step or more.
    """
    size = min(max(PIECE_STEPS * rows, least), MOST_SEQUENCES, most)
    size = max(1, int(size / planned_each) // rows) * rows
    for begin in range(0, len(sequences), size):
        yield sequences[begin : begin + size]
