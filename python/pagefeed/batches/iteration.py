"""One run through the epochs: plans ahead, and takes finished batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, NamedTuple

from pagefeed._base import Int64Array
from pagefeed.batches.token_batches import Feed, Out
from pagefeed.errors import CancelledError
from pagefeed.run import NO_POSITION, LoaderState, Planner, Route

__all__ = ["Iteration", "steps_ahead"]

CHUNK_SEQUENCES = 1 << 15
"""Sequences ordered at a time: enough for the overhead of NumPy's calls to vanish."""

FIRST_UNITS = 1 << 12
"""Sequences of the first chunk: fewer, so that the engine begins soon."""

BEGIN_UNITS = 1 << 14
"""Sequences to plan before the first batch is taken, while the engine makes it: it lets
go of a page after the last use that it knows of."""

BEGIN_EPOCHS = 32
"""Of short epochs, how many of these at most: each costs a millisecond."""

STEP_UNITS = 1 << 10
"""For every so many sequences of a batch another piece is planned while it is taken."""

STEPS_WITH_PADDING = 2
"""Steps at the end of an iteration that may be filled up."""


PIECE_SHARE = 1 << 9
"""Bytes of all plans for each sequence of a piece: some eight times what it takes."""


def steps_ahead(horizon_sequences: int, batch_size: int) -> int:
    """Return how many steps are planned ahead: a chunk beyond the horizon.

    So that no call has to make up for many.
    """
    return max(1, CHUNK_SEQUENCES // batch_size) + horizon_sequences // batch_size


class _Place(NamedTuple):
    """How far it is; one object, so that another thread sees it whole."""

    planner: Planner
    num_taken: int


class Iteration(Generic[Out]):
    """Finished batches, one after the other; the engine works ahead of them.

    A batch is taken, and counted when its consumer has it: whatever comes between, such
    as Ctrl-C or a page that cannot be read, the next one taken is the same again.

    Args:
        feed: Makes plans, whose engine takes them and returns the batches.
        planner: Finds the sequences to plan.
        horizon_sequences: Sequences of this rank to plan ahead, so that the engine
            knows the last use of every page it holds.
        plan_bytes: What the plans may take of the engine's memory.
    """

    def __init__(
        self,
        *,
        feed: Feed[Out],
        planner: Planner,
        horizon_sequences: int,
        plan_bytes: int,
    ) -> None:
        self._plan = feed.plan
        self._engine = feed.engine()
        batch_size = planner.route.batch_size
        self._ahead_steps = steps_ahead(horizon_sequences, batch_size)
        self._plan_bytes = plan_bytes
        self._pieces_at_once = 1 + batch_size // STEP_UNITS
        self._process = os.getpid()
        self._open = True
        self.num_padding_rows = 0
        """Rows of the batches so far that stand for no sequence."""
        self.follow(planner, is_new=True)

    def follow(self, planner: Planner, *, is_new: bool) -> None:
        """Go on along a route; what was planned and not taken is forgotten."""
        self._is_whole = False
        self._place = _Place(planner, 0)
        self.is_new = is_new
        """Whether no step was taken since it began or was sent elsewhere."""
        route = planner.route
        self._num_steps = route.num_taken_here
        epochs_steps = (
            BEGIN_EPOCHS * planner.track.epoch_positions / route.step_sequences
        )
        self._begin_steps = min(-(-BEGIN_UNITS // route.batch_size), epochs_steps)
        chunk_steps = min(CHUNK_SEQUENCES // route.batch_size, epochs_steps)
        self._chunk_steps = max(1, int(chunk_steps))
        self._plan_anew()

    def _plan_anew(self) -> None:
        """Forget what was planned and not counted."""
        self._engine.clear()
        self._num_planned = self._place.num_taken
        self._pieces = self._all_pieces()
        self._next_epoch: Iterator[None] = iter(())
        self._is_whole = True

    @property
    def route(self) -> Route:
        """The way it goes."""
        return self._place.planner.route

    @property
    def is_here(self) -> bool:
        """Whether it began in this process: its threads do not survive a fork."""
        return self._process == os.getpid()

    @property
    def is_finished(self) -> bool:
        """Whether all steps were taken."""
        return self._num_steps is not None and self._place.num_taken >= self._num_steps

    @property
    def consumed(self) -> tuple[LoaderState, int, int]:
        """Its begin, the position and the step that follow what was counted."""
        planner, num_taken = self._place
        route, begin = planner.route, planner.track.begin
        return begin, route.position_after(num_taken), route.step_after(num_taken)

    @property
    def num_taken(self) -> int:
        """Steps of its route that were counted."""
        return self._place.num_taken

    @property
    def num_left(self) -> int | None:
        """Steps of its route that were not counted; None if it never ends."""
        planner, num_taken = self._place
        num_steps = planner.route.num_steps
        return None if num_steps is None else num_steps - num_taken

    def last_sequences(self, rank: int) -> Int64Array:
        """Return what a rank was given in the step that was counted last.

        Returns:
            int64 [batch_size]; ``NO_SEQUENCE`` for rows of padding.
        """
        planner, num_taken = self._place
        theirs = replace(planner.route, rank=rank)
        return Planner(planner.track, theirs).sequences(num_taken - 1, 1)

    @property
    def step(self) -> int:
        """Number of the next step of this process."""
        return self.route.number_here(self._place.num_taken)

    def close(self) -> None:
        """Stop; batches that were planned and not taken are forgotten."""
        if self._open and self.is_here:
            self._engine.clear()
        self._open = False

    def take(self) -> Out:
        """Return the next batch, and top the plan up; :meth:`count` it then.

        Raises:
            StopIteration: If all were taken.
            CancelledError: If the iteration was closed before its end, or a fork lies
                between its start and now.
        """
        if not self.is_here:
            raise CancelledError(
                "this iteration began in another process, whose threads a fork does "
                "not take along: call iter(loader) in this one"
            )
        if self.is_finished:
            raise StopIteration
        if not self._open:
            raise CancelledError(
                "this iteration was ended before its last step by a new iter(loader), "
                "load_state_dict or set_epoch: a loader runs one iteration at a time"
            )
        if not self._is_whole:
            self._plan_anew()
        self._is_whole = False
        self._top_up()
        return self._engine.next_batch()

    def count(self) -> None:
        """Count the batch that was taken last: its consumer has it."""
        (planner, num_taken), last = self._place, self._num_steps
        if last is not None and last - num_taken <= STEPS_WITH_PADDING:
            positions = self.route.positions(num_taken, 1)
            self.num_padding_rows += int((positions == NO_POSITION).sum())
        self._place = _Place(planner, num_taken + 1)
        self.is_new = False
        self._is_whole = True

    def _top_up(self) -> None:
        """Plan the next step, then, in short pieces, up to the horizon."""
        while self._is_urgent and self._plan_on():
            pass
        for _ in range(self._pieces_at_once):
            if not self._has_room:
                next(self._next_epoch, None)
                return
            self._plan_on()

    @property
    def _is_urgent(self) -> bool:
        """Whether the next step is not planned, or too few are to begin with."""
        if self._num_planned == self._place.num_taken:
            return True
        is_begin = self._place.num_taken == 0 and self._num_planned < self._begin_steps
        return is_begin and self._has_room

    @property
    def _has_room(self) -> bool:
        """Whether more is to be planned, and the plans may take more memory."""
        ahead = self._num_planned - self._place.num_taken
        return ahead <= self._ahead_steps and self._engine.plan_bytes < self._plan_bytes

    def _plan_on(self) -> bool:
        """Do a few milliseconds of planning at most; False if all is planned."""
        for piece in self._pieces:
            if piece is not None:
                self._engine.submit(*self._plan(piece))
                self._num_planned += len(piece) // self.route.batch_size
            return True
        return False

    def _all_pieces(self) -> Iterator[Int64Array | None]:
        """The sequences of all steps of the route, from what is planned on."""
        first, planner = self._num_planned, self._place.planner
        chunk = -(-FIRST_UNITS // planner.route.batch_size)
        chunk = min(chunk, self._chunk_steps)
        while self._num_steps is None or first < self._num_steps:
            steps = chunk
            chunk = min(2 * chunk, self._chunk_steps)
            if self._num_steps is not None:
                steps = min(steps, self._num_steps - first)
            # None of them is much beside what all plans may take.
            most = max(1, self._plan_bytes // PIECE_SHARE)
            is_begin = first == self._place.num_taken
            yield from planner.pieces(first, steps, most, is_begin=is_begin)
            first += steps
            # After that of the last step: these steps may have begun several epochs.
            self._next_epoch = planner.begin_next_epoch(first - 1)
