"""One run through the epochs: plans ahead, and takes finished batches."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pagefeed import _core
from pagefeed.errors import CancelledError
from pagefeed.planner import Planner, Route

__all__ = ["Iteration"]

CHUNK_UNITS = 8192
"""Units planned at a time: enough for the overhead of NumPy's calls to vanish."""


class Iteration(Iterator[_core.Buffer]):
    """An iterator of finished batches; the engine works ahead of it.

    Args:
        engine: Takes the plans, returns the batches.
        planner: Makes the plans.
        route: The way through the epochs.
        horizon_units: Units of this rank to plan ahead, so that the engine knows the
            last use of every page it holds.
    """

    def __init__(
        self,
        *,
        engine: _core.Engine,
        planner: Planner,
        route: Route,
        horizon_units: int,
    ) -> None:
        self.num_taken = 0
        """Steps taken so far."""
        self._engine = engine
        self._planner = planner
        self._route = route
        self._chunk_steps = max(1, CHUNK_UNITS // route.batch_size)
        self._ahead_steps = horizon_units // route.batch_size + self._chunk_steps
        self._num_planned = 0
        self._process = os.getpid()
        self._open = True

    @property
    def position(self) -> int:
        """Units consumed by all ranks, counted through all epochs."""
        return self._route.position_after(self.num_taken)

    @property
    def num_steps_done(self) -> int:
        """Steps up to there, those of other processes of the rank included."""
        return self.num_taken * self._route.num_workers

    def close(self) -> None:
        """Stop; batches that were planned and not taken are forgotten."""
        if self._open and self._process == os.getpid():
            self._engine.clear()
        self._open = False

    def __next__(self) -> _core.Buffer:
        """Take the next batch, and top the plan up.

        Raises:
            CancelledError: If a fork lies between the start and now.
        """
        if self._process != os.getpid():
            raise CancelledError(
                "this iteration began in another process, whose threads a fork does "
                "not take along: call iter(loader) in this one"
            )
        num_steps = self._route.num_taken_here
        if not self._open or (num_steps is not None and self.num_taken >= num_steps):
            raise StopIteration
        self._top_up(num_steps)
        batch = self._engine.next_batch()
        self.num_taken += 1
        return batch

    def _top_up(self, num_steps: int | None) -> None:
        """Plan the whole horizon at the start, then a chunk when one was used up."""
        if self._num_planned - self.num_taken > self._ahead_steps - self._chunk_steps:
            return
        wanted = self.num_taken + self._ahead_steps
        if num_steps is not None:
            wanted = min(wanted, num_steps)
        while self._num_planned < wanted:
            steps = min(self._chunk_steps, wanted - self._num_planned)
            self._engine.submit(*self._planner.plan(self._num_planned, steps))
            self._num_planned += steps
