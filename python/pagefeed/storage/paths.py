"""From what a caller names - files, folders, patterns - to a list of files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pagefeed.errors import InvalidArgumentError, MissingFileError, UnsupportedError

__all__ = ["PARQUET", "PathLike", "Paths", "expand_paths", "plain_path"]

PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike]

PARQUET = (".parquet", ".parq")
"""Suffixes of the files that a folder of Parquet files stands for."""


def expand_paths(paths: Paths, suffixes: tuple[str, ...] = PARQUET) -> list[str]:
    """Return the absolute paths of all files meant by ``paths``.

    A file is taken as it is, whatever its name. A folder stands for the files in
    it and below whose names end in one of ``suffixes``, a pattern (``*``, ``?``,
    ``[]``, ``**``) for what it matches; both sorted by name, and without the names
    that writers hide
    (``_SUCCESS``, ``_metadata``, ``.part``). The order given is kept between the
    elements of a list, since the order of the files is part of a dataset's identity.

    Raises:
        MissingFileError: If a path does not exist or a pattern matches nothing.
        InvalidArgumentError: If nothing is given, or a file is given twice.
    """
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable):
        paths = [paths]
    given = list(paths)
    files = [
        file for path in given for file in _expand(plain_path(path, "paths"), suffixes)
    ]
    if not files:
        raise InvalidArgumentError("no paths given: name at least one file")
    seen: set[str] = set()
    for file in files:
        if file in seen:
            raise InvalidArgumentError(
                f"{file} is given twice: its rows would be delivered twice per epoch"
            )
        seen.add(file)
    return files


def plain_path(path: object, name: str) -> str:
    """Return a path as text, ``~`` replaced by the home folder.

    Raises:
        InvalidArgumentError: If it is no path.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise InvalidArgumentError(
            f"{name}={path!r} must be a path: text or an os.PathLike"
        )
    return os.path.expanduser(os.fspath(path))


def _expand(path: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    scheme, separator, rest = path.partition("://")
    if separator and scheme != "file":
        raise UnsupportedError(
            f"{scheme}:// paths are not read yet: {path}; only local files are"
        )
    if separator:
        path = rest
    if os.path.isfile(path):
        yield os.path.abspath(path)
    elif Path(path).is_dir():
        yield from _listed(path, _folder(Path(path), suffixes), suffixes)
    elif glob.has_magic(path):
        yield from _listed(path, glob.iglob(path, recursive=True), suffixes)
    else:
        raise MissingFileError(f"{path} does not exist")


def _folder(folder: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    for directory, names, files in os.walk(folder, followlinks=True):
        names[:] = [name for name in names if not _hidden(name)]
        for file in files:
            if file.endswith(suffixes):
                yield os.path.join(directory, file)


def _listed(path: str, found: Iterable[str], suffixes: tuple[str, ...]) -> list[str]:
    files = sorted(
        os.path.abspath(file)
        for file in found
        if not _hidden(os.path.basename(file)) and os.path.isfile(file)
    )
    if not files:
        what = "Parquet files" if suffixes == PARQUET else "such files"
        raise MissingFileError(
            f"{path} holds no {what}: expected names ending in "
            f"{' or '.join(suffixes)} that do not begin with _ or ."
        )
    return files


def _hidden(name: str) -> bool:
    # Hive's partition folders (_date=...) are data, all other _names are not.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
