"""The interface of all orders of an epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pagefeed.core._base import Int64Array, finished
from pagefeed.core.sequences import JoinedIndex

__all__ = ["Balancing", "Costs", "Ordered"]

Costs: TypeAlias = Callable[[Int64Array], npt.NDArray[np.float64]]
"""Function that returns the costs of sequences: float64 [sequences]."""


class Balancing(Protocol):
    """Interface of the settings of balance; :class:`Balance` implements it."""

    @property
    def identity(self) -> str:
        """Text that identifies the setting in states."""

    @property
    def stretch(self) -> int:
        """Sequences of a rank that are dealt by cost together."""

    @property
    def bucket(self) -> int:
        """Consecutive sequences of a rank that have similar costs."""

    def costs(self, index: JoinedIndex) -> Costs:
        """Return a function that gives the costs of sequences by their numbers."""

    def dealing_bytes(self, ranks: int, num_sequences: int | None) -> int:
        """Return the bytes in which sequences are dealt; None if no epoch bounds it."""


class Ordered(ABC):
    """The order of an epoch: a permutation of its units."""

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in steps of a few milliseconds."""
        yield from ()

    def at(self, positions: ArrayLike) -> Int64Array:
        """Return the units delivered at positions of the epoch.

        Fastest for a range, such as a rank's ``range(first, last, world_size)``, or an
        array of the same numbers.

        Args:
            positions: Positions of the epoch, in any order, repeats allowed.

        Returns:
            int64 [len(positions)].

        Raises:
            IndexError: A position lies outside the epoch.
        """
        return finished(self.reading(positions))

    @abstractmethod
    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Find what :meth:`at` finds, in steps of at most a few milliseconds.

        Returns:
            int64 [len(positions)].

        Example:
            >>> def deliver(order, positions):
            ...     units = yield from order.reading(positions)
            ...     yield units
        """

    @abstractmethod
    def positions(self, units: ArrayLike) -> Int64Array:
        """Return the positions at which units are delivered: the inverse of :meth:`at`.

        Returns:
            int64 [len(units)].

        Raises:
            IndexError: There is no such unit.
        """
