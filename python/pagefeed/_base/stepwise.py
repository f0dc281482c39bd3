"""Work that is done in short steps, so that others can be served in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["finished"]

Result = TypeVar("Result")


def finished(steps: Generator[object, None, Result]) -> Result:
    """Take all steps at once, and return the result.

    Example:
        >>> def work():
        ...     yield
        ...     return "done"
        >>> finished(work())
        'done'
    """
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
