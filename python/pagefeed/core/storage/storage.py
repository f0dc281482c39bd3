"""Storage of this machine's files, and the choice of a storage for paths."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import require
from pagefeed.core.storage.paths import (
    PARQUET,
    Paths,
    check_files_given,
    expanded,
    is_url,
    plain_paths,
)
from pagefeed.core.wiring import make_storage
from pagefeed.errors import FileAccessError, MissingFileError, StaleFileError
from pagefeed.parsing import check_small


class Storage:
    """Files of this machine: listed, identified by versions, read by ranges of bytes.

    Python reads all data through this class. :class:`RemoteStorage` derives from it and
    adds URLs. Storages are equal, with equal hashes, if the same names mean the same
    files.

    Raises:
        MissingFileError: If a file is not there.
        FileAccessError: If it cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"PAR1PAR1")
        ...     file.flush()
        ...     Storage().read(file.name, 4, 8)
        b'PAR1'
    """

    finished: Container[str] = ()
    """Remote folders that were listed and have a manifest."""
    handle: _core.Remote | None = None
    """The storage of the data plane; None for local files, which it opens by path."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def list_files(
        self, paths: Paths, suffixes: tuple[str, ...] = PARQUET
    ) -> list[str]:
        """Return the files that paths, folders and patterns refer to, in order.

        The results are absolute paths or URLs. A file may have any name: one that is
        there, like a folder, is never taken for a pattern. A folder means
        the files in it and below whose names end in one of ``suffixes``. A pattern
        (``*``, ``?``, ``[]``, ``**``) means the files and folders that match. Files of
        a folder or pattern are sorted by name, without names that writers hide
        (``_SUCCESS``, ``_metadata``, ``.part``). The elements of a list keep their
        order, which is part of a dataset's identity.

        Raises:
            MissingFileError: If a path does not exist or a pattern matches nothing.
            InvalidArgumentError: If nothing is given, or a file is given twice.
        """
        return check_files_given(paths, lambda path: expanded(path, suffixes))

    def name_of(self, path: str) -> str:
        """Return the name of a file as :meth:`list_files` lists it."""
        return os.path.abspath(path)

    def version(self, file: str) -> str:
        """Return a text that changes when the file changes.

        For local files: size, time of change in nanoseconds, inode, and the digest of
        16 blocks, by which an index knows its files too.
        """
        return self.versions([file])[0]

    def versions(self, files: Sequence[str]) -> list[str]:
        """Return the version of each file."""
        return _core.local_versions(files)

    def written(self, file: str) -> int:
        """Return when a local file was last written, in nanoseconds; 0 if remote."""
        with _reading(file):
            return os.stat(file).st_mtime_ns

    def size(self, file: str) -> int:
        """Return the bytes of a file."""
        with _reading(file):
            return os.stat(file).st_size

    def sizes(self, files: Iterable[str]) -> list[int]:
        """Return the bytes of each of many local files."""
        try:
            return [os.stat(file).st_size for file in files]
        except OSError as problem:
            with _reading(problem.filename):
                raise

    def read(self, file: str, begin: int, end: int) -> bytes:
        """Read bytes ``[begin, end)`` of a file, which must have them.

        Raises:
            StaleFileError: If the file is shorter.
        """
        with _reading(file), open(file, "rb", buffering=0) as opened:
            found_end = os.fstat(opened.fileno()).st_size
            if end <= found_end:
                data = os.pread(opened.fileno(), end - begin, begin)
                while len(data) < end - begin:  # One call reads 2 GiB at most.
                    at = begin + len(data)
                    if not (more := os.pread(opened.fileno(), end - at, at)):
                        break
                    data += more
                found_end = begin + len(data)
        if found_end < end:
            raise StaleFileError(
                f"{file}: expected bytes {begin} to {end}, found its end at "
                f"{found_end}: the file changed while it was read"
            ).at(file=file)
        return data

    def numbers(
        self, file: str, dtype: str, begin: int, count: int
    ) -> npt.NDArray[Any]:
        """Read numbers of a NumPy type, from byte ``begin`` on."""
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(self.read(file, begin, begin + size), dtype)

    def parts(
        self, file: str, begin: int = 0, end: int | None = None, size: int = 16 << 20
    ) -> Iterator[bytes]:
        """Yield bytes ``[begin, end)`` of a file, or all of it, ``size`` at a time."""
        stop = self.size(file) if end is None else end
        for at in range(begin, stop, size):
            yield self.read(file, at, min(at + size, stop))

    def read_all(self, file: str) -> bytes:
        """Read a small file; one of more than 256 MiB is refused."""
        check_small(file, size := self.size(file))
        return self.read(file, 0, size)

    def counts(self) -> dict[str, int]:
        """Return counts of requests, retries and bytes; empty for local files."""
        return {}

    def open_arrow(self, file: str) -> Any:
        """Open a file as a ``pyarrow.NativeFile``.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        fs = require("pyarrow.fs", extra="pyarrow", purpose="reading columns")
        return fs.LocalFileSystem().open_input_file(file)


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Turn an OSError of reading a file into an error of pagefeed."""
    try:
        yield
    except FileNotFoundError as problem:
        raise MissingFileError(
            f"{file} does not exist any more: put it back, or name the files there are"
        ).at(file=file) from problem
    except OSError as problem:
        error = FileAccessError(f"{file}: cannot be read: {problem}")
        raise error.at(file=file) from problem


@contextmanager
def write_errors(
    path: object, kind: type[FileAccessError] = FileAccessError
) -> Iterator[None]:
    """Turn an OSError of writing a file into an error of pagefeed."""
    try:
        yield
    except OSError as problem:
        error = kind(f"{path}: cannot be written: {problem}")
        raise error.at(file=str(path)) from problem


def names_in(folder: str) -> list[str]:
    """Return the sorted names in a folder; none if it does not exist."""
    with write_errors(folder), suppress(FileNotFoundError):
        return sorted(os.listdir(folder))
    return []


Options: TypeAlias = Mapping[str, object]
"""Settings of remote storage, which checks them."""


class Located(NamedTuple):
    """Files and their storage."""

    storage: Storage
    files: tuple[str, ...]
    """Names of the files in the storage, in order."""


def located(
    paths: Paths,
    options: Options | None = None,
    suffixes: tuple[str, ...] = PARQUET,
) -> Located:
    """Find the files that paths, URLs, folders and patterns refer to.

    A folder means the files below whose names end in one of ``suffixes``.

    Raises:
        MissingFileError: If a path does not exist.
        InvalidArgumentError: If nothing is given, a file is given twice, or options are
            given for local files.
        UnsupportedError: If this build of pagefeed has no remote storage.
    """
    given = plain_paths(paths)
    is_remote = any(map(is_url, given))
    storage = _storage(options, is_remote=is_remote)
    return Located(storage, tuple(storage.list_files(given, suffixes)))


def located_exactly(files: Iterable[str], options: Options | None = None) -> Located:
    """Return the absolute paths and URLs of files, which are not patterns."""
    names = tuple(files)
    return Located(_storage(options, is_remote=any(map(is_url, names))), names)


def _storage(options: Options | None, *, is_remote: bool) -> Storage:
    """Return the storage of files: of this machine, unless one is named by a URL."""
    if not is_remote and options is None:
        return Storage()
    return make_storage(options, is_remote)
