"""Files that are written from the begin to the end, and appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from pagefeed._base import WholeWriter
from pagefeed.errors import FileAccessError

__all__ = ["FileWriter", "SummedWriter", "make_folder", "names_in", "remove_files"]


class FileWriter(WholeWriter):
    """Writes one file under another name, and renames it when it is complete.

    Args:
        path: Where the file will be; one that is there is replaced.

    Raises:
        FileAccessError: If it cannot be written, here and later.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with FileWriter(f"{folder}/a.bin") as out:
        ...         out.write(b"abc")
        ...     out.size
        3
    """

    def __init__(self, path: str) -> None:
        self.path = path
        """Where the file will be."""
        self.size = 0
        """Bytes written so far."""
        with _writing(path):
            number, self.draft = tempfile.mkstemp(
                prefix=f".{os.path.basename(path)}.", dir=os.path.dirname(path) or "."
            )
        """The file as long as it is not complete."""
        self._file = os.fdopen(number, "wb", buffering=1 << 20)

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        with _writing(self.path):
            self._file.write(data)
        self.size += len(data)

    def commit(self) -> None:
        """Have all of it on disk, under its name; once is enough."""
        if self._file.closed:
            return
        with _writing(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.chmod(self.draft, 0o644)
            os.replace(self.draft, self.path)

    def abandon(self) -> None:
        """Leave nothing of it, unless it was committed."""
        self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self.draft)

    def _publish(self) -> None:
        self.commit()

    def _clear(self) -> None:
        self.abandon()


class SummedWriter(FileWriter):
    """The same with a checksum of what was written."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.crc32 = 0
        """CRC-32 of the bytes so far."""

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        super().write(data)
        self.crc32 = zlib.crc32(data, self.crc32)


def make_folder(path: str) -> str:
    """Make a folder and those above it; returns its absolute path.

    Raises:
        FileAccessError: If it cannot be made.
    """
    with _writing(path):
        os.makedirs(path, exist_ok=True)
    return os.path.abspath(path)


def names_in(folder: str) -> list[str]:
    """Return the names of all that lies in a folder, sorted; none if there is none."""
    with _writing(folder), suppress(FileNotFoundError):
        return sorted(os.listdir(folder))
    return []


def remove_files(folder: str, names: Iterable[str]) -> None:
    """Remove files of a folder, and the folder if nothing is left in it."""
    with _writing(folder):
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"{folder}/{name}")
        with suppress(FileNotFoundError):
            if not os.listdir(folder):
                os.rmdir(folder)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        error = FileAccessError(f"{path}: cannot be written: {problem}")
        error.file = path
        raise error from problem
