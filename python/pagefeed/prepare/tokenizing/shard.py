"""A shard that is being written, with what its record says of it."""

from __future__ import annotations

from typing import Any, Self

from pagefeed.core._base import logger
from pagefeed.errors import CorruptFileError
from pagefeed.prepare.parquet_sinks import GROUP_BYTES, STORED_BYTES
from pagefeed.prepare.texts import Batch, Rejected, arrow
from pagefeed.prepare.tokenizing.encoding import encode, sink_of
from pagefeed.prepare.tokenizing.folder import (
    JobFolder,
    ShardRecord,
    reasons_of,
    shard_name,
    together,
)
from pagefeed.prepare.tokenizing.job import Job


class Shard:
    """A file of rows of a task; without rows it does not appear.

    Args:
        job: The job.
        task: Number of the task.
        shard: Number of the shard in it.
    """

    def __init__(self, job: Job, task: int, shard: int) -> None:
        self._job = job
        self._task_and_shard = task, shard
        self._name = f"{shard_name(task, shard)}.parquet"
        self._sink = sink_of(job, self._name)
        self._others: list[Any] = []
        """Further columns of the rows that are not in a row group yet."""
        self._others_bytes = 0
        self._rejected: list[Rejected] = []
        self._record = ShardRecord()

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file, unless it was finished."""
        self._sink.abandon()

    @property
    def is_full(self) -> bool:
        """Whether the next rows belong in a new shard."""
        is_empty = not self._record.rows
        return not is_empty and self._sink.output.file.size >= self._job.shard_bytes

    def add(self, batch: Batch, file: str, num_threads: int) -> int:
        """Tokenize a batch; return the number of tokens.

        Raises:
            CorruptFileError: If a record is corrupt and ``on_error`` is ``"fail"``.
        """
        encoded = encode(self._job, batch, file, num_threads, self._sink.lists)
        for rejected in encoded.rejected:
            self._reject(rejected)
        self._record.rows += encoded.num_rows
        self._record.tokens += encoded.num_tokens
        self._record.learned += encoded.num_learned
        self._record.left_out = together([self._record.left_out, encoded.left_out])
        if encoded.num_rows:
            self._others.append(encoded.others)
            self._others_bytes += int(encoded.others.nbytes)
            self._sink.write()
        waiting = STORED_BYTES * self._sink.lists.num_waiting + self._others_bytes
        if waiting >= min(GROUP_BYTES, self._job.shard_bytes):
            self._end_group()
        return encoded.num_tokens

    def _reject(self, rejected: Rejected) -> None:
        if self._job.on_error == "fail":
            raise CorruptFileError(
                f"{rejected.file}, {rejected.position}: {rejected.error}; "
                "on_error='skip' leaves out such records and lists them"
            ).at(file=rejected.file)
        logger.info("%s, %s: %s", rejected.file, rejected.position, rejected.error)
        self._rejected.append(rejected)

    def _end_group(self) -> None:
        if self._others:
            self._sink.end_group(arrow().concat_tables(self._others))
            self._others, self._others_bytes = [], 0

    def finish(self, folder: JobFolder, following: tuple[int, int] | None) -> None:
        """Give the file its name, if it has rows, and record it as finished."""
        self._end_group()
        record = self._record
        if record.rows:
            self._sink.commit()
            for name, value in self._sink.output.record(self._name).items():
                setattr(record, name, value)
        record.rejected = sum(
            1 if rejected.num_records is None else rejected.num_records
            for rejected in self._rejected
        )
        record.reasons = reasons_of(self._rejected)
        record.next = following
        folder.finish_shard(*self._task_and_shard, record, self._rejected)
