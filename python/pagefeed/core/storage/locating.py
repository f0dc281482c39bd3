"""Files named by paths and URLs, and the storage that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from pagefeed.core.storage.paths import PARQUET, Paths, is_url, plain_paths
from pagefeed.core.storage.storage import Storage
from pagefeed.core.wiring import provided

__all__ = ["Located", "located", "located_exactly"]

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
    """Return the absolute paths and URLs of files, which are not patterns."""
    names = tuple(files)
    return Located(_storage(options, is_remote=any(map(is_url, names))), names)


def _storage(options: Options | None, *, is_remote: bool) -> Storage:
    """Return the storage of files: of this machine, unless one is named by a URL."""
    if not is_remote and options is None:
        return Storage()
    storage: Storage = provided("storage of URLs")(options, is_remote=is_remote)
    return storage
