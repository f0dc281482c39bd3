"""Text for terminals, which data must not steer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

__all__ = ["printable", "printable_output"]

_STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and newline, changes of direction, lone surrogates."""


def printable(text: str) -> str:
    r"""Return a text with the characters that steer a terminal as escapes.

    Example:
        >>> print(printable("a\x1b[2Jb\n"), end="")
        a\x1b[2Jb
    """
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


class _Printable:
    """A stream that escapes control characters."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(printable(text))


@contextmanager
def printable_output(stdout: TextIO, stderr: TextIO) -> Iterator[None]:
    """Escape control characters of everything that is printed."""
    out, err = cast("list[TextIO]", [_Printable(stdout), _Printable(stderr)])
    with redirect_stdout(out), redirect_stderr(err):
        yield
