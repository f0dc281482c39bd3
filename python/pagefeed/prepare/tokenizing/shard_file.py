"""The file of a shard: the core writes lists, pyarrow the other columns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Self

from pagefeed import _core
from pagefeed.prepare.texts import arrow
from pagefeed.prepare.tokenizing.job import Layout
from pagefeed.storage import FileWriter

__all__ = ["ShardFile"]

STORED_BYTES = 4
"""Bytes of a token before compression: Parquet has no smaller numbers."""


class ShardFile:
    """Writes one file, which is not created before its first row.

    Args:
        begin: Begins the file.
        schema: A ``pyarrow.Schema`` whose first columns are lists of integers.
        num_lists: Number of these columns.
        layout: Layout of pages.
    """

    def __init__(
        self,
        begin: Callable[[], FileWriter],
        schema: Any,
        num_lists: int,
        layout: Layout,
    ) -> None:
        self._begin = begin
        empty = arrow().BufferOutputStream()
        arrow("pyarrow.parquet").ParquetWriter(empty, schema).close()
        self.lists = _core.ListFile(
            empty.getvalue().to_pybytes(),
            num_lists,
            layout.compression,
            layout.page_bytes,
        )
        """Writes the list columns."""
        self._layout = layout
        self._others: list[Any] = []
        self._has_others = len(schema) > num_lists
        self._file: FileWriter | None = None
        self._digest = hashlib.sha256()

    @property
    def size(self) -> int:
        """Bytes written."""
        return 0 if self._file is None else self._file.size

    @property
    def sha256(self) -> str:
        """Checksum of the file, in hexadecimal digits."""
        return self._digest.hexdigest()

    @property
    def waiting(self) -> int:
        """Approximate uncompressed bytes of rows that are not in a row group yet."""
        others = sum(int(table.nbytes) for table in self._others)
        return STORED_BYTES * self.lists.num_waiting + others

    def write(self, others: Any) -> None:
        """Write the further columns of rows whose lists were written."""
        if self._has_others:
            self._others.append(others)
        if self._file is None:
            self._file = self._begin()
        self._write_pages()

    def end_group(self) -> None:
        """End the row group."""
        self.lists.end_group(self._others_as_file() if self._has_others else None)
        self._write_pages()

    def _others_as_file(self) -> bytes:
        table = arrow().concat_tables(self._others)
        self._others = []
        sink, page_bytes = arrow().BufferOutputStream(), self._layout.page_bytes
        writer = arrow("pyarrow.parquet").ParquetWriter(
            sink,
            table.schema,
            compression=self._layout.compression,
            # Columns such as source and language have few values.
            use_dictionary=True,
            data_page_size=page_bytes,
            write_batch_size=max(1024, page_bytes // STORED_BYTES),
            write_page_checksum=True,
            write_page_index=True,
        )
        writer.write_table(table, row_group_size=max(1, len(table)))
        writer.close()
        return bytes(sink.getvalue().to_pybytes())

    def commit(self) -> None:
        """Write the footer and give the file its name, if it has rows."""
        if self._file is not None:
            self.lists.end()
            self._write_pages()
            self._file.commit()

    def _write_pages(self) -> None:
        data = self.lists.take()
        if self._file is not None:
            self._file.write(data)
            self._digest.update(data)

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file, unless it was committed."""
        if self._file is not None:
            self._file.abandon()
