"""Parquet files that are written part by part, and appear when they are complete."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeAlias

import numpy as np

from pagefeed import _core
from pagefeed.caches import WholeWriter
from pagefeed.core._base import require
from pagefeed.flat import TokenRows
from pagefeed.remote import FileWriter

Compression: TypeAlias = Literal["zstd", "lz4", "snappy", "none"]
"""Codecs of pages."""

_IDS = 1 << 18
"""As many ids as large vocabularies have. A page with a larger token has four bytes for
each of its tokens."""


def _pyarrow(name: str = "pyarrow") -> Any:
    return require(name, extra="pyarrow", purpose="Parquet files")


class TokenSink(WholeWriter):
    """A Parquet file of lists of tokens of at most 32 bits, as the core writes them.

    Args:
        file: Where to write.
        column: Name of the tokens.
        dtype: Type of the tokens.
        compression: Codec of pages.
        page_bytes: Bytes of tokens in a page, at four bytes a token.
    """

    def __init__(
        self,
        file: FileWriter,
        column: str,
        dtype: np.dtype[Any],
        *,
        compression: Compression,
        page_bytes: int,
    ) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        """Digest of all bytes written so far."""
        self._has_ended = False
        arrow, empty = _pyarrow(), _pyarrow().BufferOutputStream()
        token = arrow.field("element", arrow.from_numpy_dtype(dtype), nullable=False)
        schema = arrow.schema([arrow.field(column, arrow.list_(token), nullable=False)])
        _pyarrow("pyarrow.parquet").ParquetWriter(empty, schema).close()
        self._lists = _core.ListFile(
            empty.getvalue().to_pybytes(),
            1,
            compression,
            page_bytes,
            min(int(np.iinfo(dtype).max) + 1, _IDS),
        )

    def add(self, rows: TokenRows) -> None:
        """Write documents."""
        counts = np.diff(rows.offsets).astype(np.uint32)
        self._lists.append(0, rows.tokens.astype(np.uint32), counts)
        self._write()

    def end_group(self) -> None:
        """End the row group, if it has rows."""
        if self._lists.num_waiting:
            self._lists.end_group()
            self._write()

    def _write(self) -> None:
        data = self._lists.take()
        self.file.write(data)
        self.digest.update(data)

    def commit(self) -> None:
        """Write the footer, and give the file its name."""
        if not self._has_ended:
            self.end_group()
            self._lists.end()
            self._write()
            self._has_ended = True
        self.file.commit()

    def abandon(self) -> None:
        """Remove the file, unless it was committed."""
        self.file.abandon()
