"""A Parquet file that appears whole, with its checksum."""

from __future__ import annotations

import hashlib
from types import TracebackType
from typing import Any, Self

from pagefeed._base import require
from pagefeed.storage import FileWriter

__all__ = ["ParquetFileWriter"]

_BUFFER_BYTES = 1 << 20


class ParquetFileWriter:
    """Writes one file under another name, and renames it when it is complete.

    Args:
        path: Where the file will be.
        schema: A ``pyarrow.Schema``.
        **options: Those of ``pyarrow.parquet.ParquetWriter``.
    """

    def __init__(self, path: str, schema: Any, **options: Any) -> None:  # noqa: ANN401
        arrow = require("pyarrow", extra="pyarrow", purpose="Parquet files")
        parquet = require("pyarrow.parquet", extra="pyarrow", purpose="Parquet files")
        self.path = path
        """Where the file will be."""
        self._file = FileWriter(path)
        self._sink = _Sink(self._file)
        self._stream = arrow.BufferedOutputStream(
            arrow.PythonFile(self._sink, mode="w"), _BUFFER_BYTES
        )
        self._writer = parquet.ParquetWriter(
            self._stream,
            schema,
            write_page_index=True,
            write_page_checksum=True,
            **options,
        )

    @property
    def size(self) -> int:
        """Bytes of whole row groups, and of the file in the end."""
        return self._file.size

    @property
    def sha256(self) -> str:
        """Checksum of what was written, in hexadecimal digits."""
        return self._sink.digest.hexdigest()

    def write(self, table: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        """Write a row group, or several of a million rows each."""
        self._writer.write_table(table)
        self._stream.flush()

    def commit(self) -> None:
        """Write the footer, and have the file under its name."""
        self._writer.close()
        self._stream.close()
        self._file.commit()

    def __enter__(self) -> Self:
        """Start to write."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave nothing of it, unless it was committed."""
        self._sink.is_abandoned = True
        self._writer.close()
        self._stream.close()
        self._file.abandon()


class _Sink:
    """A file as pyarrow writes to it."""

    def __init__(self, file: FileWriter) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.is_abandoned = False
        self.closed = False

    def write(self, data: Any) -> int:  # noqa: ANN401 - anything with bytes
        view = memoryview(data).cast("B")
        if not self.is_abandoned:
            self._file.write(view)
            self.digest.update(view)
        return len(view)

    def tell(self) -> int:
        return self._file.size

    def flush(self) -> None:
        """Nothing: the file is committed as a whole."""

    def close(self) -> None:
        self.closed = True
