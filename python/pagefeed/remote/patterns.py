"""Patterns of names, as those of local paths."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["matches"]


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
    wildcards = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in wildcards:
        return wildcards[token]
    if len(token) > 1:  # [abc], [!abc]
        inner = token[1:-1].replace("\\", r"\\").replace("^", r"\^")
        return f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(token)
