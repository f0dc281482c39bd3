"""A file of any storage as a file object of Python."""

from __future__ import annotations

import io

from pagefeed.core.storage import Storage


class RangeFile(io.RawIOBase):
    """A file that reads the bytes asked for, and nothing ahead."""

    def __init__(self, source: Storage, file: str) -> None:
        super().__init__()
        self._source, self._file = source, file
        self._size, self._at = source.size(file), 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to where the next read begins."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, base[whence] + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read some bytes, or all that are left."""
        end = self._size if size is None or size < 0 else self._at + size
        end = min(end, self._size)
        if end <= self._at:
            return b""
        data = self._source.read(self._file, self._at, end)
        self._at = end
        return data

    readall = read
