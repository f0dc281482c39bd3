"""One task: pieces of the inputs to shards, each finished for good."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Self

from pagefeed.errors import CancelledError, CorruptFileError
from pagefeed.prepare.parquet_file import ParquetFileWriter
from pagefeed.prepare.texts import Batch, Rejected, arrow, read_piece
from pagefeed.prepare.tokenizing.encoding import encode, schema_of
from pagefeed.prepare.tokenizing.folder import JobFolder, ShardRecord, shard_name
from pagefeed.prepare.tokenizing.job import Job

__all__ = ["is_done", "run_task"]

GROUP_BYTES = 32 << 20
"""Of tables that wait to become a row group."""
STORED_BYTES = 4
"""Of a token, before pages are compressed: Parquet has no smaller numbers."""
_logger = logging.getLogger("pagefeed")

Advance = Callable[[int, int], object]
"""Called with bytes of text read and tokens made since the last call."""


def is_done(folder: JobFolder, task: int) -> bool:
    """Tell whether nothing of a task is left to do."""
    shards = folder.shards(task)
    return bool(shards) and shards[-1].next is None


def run_task(
    job: Job,
    task: int,
    num_threads: Callable[[], int],
    advance: Advance,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Write the shards of a task that are not there yet.

    Args:
        job: What it is of.
        task: Its number.
        num_threads: Returns how many threads may encode.
        advance: Told how far it is.
        is_cancelled: Asked whether to stop, at every batch.

    Raises:
        CorruptFileError: If a record is corrupt and the job is to fail then.
        CancelledError: If it was cancelled.
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
            encoded = encode(job, batch, file, num_threads())
            _check(job, encoded.rejected)
            shard.add(encoded.table, encoded.num_tokens, encoded.rejected)
            advance(batch.table.nbytes, encoded.num_tokens)
            if shard.is_full:
                shard.finish(folder, following)
                number += 1
                shard = stack.enter_context(_Shard(job, task, number))
        shard.finish(folder, None)


def _batches(
    job: Job, task: int, start: tuple[int, int]
) -> Iterator[tuple[str, Batch, tuple[int, int]]]:
    """Batches from a place on, each with its file and the place that follows."""
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
            _logger.warning("%s, %s: %s", one.file, one.place, one.error)
        return
    one = rejected[0]
    error = CorruptFileError(
        f"{one.file}, {one.place}: {one.error}; on_error='skip' or 'quarantine' goes "
        "on without such records and lists them"
    )
    error.file = one.file
    raise error


class _Shard:
    """A shard on its way."""

    def __init__(self, job: Job, task: int, number: int) -> None:
        self._job = job
        self._task = task
        self._number = number
        self._name = f"{shard_name(task, number)}.parquet"
        self._file: ParquetFileWriter | None = None
        self._waiting: list[Any] = []
        self._rejected: list[Rejected] = []
        self._rows = self._tokens = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def is_full(self) -> bool:
        most = self._job.layout.shard_bytes
        return self._file is not None and self._file.size >= most

    def add(self, table: Any, num_tokens: int, rejected: list[Rejected]) -> None:  # noqa: ANN401
        """Take a batch."""
        if self._job.on_error == "skip":
            rejected = [one._replace(record=None) for one in rejected]
        self._rejected += rejected
        self._rows += len(table)
        self._tokens += num_tokens
        if len(table):
            self._waiting.append(table)
        most = min(GROUP_BYTES, self._job.layout.shard_bytes)
        if sum(table.nbytes for table in self._waiting) >= most:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table = arrow().concat_tables(self._waiting)
        self._waiting = []
        if self._file is None:
            self._file = self._stack.enter_context(self._opened())
        self._file.write(table)

    def _opened(self) -> ParquetFileWriter:
        layout, schema = self._job.layout, schema_of(self._job)
        return ParquetFileWriter(
            f"{self._job.folder}/{self._name}",
            schema,
            compression=layout.compression,
            # Tokens are many and differ; names of sources and languages are few.
            use_dictionary=list(self._job.wanted.kept),
            data_page_size=layout.page_bytes,
            # Looked at for the end of a page once in a page, not every 1,024 tokens.
            write_batch_size=max(1024, layout.page_bytes // STORED_BYTES),
            write_page_checksum=True,
        )

    def finish(self, folder: JobFolder, following: tuple[int, int] | None) -> None:
        """Have it finished for good."""
        self._flush()
        if self._file is not None:
            self._file.commit()
        record = ShardRecord(
            file=None if self._file is None else self._name,
            rows=self._rows,
            tokens=self._tokens,
            bytes=0 if self._file is None else self._file.size,
            sha256="" if self._file is None else self._file.sha256,
            rejected=sum(one.num_records or 0 for one in self._rejected),
            next=following,
        )
        folder.finish_shard(self._task, self._number, record, self._rejected)
        self._stack.close()
