"""Files of any storage as pyarrow opens them."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any, Protocol

from pagefeed._base import require

__all__ = ["arrow_filesystem_of"]


class _Source(Protocol):
    def size(self, file: str) -> int: ...

    def read(self, file: str, begin: int, end: int) -> bytes: ...


class RangeFile(io.RawIOBase):
    """A file that reads what is asked for, and nothing ahead."""

    def __init__(self, source: _Source, file: str) -> None:
        super().__init__()
        self._source, self._file = source, file
        self._size, self._at = source.size(file), 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to where the next read begins."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, base[whence] + offset)
        return self._at

    def size(self) -> int:
        """Return the bytes of the file."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        """Read some bytes, or all that are left."""
        end = self._size if size is None or size < 0 else self._at + size
        end = min(end, self._size)
        if end <= self._at:
            return b""
        found = self._source.read(self._file, self._at, end)
        self._at = end
        return found

    readall = read


def arrow_filesystem_of(source: _Source) -> Any:  # noqa: ANN401
    """Return a ``pyarrow.fs.FileSystem`` that opens files of a storage by their names.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
    """
    purpose = "selecting rows by their columns"
    fs = require("pyarrow.fs", extra="pyarrow", purpose=purpose)
    return fs.PyFileSystem(_handler_class()(source))


@lru_cache
def _handler_class() -> Any:  # noqa: ANN401
    pa = require("pyarrow", extra="pyarrow", purpose="reading columns")
    fs = require("pyarrow.fs", extra="pyarrow", purpose="reading columns")

    class Handler(fs.FileSystemHandler):  # type: ignore[misc, name-defined]
        """Opens files for reading; all else is not for datasets."""

        def __init__(self, source: _Source) -> None:
            self.source = source

        def get_type_name(self) -> str:
            return "pagefeed"

        def normalize_path(self, path: str) -> str:
            return path

        def get_file_info(self, paths: list[str]) -> list[Any]:
            return [
                fs.FileInfo(path, fs.FileType.File, size=self.source.size(path))
                for path in paths
            ]

        def open_input_file(self, path: str) -> Any:  # noqa: ANN401
            return pa.PythonFile(RangeFile(self.source, path), mode="r")

        open_input_stream = open_input_file

        def _refuse(self, *_: object) -> Any:  # noqa: ANN401
            raise NotImplementedError("files are only read")

        get_file_info_selector = _refuse
        create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = (
            _refuse
        )
        delete_file = move = copy_file = _refuse
        open_output_stream = open_append_stream = _refuse

    # Its base is abstract: what is assigned above counts as defined.
    return Handler
