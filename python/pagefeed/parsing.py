"""Small files that describe data are read here: with a bound, and typed errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pagefeed.errors import (
    CorruptFileError,
    LimitExceededError,
    PagefeedError,
    shown_path,
)

MOST_BYTES = 256 << 20
"""Bytes of a file that is read whole, at most: a manifest, a tokenizer, a state."""
SENSELESS = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError),
    *(SyntaxError, TypeError, ValueError),
)
"""Errors of reading the entries of a file, if they are not as expected."""


@contextmanager
def parsing(
    path: str | None, what: str, kind: type[PagefeedError] = CorruptFileError
) -> Iterator[None]:
    """Turn every error of parsing a file into one that names the file.

    Raises:
        CorruptFileError: Or another kind, if the text cannot be parsed.
    """
    try:
        yield
    except PagefeedError as error:
        error.file = error.file or path
        raise
    except SENSELESS as problem:
        shown = f"{shown_path(path)}: " if path else ""
        refused = kind(f"{shown}{what}: {problem!r:.200}")
        raise refused.at(file=path) from problem


def json_value(
    data: bytes | str,
    path: str | None,
    what: str = "not JSON; repair or remove the file",
    kind: type[PagefeedError] = CorruptFileError,
) -> Any:
    """Return what a JSON text says. It refuses NaN and infinity.

    Raises:
        CorruptFileError: Or another kind, if it is not JSON, is nested too deeply, or
            has numbers of too many digits.

    Example:
        >>> json_value(b'{"a": 1}', "a.json")
        {'a': 1}
    """
    with parsing(path, what, kind):
        return json.loads(data, parse_constant=_refuse)


def _refuse(name: str) -> None:
    raise ValueError(f"JSON has no number {name}")


def check_small(path: str, size: int) -> None:
    """Refuse a file that is too large to be read whole.

    Raises:
        LimitExceededError: Naming its size.
    """
    if size > MOST_BYTES:
        raise LimitExceededError(
            f"{shown_path(path)} has {size:,} bytes; files of this kind, which are "
            f"read whole, have {MOST_BYTES:,} at most"
        ).at(file=path)
