"""A shard that is being written: the core writes lists, pyarrow the other columns."""

from __future__ import annotations

import hashlib
from typing import Any, Self

from pagefeed import _core
from pagefeed.core._base import logger
from pagefeed.errors import CorruptFileError
from pagefeed.prepare.parquet_sinks import GROUP_BYTES, STORED_BYTES, as_file
from pagefeed.prepare.texts import Batch, Rejected, arrow
from pagefeed.prepare.tokenizing.encoding import encode, shard_schema
from pagefeed.prepare.tokenizing.folder import (
    JobFolder,
    ShardRecord,
    reasons_of,
    shard_name,
    together,
)
from pagefeed.prepare.tokenizing.job import Job
from pagefeed.remote import FileWriter


class Shard:
    """A file of rows of a task; it is created with its first row.

    Args:
        job: The job.
        task: Number of the task.
        shard: Number of the shard in it.
    """

    def __init__(self, job: Job, task: int, shard: int) -> None:
        self._job = job
        self._task_and_shard = task, shard
        self._name = f"{shard_name(task, shard)}.parquet"
        empty = arrow().BufferOutputStream()
        arrow("pyarrow.parquet").ParquetWriter(empty, shard_schema(job)).close()
        self._lists = _core.ListFile(
            empty.getvalue().to_pybytes(),
            1 + job.has_labels,
            job.compression,
            job.page_bytes,
            job.tokenizer.vocab_size,
        )
        self._others: list[Any] = []
        """Further columns of the rows that are not in a row group yet."""
        self._others_bytes = 0
        self._file: FileWriter | None = None
        self._digest = hashlib.sha256()
        self._rejected: list[Rejected] = []
        self._record = ShardRecord()

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file, unless it was finished."""
        if self._file is not None:
            self._file.abandon()

    @property
    def size(self) -> int:
        """Bytes written."""
        return 0 if self._file is None else self._file.size

    @property
    def is_full(self) -> bool:
        """Whether the next rows belong in a new shard."""
        return self.size >= self._job.shard_bytes

    def add(self, batch: Batch, file: str, num_threads: int) -> int:
        """Tokenize a batch; return the number of tokens.

        Raises:
            CorruptFileError: If a record is corrupt and ``on_error`` is ``"fail"``.
        """
        encoded = encode(self._job, batch, file, num_threads, self._lists)
        for rejected in encoded.rejected:
            self._reject(rejected)
        self._record.rows += encoded.num_rows
        self._record.tokens += encoded.num_tokens
        self._record.learned += encoded.num_learned
        self._record.left_out = together([self._record.left_out, encoded.left_out])
        if encoded.num_rows:
            self._others.append(encoded.others)
            self._others_bytes += int(encoded.others.nbytes)
            if self._file is None:
                self._file = self._job.folder.writer(self._name)
            self._write_pages()
        waiting = STORED_BYTES * self._lists.num_waiting + self._others_bytes
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
            others = None
            if self._job.written:
                others = as_file(
                    arrow().concat_tables(self._others),
                    compression=self._job.compression,
                    page_bytes=self._job.page_bytes,
                )
            self._lists.end_group(others)
            self._others, self._others_bytes = [], 0
            self._write_pages()

    def _write_pages(self) -> None:
        data = self._lists.take()
        if self._file is not None:
            self._file.write(data)
            self._digest.update(data)

    def finish(self, folder: JobFolder, following: tuple[int, int] | None) -> None:
        """Give the file its name, if it has rows, and record it as finished."""
        self._end_group()
        record = self._record
        if self._file is not None:
            self._lists.end()
            self._write_pages()
            self._file.commit()
            record.file, record.bytes = self._name, self.size
            record.sha256 = self._digest.hexdigest()
        record.rejected = sum(
            1 if rejected.num_records is None else rejected.num_records
            for rejected in self._rejected
        )
        record.reasons = reasons_of(self._rejected)
        record.next = following
        folder.finish_shard(*self._task_and_shard, record, self._rejected)
