"""Where a loader stands: one value, and the three moves that make another of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagefeed.core._base import lazy
from pagefeed.core.batches.iteration import Iteration
from pagefeed.core.run import Cursor, LoaderState, Run

__all__ = ["Position"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Position:
    """The position of a loader, in an iteration that is running or will begin next.

    Three methods return another position: :meth:`begin` an iteration, :meth:`go_on`
    with it, and :meth:`done` at its end. Taking steps moves the cursor of the loop.

    Three states describe it: ``saved`` goes into a checkpoint, ``now`` is the state of
    the next step, and ``next`` is where another loop would begin.
    """

    run: Run
    """What is delivered."""
    start: LoaderState
    """State in which the iteration begins or began. If a loaded state or a seek led to
    the end of an iteration, it stays at that end."""
    rank: int | None = None
    """Whose cursors are meant; None for the rank of the run."""
    world_size: int | None = None
    """Of how many ranks; None for those of the run."""
    running: Iteration | None = None
    """The loop; None until its first batch is asked for."""
    finished: LoaderState | None = None
    """The end of the iteration before, until another begins."""
    is_loaded: bool = False
    """Whether a state was loaded, and no iteration has begun since."""
    is_held: bool = False
    """Whether the batch handed out last is not counted: another loop begins with it."""

    def begin(self, state: LoaderState) -> Position:
        """Return the position before an iteration that begins at a state."""
        return Position(
            run=self.run, start=state, rank=self.rank, world_size=self.world_size
        )

    def go_on(self, state: LoaderState, running: Iteration) -> Position:
        """Return the position of a loop that goes on at a state."""
        return replace(self.begin(state), running=running)

    def done(self, state: LoaderState) -> Position:
        """Return the position behind a loop: another iteration begins at a state."""
        return replace(self.begin(state), finished=self.now)

    def at(self, state: LoaderState, **worker: int) -> Cursor:
        """Return the cursor at a state, see :meth:`Run.at`."""
        rank, world_size = self.rank, self.world_size
        return self.run.at(state, rank=rank, world_size=world_size, **worker)

    @property
    def saved(self) -> LoaderState:
        """The state behind the last batch handed out; a loaded end stays one."""
        return self.start if self.running is None else self.running.cursor.state

    @property
    def now(self) -> LoaderState:
        """The same; but without a loop there are steps ahead."""
        return self.run.going_on(self.start) if self.running is None else self.saved

    @property
    def left(self) -> LoaderState:
        """Where another loop begins if this one is left; a loaded end stays one."""
        running = self.running
        if self.is_held:
            return self.saved
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
        """The cursor over the iteration, from its first step of these sizes on."""
        start = self.now if self.running is None else self.start
        if self.run.has_one_size(start):
            start = replace(start, epoch=start.first_epoch, position=0, step=0)
        return self.at(start)
