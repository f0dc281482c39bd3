"""The course of a mixture of datasets in file order."""

from __future__ import annotations

import numpy as np

from pagefeed.arrays import Int64Array
from pagefeed.mixture.course import Course
from pagefeed.mixture.tree import MAX_TURN

__all__ = ["CourseInOrder"]


class CourseInOrder(Course):
    """A course whose local positions of a dataset rise with the position.

    Which dataset comes when is as in any course. Its lanes take turns of a dataset in
    an order of their own, so that the number of its turns before, in all lanes, is the
    local position: the cost is that of all lanes instead of one.

    Example:
        >>> from pagefeed.mixture import Part, Schedule, Span
        >>> sizes = [Part(name=name, fingerprint="", num_units=9, num_tokens=9)
        ...          for name in ("a", "b")]
        >>> schedule = Schedule(
        ...     parts=tuple(sizes), spans=(Span(0, 0, (0.75, 0.25)),), digest="")
        >>> course = CourseInOrder(schedule, num_lanes=8, seed=0)
        >>> dataset, local = course.at(np.arange(16))
        >>> local[dataset == 1].tolist()
        [0, 1, 2, 3]
    """

    def at(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return dataset and local position, int64 each, of positions below the end."""
        dataset, local = super().at(positions)
        for each in np.flatnonzero(np.bincount(dataset)).tolist():
            mine = dataset == each
            local[mine] = self.counts_before(each, positions[mine])
        return dataset, local

    def positions(self, dataset: int, local: Int64Array) -> Int64Array:
        """Return the positions of local positions of a dataset: undo :meth:`at`.

        Returns:
            int64 [local]; -1 for those that are never delivered.
        """
        end = self.natural_end
        last = MAX_TURN * self.num_lanes if end is None else end
        # The last position before which there are no more than ``local``.
        found = np.zeros(len(local), dtype=np.int64)
        beyond = np.full(len(local), last + 1)
        while (beyond - found > 1).any():
            middle = (found + beyond) // 2
            few = self.counts_before(dataset, middle) <= local
            found = np.where(few, middle, found)
            beyond = np.where(few, beyond, middle)
        return np.where(found < last, found, -1)

    def following(self, position: int) -> Int64Array:
        """Return the next local position of every dataset.

        Returns:
            int64 [datasets, 1]: all lanes are as one.
        """
        return self.counts(position)[:, None]
