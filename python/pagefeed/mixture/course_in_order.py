"""The course of a mixture of datasets in file order."""

from __future__ import annotations

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.mixture.course import Course
from pagefeed.mixture.stretches import ENDED, groups
from pagefeed.mixture.tree import MAX_TURN

__all__ = ["CourseInOrder"]


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
        # The last position before which there are no more than ``local``.
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
        for tree, which in groups(self._rows.tree[row]):
            if tree != ENDED and dataset in self._trees[tree].root.members:
                counts[:, which] += self._trees[tree].count(
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
