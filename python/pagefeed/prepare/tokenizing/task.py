"""One task: tokenizes ranges of the inputs into shards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from pagefeed.errors import CancelledError
from pagefeed.prepare.texts import Batch, read_range
from pagefeed.prepare.tokenizing.folder import JobFolder
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.prepare.tokenizing.shard import Shard

Advance = Callable[[int], object]
"""Called with the bytes of text since the last call."""
Position = tuple[int, int]
"""Numbers of a range of a task, and of a batch in it."""


def tasks_left(job: Job) -> list[int]:
    """Return the numbers of the tasks that are not finished."""
    shards = JobFolder(job.folder).all_shards(len(job.tasks))
    return [n for n, some in enumerate(shards) if not some or some[-1].next is not None]


def run_task(
    job: Job,
    task: int,
    num_threads: Callable[[], int],
    advance: Advance,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Write the unfinished shards of a task.

    Args:
        job: The job.
        task: Number of the task.
        num_threads: Returns the most threads that may encode.
        advance: Called with progress.
        is_cancelled: Returns whether to stop; called at every batch.

    Raises:
        CorruptFileError: If a record is corrupt and ``on_error`` is ``"fail"``.
        CancelledError: If the job was cancelled.
    """
    folder = JobFolder(job.folder)
    done = folder.shards(task)
    following: Position | None = done[-1].next if done else (0, 0)
    if following is None:
        return
    batches = _batches(job, task, following)

    def fill(shard: Shard) -> Position | None:
        """Add batches until the shard is full.

        Return the next position, or None at the end.
        """
        for file, batch, next_position in batches:
            if is_cancelled():
                raise CancelledError("tokenizing was cancelled")
            shard.add(batch, file, num_threads())
            advance(batch.table.nbytes)
            if shard.is_full:
                return next_position
        return None

    for shard_number in itertools.count(len(done)):
        with Shard(job, task, shard_number) as shard:
            following = fill(shard)
            shard.finish(folder, following)
        if following is None:
            return


def _batches(
    job: Job, task: int, start: Position
) -> Iterator[tuple[str, Batch, Position]]:
    """Yield batches from a position on, with their file and the next position."""
    first, skip = start
    for range_number, file_range in enumerate(job.tasks[task][first:], first):
        batches = read_range(job.inputs.storage, file_range, job.wanted)
        some = itertools.islice(enumerate(batches), skip, None)
        for batch_number, batch in some:
            yield file_range.file, batch, (range_number, batch_number + 1)
        skip = 0
