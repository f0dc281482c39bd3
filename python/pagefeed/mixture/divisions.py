"""Borders in a balanced mixture over which no sequence is moved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.balance import NEVER, Part
from pagefeed.core._base import Int64Array
from pagefeed.mixture.course import Course

__all__ = ["MixtureDivisions"]

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Float64Array: TypeAlias = npt.NDArray[np.float64]

LEAST_PLACES = 64
"""Places of a rank in an epoch, so that it is balanced."""
LEAST_APART = 32
"""Places of a rank between two ends of epochs, in the mean."""
LEAST_TURNS = 4
"""Turns of a lane in an epoch, at least, so that few are at its end."""


class MixtureDivisions:
    """Divides the positions of a mixture into parts that are balanced separately.

    A part ends where weights change, where the run ends, and at both ends of a turn of
    epochs: where the first lane goes on to a dataset's next epoch, and where the last
    one has. In between, the sequences of this dataset stay where they are. So do, at
    all times, those of datasets with epochs so short that hardly anything would be left
    to balance.

    Args:
        course: The course of the mixture.
        ranks: Ranks that are balanced.
        cuts: Further positions to divide at.
    """

    def __init__(self, course: Course, *, ranks: int, cuts: tuple[int, ...]) -> None:
        self._course, self._schedule, self._ranks = course, course.schedule, ranks
        self._starts = [change.start for change in self._schedule.changes]
        self._cuts = sorted({0, *self._starts, *cuts})
        self._usual = np.array([part.num_sequences for part in self._schedule.parts])
        self._turn = lru_cache(maxsize=1 << 14)(self._find_turn)

    def part_of(self, position: int) -> Part:
        """Return the part that has a position."""
        at = bisect_right(self._cuts, position)
        first, end = self._cuts[at - 1], (*self._cuts[at:], NEVER)[0]
        ends, stays = self._ends(position), self.staying(position)
        epoch_positions = int(self._ranks / max(ends[~stays].max(initial=0), 1e-12))
        for number, (epoch, _) in enumerate(self._places_at(position)):
            if stays[number]:  # It divides nothing but where it may end the run.
                last = self._schedule.parts[number].max_epochs or 1
                borders = [self._turn(number, last)[1]]
            else:
                borders = [*self._turn(number, epoch), *self._turn(number, epoch + 1)]
                stays[number] = position < borders[1]
            for border in borders:
                if border <= position:
                    first = max(first, border)
                else:
                    end = min(end, border)
        of_those = self._staying_places(stays) if stays.any() else None
        return Part(first, end, epoch_positions, of_those)

    def staying(self, position: int) -> BoolArray:
        """Return which datasets are left unbalanced, as their epochs are too short."""
        ends = self._ends(position)
        by_size = np.argsort(ends, kind="stable")
        stays = self._sizes(position) < LEAST_TURNS * self._course.num_lanes
        stays |= ends > 1 / LEAST_PLACES
        stays[by_size] |= np.cumsum(ends[by_size]) > 1 / LEAST_APART
        return stays & (ends > 0)

    def _ends(self, position: int) -> Float64Array:
        """Return how many epochs of each dataset can end in one turn of a rank.

        By the weights around a position alone: later changes do not count.
        """
        now = self._schedule.changes[bisect_right(self._starts, position) - 1]
        both = self._schedule.weights_before(now.start), now.weights
        shares = np.max([np.array(each) / sum(each) for each in both], axis=0)
        ends: Float64Array = shares * self._ranks / self._sizes(position)
        return ends

    def _places_at(self, position: int) -> list[tuple[int, int]]:
        """Return the greatest position of any lane in each dataset.

        That is the epoch, and the place there.
        """
        following = self._course.following(position + 1)
        delivered = (following - following.shape[1]).max(axis=1, initial=0)
        both = zip(self._schedule.parts, delivered[:, None], strict=True)
        found = (part.epochs_of(last) for part, last in both)
        return [(int(epoch[0]), int(place[0])) for epoch, place in found]

    def _sizes(self, position: int) -> Int64Array:
        """Return the sequences in the epoch of each dataset at a position."""
        if not self._schedule.has_grown:
            return self._usual
        both = zip(self._schedule.parts, self._places_at(position), strict=True)
        return np.array([part.size_of(*reached) for part, reached in both])

    def _find_turn(self, number: int, epoch: int) -> tuple[int, int]:
        """Return where the first lane begins an epoch, and where the last one does."""
        if epoch == 0:
            return 0, 0
        begin = self._schedule.parts[number].begin_of(epoch)
        lanes = self._course.following(0).shape[1]
        begins = self._course.positions(number, begin + np.arange(lanes))
        begins = begins[begins >= 0]
        end = self._course.delivered(number, epoch)
        return int(begins.min()) if len(
            begins
        ) else NEVER, NEVER if end is None else end

    def _staying_places(self, stays: BoolArray) -> Callable[[Int64Array], BoolArray]:
        def of(positions: Int64Array) -> BoolArray:
            dataset, _ = self._course.at(positions.ravel())
            return stays[dataset].reshape(positions.shape)

        return of
