"""Resolve paths, URLs and patterns among known or listed files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pagefeed.core.storage import (
    PARQUET,
    Located,
    Paths,
    Storage,
    check_files_given,
    is_url,
    plain_paths,
)
from pagefeed.errors import MissingFileError


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches a name; only ``**`` crosses folders.

    Example:
        >>> matches("a/b/c.parquet", "a/*.parquet")
        False
        >>> matches("a/b/c.parquet", "a/**/*.parquet"), matches("a/c.parquet", "a/**")
        (True, True)
    """
    return _compiled(pattern).fullmatch(name) is not None


def is_meant(name: str, pattern: str, suffixes: tuple[str, ...] = PARQUET) -> bool:
    """Whether a pattern matches a file, or a folder that has it.

    Example:
        >>> is_meant("a/b/c.parquet", "a/*"), is_meant("a/b/c.txt", "a/*")
        (True, False)
    """
    is_below = "**" not in pattern and name.endswith(suffixes)
    return matches(name, pattern) or (
        is_below and matches(name, f"{pattern.rstrip('/')}/**")
    )


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    tokens = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]/]*\]|.", re.DOTALL)
    return re.compile("".join(map(_expression, tokens.findall(pattern))), re.DOTALL)


def _expression(token: str) -> str:
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in wildcards:
        return wildcards[token]
    if len(token) > 1:  # [abc], [!abc]
        inner = token[1:-1].replace("\\", r"\\").replace("^", r"\^")
        return f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(token)


_MAGIC = re.compile(r"[*?[]")


def located_among(paths: Paths, files: Sequence[str], storage: Storage) -> Located:
    """Resolve paths, URLs, folders and patterns among known files, without listing.

    Raises:
        MissingFileError: If a path means none of the files.
        InvalidArgumentError: As :func:`located`.
    """
    given = plain_paths(paths)
    matched = check_files_given(given, lambda path: _among(path, storage, files))
    return Located(storage, tuple(matched))


def _among(path: str, storage: Storage, files: Sequence[str]) -> list[str]:
    name = storage.name_of(path.removeprefix("file://"))
    below = name.rstrip("/") + "/"
    meant = [file for file in files if file.startswith(below) or file == name]
    if not meant and re.search(r"[*?[]", path):
        meant = [file for file in files if is_meant(file, name)]
    if not meant:
        raise MissingFileError(
            f"{path}: the index has no such files; `pagefeed index --check` tells "
            "which files came after it"
        )
    return meant


def roots_of(paths: Paths, files: Iterable[str] = ()) -> tuple[str, ...]:
    """Return paths, absolute and without a last slash; none if all are in ``files``.

    Example:
        >>> roots_of(["s3://bucket/web/", "file:///corpus", "/a"], files=["/a"])
        ('s3://bucket/web', '/corpus', '/a')
        >>> roots_of(["/a"], files=["/a"])
        ()
    """
    given = [path.removeprefix("file://") for path in plain_paths(paths)]
    full = [path if is_url(path) else os.path.abspath(path) for path in given]
    if {*files}.issuperset(full):
        return ()
    return tuple(path.rstrip("/") for path in full)


def listed_folder(url: str) -> str | None:
    """Return the folder before a pattern; None without a pattern.

    URLs of web servers have no patterns: a question mark begins the query.

    Example:
        >>> listed_folder("s3://bucket/web/date=*/part-?.parquet")
        's3://bucket/web/'
        >>> listed_folder("https://host/file?version=2") is None
        True
    """
    if url.startswith(("http://", "https://")):
        return None
    wildcard = _MAGIC.search(url)
    return url[: url.rindex("/", 0, wildcard.start()) + 1] if wildcard else None
