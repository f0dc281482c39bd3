"""Patterns in URLs: the folder to list, and the names that match."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["is_url", "listed_folder", "matches"]

_MAGIC = re.compile(r"[*?[]")


def is_url(path: str) -> bool:
    """Whether a path is a URL.

    Example:
        >>> is_url("s3://bucket/a.parquet"), is_url("/data"), is_url("file:///data")
        (True, False, False)
    """
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme != "file"


def listed_folder(url: str) -> str | None:
    """Return the folder before a pattern; None if there is no pattern.

    URLs of web servers have no patterns: a question mark begins the query.

    Example:
        >>> listed_folder("s3://bucket/web/date=*/part-?.parquet")
        's3://bucket/web/'
        >>> listed_folder("https://host/file?version=2") is None
        True
    """
    if url.startswith(("http://", "https://")):
        return None
    found = _MAGIC.search(url)
    return url[: url.rindex("/", 0, found.start()) + 1] if found else None


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern matches a name; only ``**`` crosses folders.

    Example:
        >>> matches("a/b/c.parquet", "a/*.parquet")
        False
        >>> matches("a/b/c.parquet", "a/**/*.parquet"), matches("a/c.parquet", "a/**")
        (True, True)
    """
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    tokens = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]/]*\]|.", re.DOTALL)
    return re.compile("".join(map(_expression, tokens.findall(pattern))), re.DOTALL)


def _expression(token: str) -> str:
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in known:
        return known[token]
    if len(token) > 1:  # [abc], [!abc]
        inner = token[1:-1].replace("\\", r"\\").replace("^", r"\^")
        return f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(token)
