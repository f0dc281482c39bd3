"""One task: tokenizes pieces of the inputs into shards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Self

from pagefeed._base import logger
from pagefeed.errors import CancelledError, CorruptFileError
from pagefeed.prepare.texts import Batch, Rejected, read_piece
from pagefeed.prepare.tokenizing.encoding import encode, num_lists_of, schema_of
from pagefeed.prepare.tokenizing.folder import (
    JobFolder,
    ShardRecord,
    reasons_of,
    shard_name,
)
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.prepare.tokenizing.shard_file import ShardFile

__all__ = ["run_task", "tasks_left"]

GROUP_BYTES = 64 << 20
"""Bytes of a row group before compression."""

Advance = Callable[[int, int], object]
"""Called with the bytes of text and the tokens since the last call."""


def tasks_left(job: Job) -> list[int]:
    """Return the numbers of the tasks that are not finished."""
    folder = JobFolder(job.folder)
    shards = folder.all_shards(len(job.tasks))
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
    start = (0, 0) if not done else done[-1].next
    if start is None:
        return
    number = len(done)
    with ExitStack() as stack:
        shard = stack.enter_context(_Shard(job, task, number))
        for file, batch, following in _batches(job, task, start):
            if is_cancelled():
                raise CancelledError("tokenizing was cancelled")
            num_tokens = shard.add(batch, file, num_threads())
            advance(batch.table.nbytes, num_tokens)
            if shard.is_full:
                shard.finish(folder, following)
                number += 1
                shard = stack.enter_context(_Shard(job, task, number))
        shard.finish(folder, None)


def _batches(
    job: Job, task: int, start: tuple[int, int]
) -> Iterator[tuple[str, Batch, tuple[int, int]]]:
    """Yield batches from a place on, with their file and the next place."""
    first, skip = start
    for number, piece in enumerate(job.tasks[task][first:], first):
        batches = read_piece(job.inputs.storage, piece, job.wanted)
        some = itertools.islice(enumerate(batches), skip, None)
        for place, batch in some:
            yield piece.file, batch, (number, place + 1)
        skip = 0


def _check(job: Job, rejected: list[Rejected]) -> None:
    if not rejected or job.on_error != "fail":
        for one in rejected:
            logger.warning("%s, %s: %s", one.file, one.place, one.error)
        return
    one = rejected[0]
    raise CorruptFileError(
        f"{one.file}, {one.place}: {one.error}; on_error='skip' or 'quarantine' goes "
        "on without such records and lists them"
    ).at(file=one.file)


class _Shard:
    """A shard that is being written."""

    def __init__(self, job: Job, task: int, number: int) -> None:
        self._job = job
        self._task = task
        self._number = number
        self._name = f"{shard_name(task, number)}.parquet"
        self._file = ShardFile(
            partial(job.folder.writer, self._name),
            schema_of(job),
            num_lists_of(job),
            job.layout,
        )
        self._rejected: list[Rejected] = []
        self._rows = self._tokens = self._waiting = 0
        self._learned = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def is_full(self) -> bool:
        return self._file.size >= self._job.layout.shard_bytes

    def add(self, batch: Batch, file: str, num_threads: int) -> int:
        """Tokenize a batch; return the number of tokens."""
        found = encode(self._job, batch, file, num_threads, self._file.lists)
        _check(self._job, found.rejected)
        for one in found.rejected:
            is_kept = self._job.on_error != "skip"
            self._rejected.append(one if is_kept else one._replace(record=None))
        self._rows += found.num_rows
        self._tokens += found.num_tokens
        self._learned += found.num_learned
        if found.num_rows:
            self._waiting += found.num_rows
            self._file.write(found.others)
        if self._file.waiting >= min(GROUP_BYTES, self._job.layout.shard_bytes):
            self._end_group()
        return found.num_tokens

    def _end_group(self) -> None:
        if self._waiting:
            self._file.end_group()
            self._waiting = 0

    def finish(self, folder: JobFolder, following: tuple[int, int] | None) -> None:
        """Finish the shard."""
        self._end_group()
        self._file.commit()
        record = ShardRecord(
            file=self._name if self._rows else None,
            rows=self._rows,
            tokens=self._tokens,
            learned=self._learned,
            bytes=self._file.size,
            sha256=self._file.sha256 if self._rows else "",
            rejected=sum(
                1 if one.num_records is None else one.num_records
                for one in self._rejected
            ),
            reasons=reasons_of(self._rejected),
            next=following,
        )
        folder.finish_shard(self._task, self._number, record, self._rejected)
        self._stack.close()
