"""The session of a fleet: any step for any rank, whenever it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from pagefeed.core._base import check_whole
from pagefeed.core.batches import Batch, Iteration, LoaderSettings, Position, RunView
from pagefeed.core.run import Cursor, LoaderState, Step, StepIndex
from pagefeed.errors import CancelledError, InternalError, InvalidArgumentError

MOVED_SEQUENCES = 1 << 10
"""Sequences to plan before the first batch after a change of rank or size. Plans are
kept short, since data read ahead is lost when ranks change again."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FleetPosition(Position):
    """The position of a rank that may change."""

    rank: int | None
    """The rank; None if it gets no batches."""
    world_size: int
    """Number of ranks."""
    is_held: bool = False
    """Whether the batch handed out last is not counted: another loop begins with it."""

    def begin(self, state: LoaderState) -> Self:
        """Return the position before an iteration that begins at a state."""
        return replace(super().begin(state), is_held=False)

    def at(self, state: LoaderState, **worker: int) -> Cursor:
        """Return the cursor of the rank at a state."""
        rank, world_size = self.rank, self.world_size
        return self.run.at(state, rank=rank, world_size=world_size, **worker)

    @property
    def left(self) -> LoaderState:
        """The beginning of the next loop if this loop is left."""
        return self.saved if self.is_held else super().left


class FleetSession(RunView):
    """A run whose ranks come and go.

    The last requested step is kept, and does not count as taken: the state is at its
    beginning until another step is requested.

    Args:
        settings: The settings of the loader, with a fleet.
    """

    _position: FleetPosition

    def __init__(self, settings: LoaderSettings) -> None:
        super().__init__(settings)
        self._position = FleetPosition(
            run=self.run,
            start=self._position.start,
            rank=settings.rank,
            world_size=settings.world_size,
        )
        self._current: tuple[Step, Batch | None] | None = None
        """The step asked for last, and its batch; None if ranks may have changed since.
        """
        self._is_ahead = False
        """Whether the iteration delivers the step after it next."""

    @property
    def rank_and_size(self) -> tuple[int | None, int]:
        """The rank that gets batches, and the world size.

        The rank is None if it gets no batches.
        """
        return self._position.rank, self._position.world_size

    def _take_place(self, rank: int | None, world_size: int) -> None:
        self._position = replace(self._position, rank=rank, world_size=world_size)

    @property
    def num_given(self) -> int:
        """Number of steps up to the kept step, or before the next one."""
        return super().num_given if self._current is None else self._current[0] + 1

    def _hold(self, current: tuple[Step, Batch | None] | None) -> None:
        """Keep the step that was asked for: another loop begins with it."""
        self._current, is_held = current, current is not None
        if self._position.is_held != is_held:  # The same one knows its first step.
            self._position = replace(self._position, is_held=is_held)

    @property
    def weight(self) -> float:
        """Weight of the last batch, see :attr:`Loader.weight`."""
        current, running = self._current, self.position.running
        if current is not None and self._position.rank is None:
            return 0.0
        if running is None or not (current or running.cursor.num_taken):
            raise InvalidArgumentError(
                "no batch was taken yet: take one first, loader.weight is its weight"
            )
        cursor = running.cursor
        last = cursor.num_taken - (current is None)
        return cursor.route.weight(StepIndex(last * cursor.num_workers + cursor.worker))

    def at(self, step: int, rank: int | None, world_size: int) -> Batch | None:
        """Return the batch of a step for a rank, see :meth:`Loader.at`."""
        number = Step(check_whole(step, "step", least=0))
        self.check_state()
        if (fleet := self.settings.fleet) is None:
            raise InternalError("the settings of a fleet's session have no fleet")
        checked_rank, world_size = fleet.check_place(
            0 if rank is None else rank, world_size
        )
        rank = None if rank is None else checked_rank
        with self.lock, self.awaiting():
            is_here = (rank, world_size) == self.rank_and_size
            current = self._current
            if current is None or not is_here or current[0] != number:
                is_next = current is not None and is_here and current[0] + 1 == number
                self._go_to(number, rank, world_size, is_next=is_next)
                current = number, self._taken()
                self._hold(current)
            batch = current[1]
            # Consumers take fields out of it.
            return dict(batch) if isinstance(batch, dict) else batch

    def _go_to(
        self, step: Step, rank: int | None, world_size: int, *, is_next: bool
    ) -> None:
        """Go to the beginning of a step; keep the plan if it is the next step."""
        cursor = self.position.whole
        index = cursor.route.checked_index(step)
        is_ahead, self._current, self._is_ahead = self._is_ahead, None, False
        running = self.position.running
        if is_next and is_ahead and running is not None:
            running.count()
            return
        self._take_place(rank, world_size)
        state = cursor.state_after(index)
        if rank is None:
            self.begin(state)
        elif running is not None and running.is_here:
            self.go_on(state, is_new=True)
        else:
            self._check_learned()
            self._start(state, 0, 1)

    def _taken(self) -> Batch | None:
        """Return the next batch, not counted; None for a rank that gets none."""
        running = self.position.running
        if self._position.rank is None or running is None:
            return None
        try:
            delivered = running.take()
            batch = None if delivered is None else self._made(delivered, running)
        except CancelledError:
            raise
        except Exception as error:
            self._explain(error, running)
            raise
        self._is_ahead = True
        return batch

    def go_on(self, state: LoaderState, *, is_new: bool) -> None:
        """Continue this iteration at ``state``, the running loop too."""
        self._current = None
        super().go_on(state, is_new=is_new)

    def _leave(self, state: LoaderState, *, is_done: bool = False) -> None:
        self._current = None
        super()._leave(state, is_done=is_done)

    def reweight(self, weights: Mapping[str, float], anneal: int) -> None:
        """Mix with other weights from the step after the held one."""
        current, cursor = self._current, self.position.whole
        if current is None:
            super().reweight(weights, anneal)
            return
        after = cursor.state_after(cursor.route.index_of(current[0]) + 1)
        mixture = self.run.reweighted(after, weights, anneal).parts["mixture"]
        self.go_on(self.position.now.having(mixture=mixture), is_new=False)
        self._hold(current)
        self._is_ahead = False

    def _start(self, state: LoaderState, worker: int, num_workers: int) -> Iteration:
        """Begin a loop that can change its rank and world size at any step."""
        running = super()._start(state, worker, num_workers)
        running.begin_sequences = MOVED_SEQUENCES
        return running

    def _opened(self, worker: int, num_workers: int) -> Iteration:
        """Begin a loop with the rank and world size of the settings."""
        self._take_place(self.settings.rank, self.settings.world_size)
        return super()._opened(worker, num_workers)
