"""Texts for reprs, and for long lists in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Facts = Mapping[str, object]
"""Facts by name; those that are None are not shown."""


def text_of(kind: str, facts: Facts) -> str:
    """Return facts as one line, like the call of a constructor.

    Example:
        >>> text_of("Loader", {"rows": 2000, "column": "ids", "seed": None})
        "Loader(rows=2000, column='ids')"
    """
    shown = (f"{key}={value!r}" for key, value in facts.items() if value is not None)
    return f"{kind}({', '.join(shown)})"


def some_of(things: Sequence[object]) -> str:
    """Return at most the first eight items as text.

    Example:
        >>> some_of([1, 2]), some_of(range(10_000))
        ('1, 2', '0, 1, 2, 3, 4, 5, 6, 7, ...')
    """
    return ", ".join(map(str, things[:8])) + ", ..." * (len(things) > 8)
