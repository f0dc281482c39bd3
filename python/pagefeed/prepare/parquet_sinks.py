"""Parquet files that are written part by part, and appear when they are complete."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.caches import WholeWriter
from pagefeed.core._base import Int64Array, require
from pagefeed.remote import FileWriter

Compression: TypeAlias = Literal["zstd", "lz4", "snappy", "none"]
"""Codecs of pages."""

GROUP_BYTES = 64 << 20
"""Bytes of a row group, before compression."""
STORED_BYTES = 4
"""Bytes of a number by which sizes are counted: of Parquet's smallest numbers."""
_IDS = 1 << 18
"""As many ids as large vocabularies have. A page with a larger token has four bytes for
each of its tokens."""


def _pyarrow(name: str = "pyarrow") -> Any:
    return require(name, extra="pyarrow", purpose="Parquet files")


class Digested:
    """Writes a file, and its digest.

    Args:
        file: Where to write.
    """

    def __init__(self, file: FileWriter) -> None:
        self.file = file
        self._digest = hashlib.sha256()

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self.file.write(data)
        self._digest.update(data)

    def record(self, name: str) -> dict[str, Any]:
        """Return what manifests say of the file: name, size and digest."""
        sha256 = self._digest.hexdigest()
        return {"file": name, "bytes": self.file.size, "sha256": sha256}


class ListSink(WholeWriter):
    """A Parquet file of lists of numbers, as the core writes them, and other columns.

    Args:
        file: Where to write.
        lists: The columns of lists, and the types of their integers, of at most 32 bits
            each. The first one is of tokens.
        others: Schema of further columns, of pyarrow; None without any.
        compression: Codec of pages.
        page_bytes: Bytes of numbers in a page, at four bytes a number.
        metadata: Metadata of the file, by key.
        num_ids: Tokens of pages are below it.
    """

    def __init__(
        self,
        file: FileWriter,
        lists: Mapping[str, npt.DTypeLike],
        others: Any = None,
        *,
        compression: Compression,
        page_bytes: int,
        metadata: Mapping[str, str] | None = None,
        num_ids: int = _IDS,
    ) -> None:
        self.output = Digested(file)
        """The file."""
        self._has_ended = False
        self._columns = {name: number for number, name in enumerate(lists)}
        self._compression: Compression = compression
        self._page_bytes = page_bytes
        arrow, empty = _pyarrow(), _pyarrow().BufferOutputStream()
        fields = []
        kinds = {name: np.dtype(kind) for name, kind in lists.items()}
        for name, dtype in kinds.items():
            item = arrow.field("element", arrow.from_numpy_dtype(dtype), nullable=False)
            fields.append(arrow.field(name, arrow.list_(item), nullable=False))
        schema = arrow.schema([*fields, *(others or ())], metadata=metadata)
        _pyarrow("pyarrow.parquet").ParquetWriter(empty, schema).close()
        self.lists = _core.ListFile(
            empty.getvalue().to_pybytes(),
            len(lists),
            compression,
            page_bytes,
            min([num_ids, *(int(np.iinfo(kind).max) + 1 for kind in kinds.values())]),
        )
        """Takes lists: :meth:`write` writes their pages."""

    def add(
        self,
        name: str,
        numbers: npt.NDArray[Any],
        counts: Int64Array,
        num_threads: int = 1,
    ) -> None:
        """Write rows of a list: all their numbers, and how many each row has."""
        wide = numbers.astype(np.int32 if numbers.dtype.kind == "i" else np.uint32)
        number, counts = self._columns[name], counts.astype(np.uint32)
        self.lists.append(number, wide.view(np.uint32), counts, num_threads)
        self.write()

    def end_group(self, others: Any = None) -> None:
        """End the row group, if it has rows; others is a table of the other columns."""
        if others is not None and others.num_columns:
            data = as_file(
                others, compression=self._compression, page_bytes=self._page_bytes
            )
            self.lists.end_group(data)
        elif self.lists.num_waiting:
            self.lists.end_group()
        self.write()

    def write(self) -> None:
        """Write the pages that are full."""
        self.output.write(self.lists.take())

    def commit(self) -> None:
        """Write the footer, and give the file its name."""
        if not self._has_ended:
            self.end_group()
            self.lists.end()
            self.write()
            self._has_ended = True
        self.output.file.commit()

    def abandon(self) -> None:
        """Remove the file, unless it was committed."""
        self.output.file.abandon()


def as_file(table: Any, *, compression: str, page_bytes: int) -> bytes:
    """Return a table as a file of Parquet with one row group."""
    sink = _pyarrow().BufferOutputStream()
    writer = _pyarrow("pyarrow.parquet").ParquetWriter(
        sink,
        table.schema,
        compression=compression,
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
