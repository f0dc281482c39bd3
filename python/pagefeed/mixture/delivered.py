"""Count the sequences of each dataset delivered before a position of a mixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed.balance import Dealing
from pagefeed.core._base import Int64Array, finished
from pagefeed.core.run import LoaderState, Positions, Sequences, gathered
from pagefeed.mixture.course import Course

MOST_SEQUENCES = 1 << 18
"""Longer stretches are not dealt to count exactly. Their counts are off by rounding."""
MOST_KEPT = 4
"""Stretches whose datasets are kept."""

DatasetsIn = Callable[[LoaderState, int, int], npt.NDArray[np.int16]]
"""Function that returns the dataset at each position of a range: int16."""


class Counted(Protocol):
    """A position of a mixture's run, with the course to count by."""

    run: Any
    begin: LoaderState

    @property
    def course(self) -> Course:
        """The dataset at each position, before ranks are balanced."""

    @property
    def balanced(self) -> Dealing | None:
        """The dealing of sequences to ranks by cost; None without ``balance=``."""

    def at(self, positions: Positions) -> Iterator[Sequences | None]:
        """Yield the sequences at positions, some at a time; None while it plans."""


def counts_before(cursor: Counted, position: int) -> Int64Array:
    """Return the sequences of each dataset before a position: int64 [datasets]."""
    course, balanced = cursor.course, cursor.balanced
    if balanced is None:
        return course.counts(position)
    begin, end = balanced.borders(position)
    if position == begin or end - begin > MOST_SEQUENCES:
        return course.counts(position)
    state = replace(
        cursor.begin, position=0, step=0, sizes=None, skipped=(), ended=None
    )
    dealt = cursor.run.datasets_in(state, begin, end)[: position - begin]
    counts: Int64Array = course.counts(begin)
    return counts + np.bincount(dealt, minlength=len(counts))


def datasets_in(at: Callable[[LoaderState], Counted]) -> DatasetsIn:
    """Return a function for the datasets of a stretch, which caches some results.

    Args:
        at: Function that returns the cursor at a state.
    """

    @lru_cache(maxsize=MOST_KEPT)
    def of(state: LoaderState, begin: int, end: int) -> npt.NDArray[np.int16]:
        cursor = at(state)
        names, run = cursor.course.schedule.names, cursor.run
        numbers = np.array([names.index(name) for name in run.names], dtype=np.int16)
        found = finished(gathered(cursor.at(range(begin, end))))
        of_run = run.index.dataset_of(found.numbers)
        return numbers[of_run]

    return of
