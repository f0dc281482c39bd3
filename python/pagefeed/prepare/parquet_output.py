"""Parquet files of token lists, written by pyarrow."""

from __future__ import annotations

from typing import Any

from pagefeed._base import WholeWriter, require
from pagefeed.dataset import Output, TokenRows
from pagefeed.storage import PARQUET, FileWriter

__all__ = ["ParquetFile", "ParquetOutput"]

_GROUP_BYTES = 64 << 20


def _pyarrow(name: str = "pyarrow") -> Any:
    return require(name, extra="pyarrow", purpose="Parquet files")


class ParquetOutput(Output):
    """Parquet files with a list of tokens a row."""

    signs = PARQUET
    _file: ParquetFile | None = None

    def put(self, rows: TokenRows) -> None:
        """Write documents; a row group has those of one or more pages."""
        arrow = _pyarrow()
        lists = arrow.LargeListArray.from_arrays(rows.offsets, arrow.array(rows.tokens))
        kind = arrow.list_(arrow.from_numpy_dtype(self.dtype))
        table = arrow.table({self.column: lists.cast(kind)})
        if self._file is None or self._file.file.size >= self.shard_bytes:
            self.finish()
            file = self.folder.writer(f"part-{len(self.files):05}.parquet")
            self._file = self.stack.enter_context(ParquetFile(file, table.schema))
            self.files.append(file.path)
            self._waiting: list[Any] = []
        self._waiting.append(table)
        if sum(table.nbytes for table in self._waiting) >= _GROUP_BYTES:
            self._flush(self._file)

    def _flush(self, file: ParquetFile) -> None:
        if self._waiting:
            file.writer.write_table(_pyarrow().concat_tables(self._waiting))
            self._waiting = []

    def finish(self) -> None:
        """Write the last footer."""
        if self._file is not None:
            self._flush(self._file)
            self._file.commit()


class ParquetFile(WholeWriter):
    """A Parquet file, as a file object that pyarrow writes to."""

    closed = False

    def __init__(
        self,
        file: FileWriter,
        schema: Any,
        *,
        compression: str = "zstd",
        page_bytes: int = 256 << 10,
    ) -> None:
        parquet = _pyarrow("pyarrow.parquet")
        self.file = file
        self._is_abandoned = False
        self.writer = parquet.ParquetWriter(
            _pyarrow().PythonFile(self, mode="w"),
            schema,
            compression=compression,
            use_dictionary=False,
            data_page_size=page_bytes,
            write_page_index=True,
            write_page_checksum=True,
        )

    def commit(self) -> None:
        """Write the footer, and give the file its name."""
        self.writer.close()
        self.file.commit()

    def abandon(self) -> None:
        """Remove the file, unless it was committed."""
        self._is_abandoned = True
        self.writer.close()
        self.file.abandon()

    def write(self, data: Any) -> int:
        """Append bytes, unless the file was abandoned."""
        view = memoryview(data).cast("B")
        if not self._is_abandoned:
            self.file.write(view)
        return len(view)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self.file.size

    def flush(self) -> None:
        """Do nothing: the file is committed as a whole."""

    def close(self) -> None:
        """Do nothing but note that pyarrow closed the file."""
        self.closed = True
