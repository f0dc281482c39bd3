"""Writes files that appear complete or not at all."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from pagefeed.caches import WholeWriter, is_taken, open_lock
from pagefeed.core.storage import write_errors
from pagefeed.errors import FileAccessError


class FileWriter(WholeWriter):
    """Writes a file under a temporary name, and renames it when it is complete.

    Args:
        path: Path of the file; an existing file is replaced.
        is_private: Only its owner may read it; else the umask decides.

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

    def __init__(self, path: str, *, is_private: bool = False) -> None:
        self.path = path
        """Path of the file."""
        self.size = 0
        """Bytes written so far."""
        with write_errors(path):
            if os.path.isdir(path):
                raise IsADirectoryError(f"{path} is a folder")
            folder, name = os.path.split(path)
            self.draft = os.path.join(folder, f".{name}.{token_hex(8)}")
            """Path of the incomplete file."""
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(self.draft, flags, 0o600 if is_private else 0o666)
        self._file = os.fdopen(descriptor, "wb", buffering=1 << 20)

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        with write_errors(self.path):
            self._file.write(data)
        self.size += len(data)

    def commit(self) -> None:
        """Flush the file to disk and give it its name."""
        if self._file.closed:
            return
        with write_errors(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self.draft, self.path)

    def abandon(self) -> None:
        """Remove the file, unless it was committed."""
        with suppress(OSError):  # Closing flushes, which fails on a full disk.
            self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self.draft)


def make_folder(path: str) -> str:
    """Make a folder and its parents; return its absolute path.

    Raises:
        FileAccessError: If it cannot be made.
    """
    with write_errors(path):
        os.makedirs(path, exist_ok=True)
    return os.path.abspath(path)


def remove_files(folder: str, names: Iterable[str]) -> None:
    """Remove files of a folder, and the folder if it is empty then."""
    with write_errors(folder):
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"{folder}/{name}")
        with suppress(FileNotFoundError):
            if not os.listdir(folder):
                os.rmdir(folder)


def this_process() -> str:
    """Return what names this process to people on other machines."""
    now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    return f"process {os.getpid()} of {socket.gethostname()} since {now}"


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold a lock, which the system releases when the process ends.

    Args:
        path: The lock file. It exists while the lock is held, and names the holder.

    Raises:
        FileAccessError: If another process holds the lock; the message names it.
    """
    with write_errors(path):
        descriptor = open_lock(path)
    try:
        if not is_taken(path, descriptor):
            holder = os.pread(descriptor, 1000, 0).decode().strip() or "another process"
            raise FileAccessError(
                f"{os.path.dirname(path)} is being written by {holder}: wait for it, "
                "end it, or give another folder"
            )
        try:
            with write_errors(path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{this_process()}\n".encode(), 0)
            yield
        finally:
            remove_files(os.path.dirname(path), [os.path.basename(path)])
    finally:
        os.close(descriptor)
