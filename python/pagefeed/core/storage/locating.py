"""Files named by paths and URLs, and the storage that has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pagefeed.core.storage.paths import PARQUET, Paths, check_files_given, plain_paths
from pagefeed.core.storage.storage import Storage
from pagefeed.core.storage.urls import is_url, matches
from pagefeed.core.wiring import provided
from pagefeed.errors import MissingFileError

__all__ = ["Located", "located", "located_among", "located_exactly"]

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
    """Find the files that paths, URLs, folders and patterns mean.

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
    """Name files by their absolute paths and URLs, which are no patterns."""
    names = tuple(files)
    return Located(_storage(options, is_remote=any(map(is_url, names))), names)


def located_among(
    paths: Paths, files: Sequence[str], options: Options | None = None
) -> Located:
    """Find what paths, URLs, folders and patterns mean among known files; list nothing.

    Raises:
        MissingFileError: If none of the files is meant by a path.
        InvalidArgumentError: As :func:`located`.
    """
    given = plain_paths(paths)
    is_remote = any(map(is_url, (*given, *files[:1])))
    storage = _storage(options, is_remote=is_remote)
    found = check_files_given(given, lambda path: _among(path, storage, files))
    return Located(storage, tuple(found))


def _among(path: str, storage: Storage, files: Sequence[str]) -> list[str]:
    name = storage.name_of(path.removeprefix("file://"))
    below = name.rstrip("/") + "/"
    meant = [file for file in files if file.startswith(below) or file == name]
    if not meant and re.search(r"[*?[]", path):
        meant = [file for file in files if matches(file, name)]
    if not meant:
        raise MissingFileError(
            f"{path}: the index has no such files; `pagefeed index --check` tells "
            "which files came after it"
        )
    return meant


def _storage(options: Options | None, *, is_remote: bool) -> Storage:
    """Return the storage of files: of this machine, unless one is named by a URL."""
    if not is_remote and options is None:
        return Storage()
    found: Storage = provided("storage of URLs")(options, is_remote=is_remote)
    return found
