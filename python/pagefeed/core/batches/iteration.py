"""An iteration of counted tokens: plans go to the engine ahead of its consumer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.batches.feeds import Feed
from pagefeed.core.batches.run_view import AnyView, BatchIterator
from pagefeed.core.run import NO_POSITION, NO_SEQUENCE, Cursor, Run, Sequences
from pagefeed.errors import CancelledError

if TYPE_CHECKING:
    from pagefeed.core.batches.lengths import Lengths

CHUNK_SEQUENCES = 1 << 15
"""Sequences ordered at a time: enough for the overhead of NumPy's calls to vanish."""

FIRST_SEQUENCES = 1 << 12
"""Sequences of the first chunk: fewer, so that the engine begins soon."""

BEGIN_SEQUENCES = 1 << 14
"""Sequences to plan before the first batch is taken, while the engine makes it. The
engine releases a page after the last planned use."""

BEGIN_EPOCHS = 32
"""Epochs begun at once at most, where epochs are short: each takes a millisecond."""

STEP_SEQUENCES = 1 << 10
"""One more piece is planned for this many sequences in each batch taken."""

STEPS_WITH_PADDING = 2
"""Steps at the end of an iteration that may be filled up."""

PIECE_SHARE = 1 << 9
"""Bytes of all plans for each sequence of a piece: about eight times what it needs."""


def steps_ahead(horizon_sequences: int, batch_size: int) -> int:
    """Return how many steps to plan ahead: one chunk more than the horizon.

    With the extra chunk, no single call has to plan many steps.
    """
    return max(1, CHUNK_SEQUENCES // batch_size) + horizon_sequences // batch_size


class StepIterator(BatchIterator):
    """The iterator of a :class:`Loader`, over all steps of a rank or a worker's share.

    It references its session, and the session references the :class:`Iteration`, which
    references neither. So the threads end when Python collects the loader.
    """

    iteration: Iteration | None = None
    """The running iteration; None until the first batch is asked for."""

    def __init__(self, session: AnyView, worker: int, num_workers: int) -> None:
        super().__init__(session)
        self.worker, self.num_workers = worker, num_workers

    def pass_over(self) -> None:
        """Count the step that raised last as taken; plan again from the next one."""
        if self.iteration is not None and not self.iteration.is_finished:
            self.iteration.cursor.num_taken += 1

    def close(self) -> None:
        """Stop like a generator: drop batches that were planned and not taken."""
        with self.session.lock:
            if self.iteration is not None:
                self.iteration.stop()


class Iteration:
    """Plans and takes steps from a state on.

    A step counts as taken once its consumer has the batch. If something interrupts it,
    such as Ctrl-C or a page that cannot be read, the next call tries the same batch
    again.

    Args:
        cursor: Cursor that finds the sequences to plan.
        feed: Feed that makes the plans. Its engine turns them into batches.
        memory: Bytes of the engine, which limit how far ahead plans reach.
        plan_bytes: How many of these bytes the plans may take.
        tells_datasets: Whether to keep the dataset of each row.
        lengths: Lengths of the rows of steps, if they change.
    """

    cursor: Cursor
    """The position. It is replaced as a whole, so that other threads may read it."""
    begin_sequences = BEGIN_SEQUENCES
    """Sequences to plan before the first batch at a new position."""
    num_padding_rows = 0
    """Rows of padding in the batches so far."""

    def __init__(
        self,
        cursor: Cursor,
        feed: Feed,
        memory: int,
        plan_bytes: int,
        *,
        tells_datasets: bool = False,
        lengths: Lengths | None = None,
    ) -> None:
        self._tells_datasets, self._lengths = tells_datasets, lengths
        self._memory, self._plan_bytes = memory, plan_bytes
        self._process = os.getpid()
        self._is_open = True
        self.follow(cursor, feed, is_new=True)

    def follow(self, cursor: Cursor, feed: Feed, *, is_new: bool) -> None:
        """Continue at a cursor; drop the batches that were planned and not taken."""
        self._is_whole = False
        self._plan, self._engine = feed.plan, feed.engine()
        self.cursor, route = cursor, cursor.route
        ahead = cursor.horizon(self._memory)
        self._steps_ahead = steps_ahead(ahead, route.batch_size)
        self._pieces_at_once = 1 + _planned_each(cursor) // STEP_SEQUENCES
        self.is_new = is_new
        """Whether no step was taken since it began or was sent elsewhere."""
        self._num_steps = route.num_taken_here
        steps = BEGIN_EPOCHS * cursor.epoch_positions / route.step_sequences
        planned = _planned_each(cursor)
        self._begin_steps = min(-(-self.begin_sequences // planned), steps)
        self._chunk_steps = max(1, int(min(CHUNK_SEQUENCES // planned, steps)))
        self._plan_anew()

    def _plan_anew(self) -> None:
        """Drop batches that were planned and not taken, to plan them again."""
        self._engine.clear(keep_pages=True)
        self._num_planned, self._is_planned = self.cursor.num_taken, False
        self._made: tuple[Sequences, int, Any] | None = None
        self._dataset_ids = deque[npt.NDArray[np.int32]]()
        self._next_epoch: Iterator[None] = iter(())
        self._pieces = _pieces(
            self.cursor,
            self._num_steps,
            self._chunk_steps,
            self._plan_bytes,
            self._lengths,
        )
        self._is_whole = True

    @property
    def is_here(self) -> bool:
        """Whether the iteration began in this process: a fork copies no threads."""
        return self._process == os.getpid()

    @property
    def is_finished(self) -> bool:
        """Whether all steps were taken."""
        return self._num_steps is not None and self.cursor.num_taken >= self._num_steps

    def stop(self) -> None:
        """Stop; batches that were planned and not taken are forgotten."""
        if self._is_open and self.is_here:
            self._engine.clear()
        self._is_open = False

    def take(self) -> Any:
        """Return the next delivery of the engine, and plan on; then call :meth:`count`.

        None after the last step.

        Raises:
            CancelledError: If the iteration was closed before its end, or the process
                was forked since it began.
        """
        if self._process != os.getpid():
            raise CancelledError(
                "this iteration began in another process, and a fork does not copy "
                "its threads: call iter(loader) in this process"
            )
        num_taken = self.cursor.num_taken
        if self._num_steps is not None and num_taken >= self._num_steps:
            return None
        if not self._is_open:
            raise CancelledError(
                "this iteration was ended before its last step by a new iter(loader), "
                "load_state_dict or set_epoch: a loader runs one iteration at a time"
            )
        if not self._is_whole:
            self._plan_anew()
        self._is_whole = False
        ahead = self._num_planned - num_taken
        if ahead <= self._steps_ahead and not self._is_planned:
            self._plan_ahead()
        else:
            next(self._next_epoch, None)
        return self._engine.next_batch()

    def _plan_ahead(self) -> None:
        """Plan the next step, and more while the plans fit into memory."""
        while self._is_urgent and self._plan_on():
            pass
        for _ in range(self._pieces_at_once):
            if not self._has_room:
                next(self._next_epoch, None)
                break
            self._plan_on()

    @property
    def dataset_ids(self) -> npt.NDArray[np.int32]:
        """The dataset of each row of the last batch, until the step is counted.

        int32 [batch_size]; -1 for padding. Needs ``tells_datasets``.
        """
        return self._dataset_ids[0]

    def count(self) -> None:
        """Count the batch that was taken last: its consumer has it."""
        cursor, last = self.cursor, self._num_steps
        if self._tells_datasets:
            self._dataset_ids.popleft()
        if last is not None and last - cursor.num_taken <= STEPS_WITH_PADDING:
            positions = cursor.route.positions(cursor.num_taken, 1)
            self.num_padding_rows += int((positions == NO_POSITION).sum())
        cursor.num_taken += 1
        self.is_new = False
        self._is_whole = True

    @property
    def _is_urgent(self) -> bool:
        """Whether the next step, or one of the first few steps, is not planned."""
        num_taken = self.cursor.num_taken
        if self._num_planned == num_taken:
            return True
        is_begin = num_taken == 0 and self._num_planned < self._begin_steps
        return is_begin and self._has_room

    @property
    def _has_room(self) -> bool:
        """Whether more is to be planned, and the plans may take more memory."""
        ahead = self._num_planned - self.cursor.num_taken
        return ahead <= self._steps_ahead and self._engine.plan_bytes < self._plan_bytes

    def _plan_on(self) -> bool:
        """Plan one piece, or submit it to the engine; return False if all is planned.

        A consumer waits for at most one such call.
        """
        if self._made is not None:
            (piece, rows, plan), self._made = self._made, None
            self._engine.submit(plan)
            if self._tells_datasets:
                datasets = dataset_ids(self.cursor.run, piece.numbers).astype(np.int32)
                each = datasets.reshape(-1, rows).repeat(max(1, plan.row_parts), axis=1)
                self._dataset_ids.extend(each)
            self._num_planned += len(piece) // rows
            last = self._num_planned - 1
            self._next_epoch = self.cursor.prepare_next_epoch(last)
            return True
        for sequences in self._pieces:
            if sequences is not None:
                rows = self.cursor.route.rows(self._num_planned)
                plan = self._plan(sequences.reshape(-1, rows))
                if self._lengths is not None:
                    step = self.cursor.route.number_here(self._num_planned)
                    plan = replace(plan, row_parts=self._lengths.parts_at(step))
                self._made = sequences, rows, plan
            return True
        self._is_planned = True
        return False


def dataset_ids(run: Run, sequences: Int64Array) -> Int64Array:
    """Return the dataset of each sequence, -1 for padding: int64.

    Earlier data of a dataset, and data added to it, have the dataset's number.
    """
    numbers = [*map(run.names.index, run.names), NO_SEQUENCE]
    return np.array(numbers)[run.index.dataset_of(sequences)]


def _planned_each(cursor: Cursor) -> int:
    """Return how many items a step adds to a plan."""
    return int(cursor.route.batch_size * cursor.run.documents_each)


def _pieces(
    cursor: Cursor,
    num_steps: int | None,
    chunk_steps: int,
    plan_bytes: int,
    lengths: Lengths | None,
) -> Iterator[Sequences | None]:
    """Yield the sequences of all steps that were not taken yet.

    Args:
        cursor: Cursor that finds the sequences.
        num_steps: Number of steps of the iteration.
        chunk_steps: Most steps whose order is looked up at a time.
        plan_bytes: Bytes that all plans may take. A piece takes a small share of them.
        lengths: Lengths of the rows of steps, if they change. A piece has one length.
    """
    first = cursor.num_taken
    chunk = -(-FIRST_SEQUENCES // _planned_each(cursor))
    most = max(1, plan_bytes // PIECE_SHARE)
    while num_steps is None or first < num_steps:
        chunk = steps = min(chunk, chunk_steps)
        if num_steps is not None:
            steps = min(steps, num_steps - first)
        steps = min(steps, cursor.route.num_alike(first) or steps)
        if lengths is not None:
            steps = min(steps, lengths.num_alike(cursor.route, first))
        is_begin = first == cursor.num_taken
        yield from cursor.pieces(first, steps, most, is_begin=is_begin)
        first, chunk = first + steps, 2 * chunk
