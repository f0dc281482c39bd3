"""Expands files, folders and patterns to a list of files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from pagefeed.core._base import logger
from pagefeed.errors import (
    FileAccessError,
    InvalidArgumentError,
    MissingFileError,
    UnsupportedError,
    shown_path,
)


def is_url(path: str) -> bool:
    """Whether a path is a URL.

    Example:
        >>> is_url("s3://bucket/a.parquet"), is_url("/data"), is_url("file:///data")
        (True, False, False)
    """
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme != "file"


PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike]

PARQUET = (".parquet", ".parq")
"""Suffixes of Parquet files in a folder."""
_TEXTS = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".arrow", ".tar", ".gz", ".zst")
_TOKENS = (".bin", ".idx", ".npy", ".mds")
SHARED_INDEX = "_pagefeed"
"""Usual name of the folder of an index that all nodes share."""
UNFINISHED = "_unfinished"
"""Folder, in the output of a job, with files that only an unfinished job needs."""
MANIFEST = "_manifest.json"
"""Name of the file that a finished job writes last."""


def check_files_given(
    paths: Paths, expand: Callable[[str], Iterable[str]]
) -> list[str]:
    """Return the files of all paths in order, each of which must be given once.

    Raises:
        InvalidArgumentError: If there are none, or a file is given twice.
    """
    files = [file for path in plain_paths(paths) for file in expand(path)]
    if not files:
        raise InvalidArgumentError("paths is empty: name at least one file")
    seen: set[str] = set()
    for file in files:
        is_plain = file.isascii()  # With a million names, each sign takes seconds.
        if not is_plain and any("\ud800" <= sign <= "\udfff" for sign in file):
            raise InvalidArgumentError(
                f"{file!a} is not a name in UTF-8: rename the file"
            )
        if file in seen:
            raise InvalidArgumentError(
                f"{shown_path(file)} is given twice: its rows would be delivered "
                "twice per epoch"
            )
        seen.add(file)
    return files


def plain_paths(paths: Paths) -> list[str]:
    """Return one path, or several, as a list of texts, see :func:`plain_path`."""
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable):
        paths = [paths]
    return [plain_path(path, "paths") for path in paths]


def plain_path(path: object, name: str) -> str:
    """Return a path as text, with ``~`` replaced by the home folder.

    Raises:
        InvalidArgumentError: If it is not a path, or a URL that lacks a slash.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgumentError(
            f"{name}={path!r:.200} must be a path: text or an os.PathLike, not empty"
        )
    text = os.path.expanduser(text)
    if re.match(r"(s3a?|gc?s|az|azure|hf|https?):/?(?!/)", text):
        scheme = text.partition(":")[0]  # The rest may hold a secret.
        raise InvalidArgumentError(
            f"{name}={scheme}:... is not a URL: write {scheme}://..., or ./{scheme}: "
            "for a folder of this name"
        )
    return text


def local_path(path: object, name: str) -> str:
    """Return a path on this machine.

    Raises:
        InvalidArgumentError: If it is not a path, or is a URL.
    """
    text = plain_path(path, name).removeprefix("file://")
    if is_url(text):
        scheme = text.partition("://")[0]  # The rest may hold a secret.
        raise InvalidArgumentError(
            f"{name} is a URL, {scheme}://..., and must be a path on this machine: "
            "give one, and copy what lies there, or mount the remote place"
        )
    return text


def expanded(path: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the absolute paths of all files that a local path means."""
    path = path.removeprefix("file://")
    if is_url(path):
        raise UnsupportedError(
            f"{shown_path(path)}: files of this kind are read from this machine "
            "only, Parquet from remote storage too: copy them here, or mount the place"
        )
    if os.path.isfile(path):
        yield os.path.abspath(path)
    elif Path(path).is_dir():
        yield from _listed(path, _folder(os.path.abspath(path), suffixes), suffixes)
    elif glob.has_magic(path):
        matched = glob.iglob(path, recursive=True)
        if "**" not in path:  # Which matches what is in folders, too.
            matched = _with_folders(matched, suffixes)
        matched = (name for name in map(os.path.abspath, matched) if _is_file(name))
        files = _listed(path, matched, suffixes)
        for folder in {os.path.dirname(file): None for file in files}:
            check_finished(
                folder,
                is_begun=os.path.isdir(f"{folder}/{UNFINISHED}"),
                is_ended=os.path.exists(f"{folder}/{MANIFEST}"),
            )
        yield from files
    else:
        raise MissingFileError(
            f"{path} does not exist: give a file, a folder or a pattern such as "
            "data/*.parquet"
        )


def advice_on_format(path: str) -> str:
    """Return the command that makes Parquet of another kind of file, to end a message.

    Example:
        >>> advice_on_format("a.jsonl")[:47]
        '. To make Parquet of its texts: pagefeed tokeni'
        >>> advice_on_format("a.parquet")
        ''
    """
    if path.endswith(_TEXTS):
        return (
            f". To make Parquet of its texts: pagefeed tokenize {path} --column text "
            "--tokenizer tokenizer.json --output tokens"
        )
    if path.endswith(_TOKENS):
        return (
            f". To make Parquet of its tokens: pagefeed convert {path} --to parquet "
            "--output tokens"
        )
    return ""


@cache
def tell_of_index(folder: str) -> None:
    """Log, once in a process, that a folder has an index that was not given."""
    logger.info(
        '%s was indexed: index="%s" reads neither a listing nor footers, and '
        "takes the files that it had then",
        *(folder, f"{folder.rstrip('/')}/{SHARED_INDEX}"),
    )


def check_finished(folder: str, *, is_begun: bool, is_ended: bool) -> None:
    """Raise an error for a folder in which a job has not finished writing.

    Raises:
        FileAccessError: If a job began to write, and its manifest is missing.
    """
    if is_begun and not is_ended:
        raise FileAccessError(
            f"{folder.rstrip('/')} is not finished: it holds {UNFINISHED}, and no "
            f"{MANIFEST} yet. Wait for the job that writes it, start the job again to "
            "continue, or remove the folder"
        ).at(file=folder)


def _folder(folder: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files in a folder and below; links are followed."""
    try:
        with os.scandir(folder) as entries:
            inside = {entry.name: entry for entry in entries}
    except OSError:
        return
    if SHARED_INDEX in inside and inside[SHARED_INDEX].is_dir():
        tell_of_index(folder)
    check_finished(folder, is_begun=UNFINISHED in inside, is_ended=MANIFEST in inside)
    for name, entry in inside.items():
        if not is_hidden(name):
            if name.endswith(suffixes) and entry.is_file():
                yield entry.path
            elif entry.is_dir():
                yield from _folder(entry.path, suffixes)


def _with_folders(names: Iterable[str], suffixes: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if not os.path.isdir(name):
            yield name
        elif not is_hidden(os.path.basename(name.rstrip("/"))):
            yield from _folder(os.path.abspath(name), suffixes)


def _listed(path: str, listed: Iterable[str], suffixes: tuple[str, ...]) -> list[str]:
    files = sorted(listed)
    if not files:
        raise nothing_listed(path, suffixes)
    return files


def _is_file(path: str) -> bool:
    return not is_hidden(os.path.basename(path)) and os.path.isfile(path)


def nothing_listed(path: str, suffixes: tuple[str, ...]) -> MissingFileError:
    """Return the error of a folder or pattern without files."""
    what, advice = "such files", ""
    if suffixes == PARQUET:
        what = "Parquet files"
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        others = (advice_on_format(os.path.join(path, name)) for name in names)
        advice = next(filter(None, others), "")
    return MissingFileError(
        f"{path} holds no {what}: expected names ending in "
        f"{' or '.join(suffixes)} that do not begin with _ or .{advice[1:]}"
    )


def is_hidden(name: str) -> bool:
    """Whether writers hide files of this name."""
    # Hive's partition folders (_date=...) are data; other names with _ are not.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
