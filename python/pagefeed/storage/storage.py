"""What is asked of the place where files lie, and the local file system as one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pagefeed import _core
from pagefeed._base import require
from pagefeed.errors import FileAccessError, MissingFileError, StaleFileError
from pagefeed.storage.paths import PARQUET, Paths, expand_paths

__all__ = ["LocalStorage", "Storage"]


class Storage(Protocol):
    """Where files of data lie. All that Python does with them goes through here.

    Files are named by the text that :meth:`list_files` returns. A file that is not
    there is a MissingFileError, one that cannot be read a FileAccessError.
    """

    @property
    def handle(self) -> _core.Remote | None:
        """The storage as the data plane takes it; None for files of this machine."""

    def __hash__(self) -> int:
        """Return the same for equal storages, whose names mean the same files."""

    def list_files(
        self, paths: Paths, suffixes: tuple[str, ...] = PARQUET
    ) -> list[str]:
        """Return the files meant by paths, folders and patterns, in order.

        A folder stands for the files below whose names end in one of ``suffixes``.
        """

    def name_of(self, path: str) -> str:
        """Return the name of a file as :meth:`list_files` would list it."""

    def version(self, file: str) -> str:
        """Return what changes whenever a file does: text of no further meaning."""

    def size(self, file: str) -> int:
        """Return the bytes of a file."""

    def read(self, file: str, begin: int, end: int) -> bytes:
        """Read bytes ``[begin, end)`` of a file, which must have them.

        Raises:
            StaleFileError: If the file ends before.
        """

    def counts(self) -> dict[str, int]:
        """Return what was sent so far: requests, retries, bytes and the like."""

    def arrow_filesystem(self) -> Any:  # noqa: ANN401
        """Return a ``pyarrow.fs.FileSystem`` that opens files by their names."""


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Files of this machine, and of what is mounted there.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"PAR1PAR1")
        ...     file.flush()
        ...     LocalStorage().read(file.name, 4, 8)
        b'PAR1'
    """

    @property
    def handle(self) -> None:
        """None: the data plane reads files of this machine by their paths."""

    def list_files(
        self, paths: Paths, suffixes: tuple[str, ...] = PARQUET
    ) -> list[str]:
        """Return the absolute paths of the files meant, see ``pagefeed.parquet``.

        Raises:
            MissingFileError: If a path does not exist or a pattern matches nothing.
            InvalidArgumentError: If nothing is given, or a file is given twice.
        """
        return expand_paths(paths, suffixes)

    def name_of(self, path: str) -> str:
        """Return the absolute path of a file."""
        return os.path.abspath(path)

    def version(self, file: str) -> str:
        """Return size, time of change in nanoseconds, and inode of a file."""
        with _reading(file):
            state = os.stat(file)
        return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"

    def size(self, file: str) -> int:
        """Return the bytes of a file."""
        with _reading(file):
            return os.stat(file).st_size

    def read(self, file: str, begin: int, end: int) -> bytes:
        """Read bytes ``[begin, end)`` of a file.

        Raises:
            StaleFileError: If the file ends before.
        """
        with _reading(file), open(file, "rb") as opened:
            opened.seek(begin)
            found = opened.read(end - begin)
        if len(found) < end - begin:
            error = StaleFileError(
                f"{file}: expected bytes {begin} to {end}, found its end at "
                f"{begin + len(found)}: the file changed while it was read"
            )
            error.file = file
            raise error
        return found

    def counts(self) -> dict[str, int]:
        """Return nothing: files of this machine are not counted."""
        return {}

    def arrow_filesystem(self) -> Any:  # noqa: ANN401
        """Return pyarrow's file system of this machine.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        purpose = "selecting rows by their columns"
        return require("pyarrow.fs", extra="pyarrow", purpose=purpose).LocalFileSystem()


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Tell what the system says of a file as an error of its own kind."""
    try:
        yield
    except OSError as problem:
        raise _refused(file, problem) from problem


def _refused(file: str, problem: OSError) -> FileAccessError:
    error: FileAccessError
    if isinstance(problem, FileNotFoundError):
        error = MissingFileError(
            f"{file} does not exist any more: put it back, or name the files there are"
        )
    else:
        error = FileAccessError(f"{file}: cannot be read: {problem}")
    error.file = file
    return error
