"""The order of a mixture before ranks are balanced, as balancing reads it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

import numpy as np

from pagefeed._base import Int64Array

__all__ = ["Unbalanced"]


class Unbalancing(Protocol):
    """What finds the sequences as datasets come."""

    def unbalanced(self, positions: Int64Array) -> Iterator[Int64Array | None]:
        """Yield the sequences at positions; None after other work."""


class Unbalanced:
    """The order of a mixture before ranks are balanced."""

    def __init__(self, cursor: Unbalancing) -> None:
        self._cursor = cursor

    def reading(self, positions: Int64Array) -> Generator[None, None, Int64Array]:
        """Find the sequences at rising positions, in short steps."""
        parts = [np.empty(0, dtype=np.int64)]
        for part in self._cursor.unbalanced(positions):
            if part is not None:
                parts.append(part)
            yield
        return np.concatenate(parts)
