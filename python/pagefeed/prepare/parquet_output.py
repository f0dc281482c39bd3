"""Folders of Parquet files of token lists."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from pagefeed.core._base import num_processors
from pagefeed.core.storage import PARQUET, UNFINISHED
from pagefeed.errors import FileAccessError, InvalidArgumentError
from pagefeed.flat import Output, TokenRows
from pagefeed.prepare.jobs import (
    JOB,
    ShardFolder,
    check_same_job,
    read_record,
    reading_job,
)
from pagefeed.prepare.parquet_sinks import GROUP_BYTES, Compression, ListSink

LOCK = ".convert.lock"
FILES = r"part-\d{5,}\.(parquet|json)|_manifest\.json|job\.json"


@dataclass(eq=False)
class ParquetOutput(Output):
    """Parquet files with a list of tokens a row, and a manifest at the end.

    Shards and row groups end after the document that fills them. Only numbers of
    tokens decide this, so the files do not depend on where a killed job stopped.

    Args:
        page_bytes: Bytes of tokens in a page, at four bytes a token.
        compression: Codec of pages.
    """

    signs = PARQUET
    widest = "uint32"
    _: KW_ONLY
    page_bytes: int
    compression: Compression

    @property
    def paths(self) -> tuple[str, ...]:
        """The folder."""
        return (f"{self.path}/",)

    def check(self) -> None:
        """Refuse wide tokens, and files that no killed run of this job left."""
        if self.dtype.itemsize > 4:
            raise InvalidArgumentError(
                f"dtype={self.dtype.name}: files of Parquet are written with tokens of "
                "at most 32 bits: give dtype='uint32', which holds any vocabulary"
            )
        self._shards: list[dict[str, Any]] = []
        self._has_files = True  # Until it is known.
        self._file: ListSink | None = None
        self._in_group = self._in_shard = self._num_documents = 0
        settings = {
            **self.source,
            "to": "parquet",
            "dtype": self.dtype.name,
            "column": self.column,
            "shard_bytes": self.shard_bytes,
            "page_bytes": self.page_bytes,
            "compression": self.compression,
        }
        self._out = ShardFolder(self.folder, settings, FILES)
        begun = read_record(self.folder, JOB)
        if begun is None:
            super().check()
        else:
            check_same_job(self.path, begun.get("settings"), settings)

    def begin(self) -> None:
        """Claim the folder, and load what a killed run of the job finished."""
        self.stack.enter_context(self._out.claimed(LOCK))
        self.stack.push(self._forget)
        self._shards = self._out.finished_first()
        with reading_job(self.folder):
            self.num_done = sum(shard["documents"] for shard in self._shards)
        self._has_files = bool(self._shards)
        self._begin_shard()

    def _forget(self, error: object, *_: object) -> None:
        """Remove all files after an error before the first shard."""
        with suppress(FileAccessError):
            if error is not None and not self._has_files:
                self.folder.check_claim()
                self.folder.remove([os.path.basename(JOB)], UNFINISHED)

    def put(self, rows: TokenRows) -> None:
        """Write documents."""
        at = 0
        while at + 1 < len(rows.offsets):
            room = self._group_tokens - self._in_group
            stop = rows.filled(at, min(room, self.shard_tokens - self._in_shard))
            self._add(rows.some(at, stop))
            at = stop

    def _add(self, rows: TokenRows) -> None:
        """Add documents to the row group; end what they fill."""
        file = self._file
        if file is None:
            file = self._file = self._new_file()
        file.add(
            self.column,
            rows.tokens,
            np.diff(rows.offsets),
            num_threads=num_processors(),
        )
        self._in_group += len(rows.tokens)
        self._in_shard += len(rows.tokens)
        self._num_documents += len(rows.offsets) - 1
        if self._in_shard >= self.shard_tokens:
            self._end_shard()
        elif self._in_group >= self._group_tokens:
            file.end_group()
            self._in_group = 0

    def _new_file(self) -> ListSink:
        file = ListSink(
            self.folder.writer(self._name),
            {self.column: self.dtype},
            compression=self.compression,
            page_bytes=self.page_bytes,
        )
        self.stack.enter_context(file)
        return file

    @property
    def _group_tokens(self) -> int:
        return GROUP_BYTES // self.dtype.itemsize

    @property
    def _name(self) -> str:
        return f"part-{len(self._shards):05}.parquet"

    def _begin_shard(self) -> None:
        self._in_group = self._in_shard = self._num_documents = 0

    def _end_shard(self) -> None:
        """Give the shard its name, and record it."""
        file = self._file
        if file is None:
            return
        file.end_group()
        self.folder.check_claim()
        self._has_files = True
        file.commit()
        self._shards.append(
            {
                **file.output.record(self._name),
                "documents": self._num_documents,
                "tokens": self._in_shard,
            }
        )
        self._out.finish_shard(len(self._shards) - 1, self._shards[-1:])
        self._file = None
        self._begin_shard()

    def finish(self) -> None:
        """End the last shard, and write the manifest."""
        self._end_shard()
        with reading_job(self.folder):
            written = sum(shard["tokens"] for shard in self._shards)
            if written != self.num_tokens:
                raise ValueError(f"{written} tokens of {self.num_tokens}")
        self._out.finish(
            "pagefeed tokens",
            self._shards,
            num_documents=sum(shard["documents"] for shard in self._shards),
            num_tokens=self.num_tokens,
        )
        self.files = [self.folder.path_of(shard["file"]) for shard in self._shards]
