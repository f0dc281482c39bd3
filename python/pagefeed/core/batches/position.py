"""Position of a loader: one value, and the three moves that make another of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from pagefeed.core._base import lazy
from pagefeed.core.batches.iteration import Iteration
from pagefeed.core.run import Cursor, LoaderState, Run


@dataclass(frozen=True, kw_only=True, eq=False)
class Position:
    """The position of a loader, in an iteration that is running or will begin next.

    Three methods return another position: :meth:`begin` an iteration, :meth:`go_on`
    with it, and :meth:`done` at its end. Taking steps moves the cursor of the loop.

    Three states describe it: ``saved`` goes into a checkpoint, ``now`` is the state of
    the next step, and ``next`` is where another loop would begin.
    """

    run: Run
    """The run that is delivered."""
    start: LoaderState
    """State in which the iteration begins or began. If a loaded state or a seek led to
    the end of an iteration, it stays at that end."""
    running: Iteration | None = None
    """The loop; None until its first batch is asked for."""
    finished: LoaderState | None = None
    """The end of the iteration before, until another begins."""
    is_loaded: bool = False
    """Whether a state was loaded, and no iteration has begun since."""

    def begin(self, state: LoaderState) -> Self:
        """Return the position before an iteration that begins at a state."""
        return replace(self, start=state, running=None, finished=None, is_loaded=False)

    def go_on(self, state: LoaderState, running: Iteration) -> Self:
        """Return the position of a loop that continues at a state."""
        return replace(self.begin(state), running=running)

    def done(self, state: LoaderState) -> Self:
        """Return the position after a loop: the next iteration begins at a state."""
        return replace(self.begin(state), finished=self.now)

    def at(self, state: LoaderState, **worker: int) -> Cursor:
        """Return the cursor at a state, see :meth:`Run.at`."""
        return self.run.at(state, **worker)

    @property
    def saved(self) -> LoaderState:
        """State after the last batch handed out. A loaded end stays an end."""
        return self.start if self.running is None else self.running.cursor.state

    @property
    def now(self) -> LoaderState:
        """State of the next step; without a loop, that of the next iteration."""
        return self.run.going_on(self.start) if self.running is None else self.saved

    @property
    def left(self) -> LoaderState:
        """State at which a new loop begins if the running loop is abandoned."""
        running = self.running
        if running is None or running.is_new:
            return self.start
        run = self.run
        return run.after(self.start) if running.is_finished else run.again(self.start)

    @property
    def next(self) -> LoaderState:
        """The position at which another loop begins, with steps left to run."""
        return self.run.going_on(self.left)

    @lazy
    def whole(self) -> Cursor:
        """The cursor from the first step of the iteration that has the run's sizes."""
        start = self.now if self.running is None else self.start
        if self.run.has_one_size(start):
            start = replace(start, epoch=start.first_epoch, position=0, step=0)
        return self.at(start)
