"""The file of a shard: lists by the core, further columns by pyarrow."""

from __future__ import annotations

import hashlib
from typing import Any, Self

from pagefeed import _core
from pagefeed.prepare.texts import arrow
from pagefeed.prepare.tokenizing.job import Layout
from pagefeed.storage import FileWriter

__all__ = ["ShardFile"]

STORED_BYTES = 4
"""Of a token, before pages are compressed: Parquet has no smaller numbers."""


class ShardFile:
    """Writes one file; there is none as long as it has no rows.

    Args:
        path: Where the file will be.
        schema: A ``pyarrow.Schema`` whose first columns are lists of integers.
        num_lists: How many.
        layout: How pages are written.
    """

    def __init__(
        self,
        path: str,
        schema: Any,  # noqa: ANN401 - pyarrow has no types
        num_lists: int,
        layout: Layout,
    ) -> None:
        self.path = path
        """Path of the file."""
        empty = arrow().BufferOutputStream()
        arrow("pyarrow.parquet").ParquetWriter(empty, schema).close()
        self.lists = _core.ListFile(
            empty.getvalue().to_pybytes(),
            num_lists,
            layout.compression,
            layout.page_bytes,
        )
        """Takes the rows of the lists."""
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
        """Checksum of what was written, in hexadecimal digits."""
        return self._digest.hexdigest()

    @property
    def waiting(self) -> int:
        """Bytes of what is in no row group yet, about, before it is compressed."""
        others = sum(int(table.nbytes) for table in self._others)
        return STORED_BYTES * self.lists.num_waiting + others

    def write(self, others: Any) -> None:  # noqa: ANN401
        """Write rows whose lists are there, with a table of their further columns."""
        if self._has_others:
            self._others.append(others)
        if self._file is None:
            self._file = FileWriter(self.path)
        self._write_pages()

    def end_group(self) -> None:
        """Have all rows since the last row group in one."""
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
            # Names of sources and languages are few.
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
        """Write the footer, and have the file under its name, if it has rows."""
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
