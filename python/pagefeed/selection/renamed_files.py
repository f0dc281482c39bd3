"""Parquet files whose footers are read under the names of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pagefeed.core._base import require
from pagefeed.core.storage import Storage
from pagefeed.errors import CorruptFileError
from pagefeed.remote import RangeFile

TAIL_BYTES = 64 << 10
"""Bytes of the end of a file that are read at first: footers mostly fit."""
MAGIC = b"PAR1"
"""First and last bytes of a file."""
TRAILER = 8
"""Length of a footer, and magic."""


class RenamedFile(RangeFile):
    """A Parquet file that is read with a changed footer."""

    def __init__(self, source: Storage, file: str, begin: int, tail: bytes) -> None:
        super().__init__(source, file)
        self._begin, self._tail = begin, tail
        self._size = begin + len(tail)

    def read(self, size: int | None = -1) -> bytes:
        """Read some bytes, or all that are left."""
        end = self._size if size is None or size < 0 else self._at + size
        at, end = self._at, min(end, self._size)
        if at >= end:
            return b""
        before = b""
        if at < self._begin:
            before = self._source.read(self._file, at, min(end, self._begin))
        self._at = end
        tail = self._tail[max(at - self._begin, 0) : max(end - self._begin, 0)]
        return before + tail

    readall = read


def open_renamed(storage: Storage, file: str, rename: Callable[[bytes], bytes]) -> Any:
    """Open a Parquet file as a ``pyarrow.NativeFile`` with a changed footer.

    Args:
        storage: Storage of the file.
        file: Its path.
        rename: Returns the changed footer, given that of the file.

    Raises:
        CorruptFileError: If it has no footer.
        MissingDependencyError: If pyarrow is not installed.
    """
    arrow = require("pyarrow", extra="pyarrow", purpose="reading columns")
    size = storage.size(file)
    begin = max(0, size - TAIL_BYTES)
    tail = storage.read(file, begin, size)
    length = int.from_bytes(tail[-TRAILER:-4], "little")
    if not tail.endswith(MAGIC) or length > size - len(MAGIC) - TRAILER:
        raise CorruptFileError(
            f"{file}: not a Parquet file, or a truncated one: it ends with "
            f"{tail[-4:]!r} and promises a footer of {length} bytes"
        ).at(file=file)
    if length + TRAILER > len(tail):
        begin = size - TRAILER - length
        tail = storage.read(file, begin, size)
    at = len(tail) - TRAILER - length
    try:
        footer = rename(tail[at:-TRAILER])
    except CorruptFileError as error:
        raise CorruptFileError(f"{file}: {error}").at(file=file) from None
    if footer == tail[at:-TRAILER] and storage.handle is None:
        return storage.open_arrow(file)
    new = tail[:at] + footer + len(footer).to_bytes(4, "little") + MAGIC
    return arrow.PythonFile(RenamedFile(storage, file, begin, new), mode="r")
