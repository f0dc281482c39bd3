"""Laying out a mixture: the turns of every lane, in rows of constant weights."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture.chain import BITS, MAX_TURN, Chain
from pagefeed.mixture.phases import Phases
from pagefeed.mixture.schedule import Schedule
from pagefeed.mixture.stretches import ENDED, LaneStretches, turns_before

NUM_CHECKPOINTS = 4
"""Number of last rows that another layout may continue from: a change of weights
divides the last interval, or an earlier one if a stage is still to come."""


class _Checkpoint(NamedTuple):
    """State of the layout before an interval."""

    num_intervals: int
    turn: Int64Array
    counts: Int64Array
    lacking: Int64Array


class LaneLayout:
    """Rows of all lanes, one after another: stages, pieces of anneals, the remainder.

    Args:
        schedule: Datasets and weights.
        num_lanes: V.
        seed: Seed of the run.
        before: Another layout of the same lanes, seed and datasets. Equal intervals are
            taken from it.

    Raises:
        InvalidArgumentError: If all datasets of a stage run out before the next begins.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        num_lanes: int,
        seed: int,
        before: LaneLayout | None = None,
    ) -> None:
        num_datasets = len(schedule.components)
        self.schedule = schedule
        self._num_lanes = num_lanes
        self._chain_numbers: dict[tuple[tuple[float, ...], tuple[int, ...]], int] = {}
        self._phases = Phases(schedule.names, num_lanes=num_lanes, seed=seed)
        self._capped = {
            dataset
            for dataset, component in enumerate(schedule.components)
            if component.max_epochs is not None
        }
        self._limits = np.stack(
            [self._lane_limits(component) for component in range(num_datasets)]
        )
        self.rows = LaneStretches(num_lanes, num_datasets)
        self.chains: list[Chain] = []
        """Chains that deal the turns of a row, by the numbers in the rows."""
        self.turn = np.zeros(num_lanes, dtype=np.int64)
        """Turns of each lane so far."""
        self.ended = np.zeros(num_lanes, dtype=bool)
        """Whether a lane has run out after them."""
        self._counts = np.zeros((num_lanes, num_datasets), dtype=np.int64)
        # The turns that a dataset lacks, in units of 2**-40.
        self._lacking = np.zeros_like(self._counts)
        self._intervals = list(schedule.intervals())
        self._checkpoints = deque[_Checkpoint](maxlen=NUM_CHECKPOINTS)
        if before is not None and before.schedule.components == schedule.components:
            self._continue(before)
        self._lay_out(self._checkpoints[-1].num_intervals if self._checkpoints else 0)

    def _continue(self, before: LaneLayout) -> None:
        """Take over the layout of the intervals that both have."""
        ours, theirs = self._intervals, before._intervals
        pairs = zip(ours, theirs, strict=False)
        same = next((n for n, (a, b) in enumerate(pairs) if a != b), len(theirs))
        checkpoints = [
            checkpoint
            for checkpoint in before._checkpoints
            if checkpoint.num_intervals <= same
        ]
        if not checkpoints:
            return
        self._checkpoints.extend(checkpoints)
        checkpoint = checkpoints[-1]
        self.turn, self._counts, self._lacking = (
            array.copy() for array in checkpoint[1:]
        )
        self.rows.take(before.rows, checkpoint.turn)
        self.chains = [*before.chains]
        self._chain_numbers, self._phases = {**before._chain_numbers}, before._phases

    def _lay_out(self, num_done: int) -> None:
        for interval in range(num_done, len(self._intervals)):
            start, stop, weights = self._intervals[interval]
            if interval > num_done or not num_done:
                now = self.turn, self._counts, self._lacking
                self._checkpoints.append(
                    _Checkpoint(interval, *(array.copy() for array in now))
                )
            end = np.full(self._num_lanes, MAX_TURN)
            if stop is not None:
                end = turns_before(stop, self._num_lanes)
            self._lay_interval(weights, end)
            if self.ended.any() and stop is not None:
                raise InvalidArgumentError(
                    f"from position {start} on all datasets with a weight reach their "
                    f"max_epochs, before the weights change at position {stop}: give "
                    "another dataset a weight, raise max_epochs, or begin the next "
                    "stage earlier"
                )
        self.rows.seal()

    def _lay_interval(self, weights: tuple[float, ...], end: Int64Array) -> None:
        """Add the rows up to ``end``. A row ends wherever a dataset runs out."""
        weighted = np.array(weights) > 0
        together = True
        while (going := (self.turn < end) & ~self.ended).any():
            active = weighted & (self._counts < self._limits.T)
            for key in np.unique(active[going], axis=0):
                alike = (active == key).all(axis=1)
                lanes = np.flatnonzero(alike & going)
                members = tuple(np.flatnonzero(key).tolist())
                if not members:
                    self.rows.add(lanes, self.turn, end, ENDED, self._counts, None)
                    self.ended[lanes] = True
                    continue
                chain_number = self._chain_number(weights, members)
                # Lanes without a turn in a short interval share phases, too.
                sharing = np.flatnonzero(alike & ~self.ended) if together else lanes
                chain = self.chains[chain_number]
                phases = self._phases.of(
                    chain, self._lacking, sharing, together=together
                )
                self._lay_row(chain_number, phases[lanes], lanes, end)
            # Once a dataset ran out in a lane, each lane is laid out alone: weights may
            # change before the dataset runs out in the others.
            together = False

    def _lay_row(
        self, member: int, phases: Int64Array, lanes: Int64Array, end: Int64Array
    ) -> None:
        """Add one row of some lanes, to the end or until a dataset runs out."""
        chain = self.chains[member]
        length = end[lanes] - self.turn[lanes]
        capped = [member for member in chain.members if member in self._capped]
        if capped:
            left = self._limits.T[lanes] - self._counts[lanes]
            length = np.minimum(length, chain.first_end(left, capped, phases))
        stop = self.turn.copy()
        stop[lanes] += length
        self.rows.add(lanes, self.turn, stop, member, self._counts, phases)
        self.turn = stop
        dealt = chain.counts(length, phases)
        self._counts[lanes] += dealt
        # Both may wrap around 2**64: their difference is small.
        self._lacking[lanes] += chain.shares * length[:, None] - (dealt << BITS)

    def _chain_number(
        self, weights: tuple[float, ...], members: tuple[int, ...]
    ) -> int:
        key = weights, members
        if key not in self._chain_numbers:
            self._chain_numbers[key] = len(self.chains)
            self.chains.append(Chain(weights, members))
        return self._chain_numbers[key]

    def _lane_limits(self, dataset: int) -> Int64Array:
        """Return the most turns a dataset can be given, by lane: int64 [lanes]."""
        epochs = self.schedule.components[dataset].max_epochs
        if epochs is None:
            return np.full(self._num_lanes, MAX_TURN)
        return turns_before(
            self.schedule.components[dataset].begin_of(epochs), self._num_lanes
        )
