"""Work in short steps, between which other work can run."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeVar

import numpy as np

from pagefeed.core._base.arrays import Int64Array

__all__ = ["finished", "gathered"]

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
            return end.value


def gathered(parts: Iterable[Int64Array | None]) -> Generator[None, None, Int64Array]:
    """Join the arrays that come between steps of other work, which give None."""
    found = [np.empty(0, dtype=np.int64)]
    for part in parts:
        if part is not None:
            found.append(part)
        yield
    return np.concatenate(found)
