"""Borders in a balanced mixture over which no sequence is moved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.balance import NEVER, Division
from pagefeed.core._base import Int64Array
from pagefeed.mixture.course import Course

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Float64Array: TypeAlias = npt.NDArray[np.float64]

LEAST_SLOTS = 64
"""Places of a rank in an epoch, so that it is balanced."""
LEAST_APART = 32
"""Places of a rank between two ends of epochs, in the mean."""
LEAST_TURNS = 4
"""Turns of a lane in an epoch, at least, so that few are at its end."""


class MixtureDivisions:
    """Divides the positions of a mixture into divisions that are balanced separately.

    A division ends where weights change, where the run ends, where the first lane
    continues with a dataset's next epoch, and where the last lane does. Between these
    two positions, the sequences of this dataset keep their positions. Datasets with
    very short epochs always keep theirs, as hardly anything would be left to balance.

    Args:
        course: The course of the mixture.
        ranks: Ranks that are balanced.
        cuts: Further positions to divide at.
    """

    def __init__(self, course: Course, *, ranks: int, cuts: tuple[int, ...]) -> None:
        self._course, self._schedule, self._ranks = course, course.schedule, ranks
        self._starts = [change.start for change in self._schedule.changes]
        self._cuts = sorted({0, *self._starts, *cuts})
        self._usual = np.array(
            [component.num_sequences for component in self._schedule.components]
        )
        self._turn = lru_cache(maxsize=1 << 14)(self._find_turn)

    def division_of(self, position: int) -> Division:
        """Return the division that has a position."""
        at = bisect_right(self._cuts, position)
        first, end = self._cuts[at - 1], (*self._cuts[at:], NEVER)[0]
        ends, stays = self._ends(position), self.staying(position)
        epoch_positions = int(self._ranks / max(ends[~stays].max(initial=0), 1e-12))
        for dataset, epoch in enumerate(self._epochs_at(position)):
            if stays[dataset]:  # Only the possible end of the run divides it.
                last = self._schedule.components[dataset].max_epochs or 1
                borders = [self._turn(dataset, last)[1]]
            else:
                borders = [*self._turn(dataset, epoch), *self._turn(dataset, epoch + 1)]
                stays[dataset] = position < borders[1]
            for border in borders:
                if border <= position:
                    first = max(first, border)
                else:
                    end = min(end, border)
        of_those = self._staying_positions(stays) if stays.any() else None
        return Division(first, end, epoch_positions, of_those)

    def staying(self, position: int) -> BoolArray:
        """Return which datasets are left unbalanced, as their epochs are too short."""
        ends = self._ends(position)
        by_size = np.argsort(ends, kind="stable")
        stays = self._sizes(position) < LEAST_TURNS * self._course.num_lanes
        stays |= ends > 1 / LEAST_SLOTS
        stays[by_size] |= np.cumsum(ends[by_size]) > 1 / LEAST_APART
        return stays & (ends > 0)

    def _ends(self, position: int) -> Float64Array:
        """Return how many epochs of each dataset can end in one turn of a rank.

        Only the weights around the position count; later changes do not.
        """
        now = self._schedule.changes[bisect_right(self._starts, position) - 1]
        both = self._schedule.weights_before(now.start), now.weights
        shares = np.max([np.array(weights) / sum(weights) for weights in both], axis=0)
        ends: Float64Array = shares * self._ranks / self._sizes(position)
        return ends

    def _epochs_at(self, position: int) -> list[int]:
        """Return the last epoch that any lane has begun, of each dataset."""
        following = self._course.following(position + 1)
        delivered = (following - following.shape[1]).max(axis=1, initial=0)
        both = zip(self._schedule.components, delivered[:, None], strict=True)
        return [int(component.epochs_of(last)[0][0]) for component, last in both]

    def _sizes(self, position: int) -> Int64Array:
        """Return the sequences in the epoch of each dataset at a position."""
        if not self._schedule.has_grown:
            return self._usual
        both = zip(self._schedule.components, self._epochs_at(position), strict=True)
        return np.array([component.size_of(epoch) for component, epoch in both])

    def _find_turn(self, dataset: int, epoch: int) -> tuple[int, int]:
        """Return where the first lane begins an epoch, and where the last one does."""
        if epoch == 0:
            return 0, 0
        begin = self._schedule.components[dataset].begin_of(epoch)
        lanes = self._course.following(0).shape[1]
        begins = self._course.positions(dataset, begin + np.arange(lanes))
        begins = begins[begins >= 0]
        end = self._course.delivered(dataset, epoch)
        return int(begins.min()) if len(
            begins
        ) else NEVER, NEVER if end is None else end

    def _staying_positions(self, stays: BoolArray) -> Callable[[Int64Array], BoolArray]:
        def of(positions: Int64Array) -> BoolArray:
            dataset, _ = self._course.at(positions.ravel())
            return stays[dataset].reshape(positions.shape)

        return of
