"""The course of a mixture: from positions to (dataset, local position), and back.

Position p is turn ``p // num_lanes`` of lane ``p % num_lanes``. Every lane deals its
own turns out to the datasets. Its x-th turn of a dataset is local position
``x * num_lanes + lane`` of that dataset, counted through all its epochs. So a lane
always reads the same lane of each dataset, from front to back, even if weights change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, lazy
from pagefeed.mixture.chain import MAX_TURN
from pagefeed.mixture.lane_layout import LaneLayout
from pagefeed.mixture.schedule import Schedule
from pagefeed.mixture.stretches import ENDED, groups, turns_before

LEAST_LANES = 8
"""Fewest lanes of a mixture. With fewer, roundings may not even out."""

NEVER = 1 << 62
"""A position that is never reached."""


class Course:
    """Maps positions of a mixture to datasets and their local positions.

    A lane's turns are cut into rows with constant weights. In every row a chain deals
    the turns out to the datasets. The lanes' phases are evenly apart: in the first row
    the counts of two lanes differ by at most one, and a rare dataset is spread over
    time and lanes. When weights change, each lane's phase in the next row
    makes up for what the lane lacks, and a shift of all phases for what all lanes lack.
    So errors do not add up.

    With ``LEAST_LANES`` lanes or more, a search found no dataset further off its weight
    than 0.55 sequences per lane, and 0.60 over changes of weights. With fewer lanes
    roundings may not even out.

    Args:
        schedule: Datasets and weights.
        num_lanes: V.
        seed: Seed of the run.
        before: Another course with these lanes and this seed. Equal parts of it are
            reused.

    Raises:
        InvalidArgumentError: If all datasets of a stage run out before the next begins.

    Example:
        >>> from pagefeed.mixture import Component, WeightChange
        >>> sizes = [Component(name=name, data="", num_sequences=9, num_tokens=9)
        ...          for name in ("a", "b")]
        >>> schedule = Schedule(
        ...     components=tuple(sizes), digest="",
        ...     changes=(WeightChange(0, 0, (0.75, 0.25)),))
        >>> dataset, local = Course(schedule, num_lanes=1, seed=0).at(np.arange(5))
        >>> dataset.tolist(), local.tolist()
        ([0, 0, 1, 0, 0], [0, 1, 0, 2, 3])
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        num_lanes: int,
        seed: int,
        before: Course | None = None,
    ) -> None:
        self.schedule = schedule
        self.num_lanes = num_lanes
        is_like = before is not None and before.num_lanes == num_lanes
        self.layout: LaneLayout = LaneLayout(
            schedule,
            num_lanes=num_lanes,
            seed=seed,
            before=before.layout if before is not None and is_like else None,
        )
        layout = self.layout
        self._rows, self._chains = layout.rows, layout.chains
        self._find_tail(layout.turn, layout.ended)

    def at(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return dataset and local position, int64 each, of positions below the end."""
        if len(self._tail) and len(positions) and int(positions.max()) >= self._hole:
            after = np.clip(positions - self._hole, 0, len(self._tail) - 1)
            positions = np.where(positions < self._hole, positions, self._tail[after])
        turn = positions // self.num_lanes
        lane = positions - turn * self.num_lanes
        row = self._rows.find(lane, turn)
        dataset = np.empty(len(turn), dtype=np.int64)
        turn_of_dataset = np.empty(len(turn), dtype=np.int64)
        turn = turn - self._rows.start[row]
        for chain, which in groups(self._rows.chain[row]):
            dataset[which], turn_of_dataset[which] = self._chains[chain].deal(
                turn[which], self._rows.phases, row[which]
            )
        turn_of_dataset += self._rows.counts[row, dataset]
        return dataset, turn_of_dataset * self.num_lanes + lane

    def positions(self, dataset: int, local: Int64Array) -> Int64Array:
        """Return the positions of local positions of a dataset; the inverse of ``at``.

        Returns:
            int64 [local]; -1 for local positions that are never delivered.
        """
        lane, nth = local % self.num_lanes, local // self.num_lanes
        row = self._rows.find_count(dataset, lane, nth)
        turn = np.full(len(local), MAX_TURN)
        nth = nth - self._rows.counts[row, dataset]
        for chain, which in groups(self._rows.chain[row]):
            if chain == ENDED or dataset not in self._chains[chain].members:
                continue
            in_row = self._chains[chain].turns_of(
                dataset, nth[which], self._rows.phases, row[which]
            )
            turn[which] = in_row + self._rows.start[row[which]]
        reached = turn < self._rows.stop[row]
        positions = np.where(reached, turn, 0) * self.num_lanes + lane
        if len(self._tail):
            after = self._hole + np.searchsorted(self._tail, positions)
            positions = np.where(positions < self._hole, positions, after)
        return np.where(reached, positions, -1)

    def counts(self, position: int) -> Int64Array:
        """Return the sequences of each dataset before a position: int64 [datasets]."""
        return self._lane_counts(position).sum(axis=1)

    def following(self, position: int) -> Int64Array:
        """Return the local position at which each lane continues with a dataset.

        A dataset's local positions l with ``l < following[l % lanes]`` come
        before the position.

        Returns:
            int64 [datasets, lanes].
        """
        lane = np.arange(self.num_lanes)
        return self._lane_counts(position) * self.num_lanes + lane

    def _lane_counts(self, position: int) -> Int64Array:
        """Sequences before a position: int64 [datasets, lanes]."""
        turn = self._turns_before(np.array([position]))[0]
        row = self._rows.find(np.arange(self.num_lanes), turn)
        turn = turn - self._rows.start[row]
        counts = self._rows.counts[row]
        for chain, which in groups(self._rows.chain[row]):
            if chain != ENDED:
                phases = self._rows.phases[row[which]]
                counts[which] += self._chains[chain].counts(turn[which], phases)
        return counts.T

    def _turns_before(self, positions: Int64Array) -> Int64Array:
        """Turns of all lanes before positions: int64 [positions, lanes]."""
        turns = turns_before(np.minimum(positions, self._hole)[:, None], self.num_lanes)
        in_tail = np.clip(positions - self._hole, 0, len(self._tail))
        return turns + self._tail_turns[in_tail]

    @lazy
    def natural_end(self) -> int | None:
        """One past the last position if all datasets run out, else None."""
        return None if self._hole == NEVER else self._hole + len(self._tail)

    @property
    def end_of_changes(self) -> int:
        """Position after which weights cannot change any more: lanes have run out."""
        return self._hole

    def delivered(self, dataset: int, epochs: int) -> int | None:
        """Return the position after which ``epochs`` epochs of a dataset are delivered.

        None if it never is.
        """
        num_sequences = self.schedule.components[dataset].begin_of(epochs)
        last = np.arange(max(0, num_sequences - self.num_lanes), num_sequences)
        positions = self.positions(dataset, last)
        return None if positions.min() < 0 else int(positions.max()) + 1

    def _find_tail(self, turn: Int64Array, ended: npt.NDArray[np.bool_]) -> None:
        """Find the turns that are left when the first lane has run out.

        The lanes run out within a few turns of each other. Later positions go through
        the turns that are left, in order.
        """
        self._hole = NEVER
        self._tail = np.empty(0, dtype=np.int64)
        lane = np.arange(self.num_lanes)
        if ended.all():
            self._hole = int((turn * self.num_lanes + lane).min())
            first = self._hole // self.num_lanes
            turns = np.arange(first, int(turn.max()) + 1)[:, None]
            positions = turns * self.num_lanes + lane
            self._tail = positions[(turns < turn) & (positions >= self._hole)]
        # For each length of the tail, the number of its turns in each lane.
        self._tail_turns = np.zeros((len(self._tail) + 1, self.num_lanes), np.int64)
        self._tail_turns[1:] = (self._tail[:, None] % self.num_lanes == lane).cumsum(0)


class CourseInOrder(Course):
    """A course that delivers each dataset in the order of its local positions.

    Datasets come at the same positions as in a :class:`Course`. A local position is the
    number of earlier turns of the dataset in all lanes. So looking up a position costs
    work for all lanes, instead of one.

    Example:
        >>> from pagefeed.mixture import Component, Schedule, WeightChange
        >>> sizes = [Component(name=name, data="", num_sequences=9, num_tokens=9)
        ...          for name in ("a", "b")]
        >>> schedule = Schedule(
        ...     components=tuple(sizes), digest="",
        ...     changes=(WeightChange(0, 0, (0.75, 0.25)),))
        >>> course = CourseInOrder(schedule, num_lanes=8, seed=0)
        >>> dataset, local = course.at(np.arange(16))
        >>> local[dataset == 1].tolist()
        [0, 1, 2, 3]
    """

    def at(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return dataset and local position, int64 each, of positions below the end."""
        dataset, local = super().at(positions)
        for member in np.flatnonzero(np.bincount(dataset)).tolist():
            mine = dataset == member
            local[mine] = self._counts_before(member, positions[mine])
        return dataset, local

    def positions(self, dataset: int, local: Int64Array) -> Int64Array:
        """Return the positions of local positions of a dataset; the inverse of ``at``.

        Returns:
            int64 [local]; -1 for local positions that are never delivered.
        """
        end = self.natural_end
        last = MAX_TURN * self.num_lanes if end is None else end
        # Find the last position with at most ``local`` turns of the dataset before it.
        reached = np.zeros(len(local), dtype=np.int64)
        beyond = np.full(len(local), last + 1)
        while (beyond - reached > 1).any():
            middle = (reached + beyond) // 2
            few = self._counts_before(dataset, middle) <= local
            reached = np.where(few, middle, reached)
            beyond = np.where(few, beyond, middle)
        return np.where(reached < last, reached, -1)

    def following(self, position: int) -> Int64Array:
        """Return the next local position of every dataset.

        Returns:
            int64 [datasets, 1]: one value for all lanes.
        """
        return self.counts(position)[:, None]

    def _counts_before(self, dataset: int, positions: Int64Array) -> Int64Array:
        """Sequences of a dataset before positions: int64 [positions]."""
        turn, row = self._turns_and_rows(positions)
        turn = turn - self._rows.start[row]
        counts = np.tile(self._rows.counts[row, dataset], (len(turn), 1))
        for chain, which in groups(self._rows.chain[row]):
            if chain != ENDED and dataset in self._chains[chain].members:
                counts[:, which] += self._chains[chain].count(
                    dataset, turn[:, which], self._rows.phases, row[which]
                )
        return counts.reshape(-1, self.num_lanes).sum(axis=1)

    def _turns_and_rows(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Turns of all lanes before positions, and the rows in which they are.

        Returns:
            turns: int64 [positions, lanes].
            rows: int64 [lanes], if all of a lane's turns are in one row; otherwise both
                are of ``positions * lanes``: int64 [1, ...] and [...].
        """
        turn, lane = self._turns_before(positions), np.arange(self.num_lanes)
        first = self._rows.find(lane, turn.min(axis=0))
        if (first == self._rows.find(lane, turn.max(axis=0))).all():
            return turn, first
        lane = np.broadcast_to(lane, turn.shape).ravel()
        return turn.reshape(1, -1), self._rows.find(lane, turn.ravel())
