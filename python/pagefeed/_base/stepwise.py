"""Work in short steps, between which other work can run."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["finished"]

Result = TypeVar("Result")


def finished(steps: Generator[object, None, Result]) -> Result:
    """Run all steps, and return the result.

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
