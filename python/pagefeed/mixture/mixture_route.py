"""The route of a rank of a mixture whose lanes the ranks cannot divide evenly.

Lanes deal out datasets in a pattern. A rank that takes every n-th turn of its lanes
would see the same part of the pattern again and again, perhaps only one dataset. So
ranks that share lanes swap their turns, by a keyed hash. A rank stays in its lanes, and
so keeps its pages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.order import derive_key, expand_key, hash64
from pagefeed.core.run import LoaderState, Route

HALF = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class MixtureRoute(Route):
    """The positions of a rank that shares its lanes with other ranks."""

    num_lanes: int
    """Lanes of the positions."""
    key: bytes
    """Key of the permutations of ranks."""

    def progression(self, first: int, count: int) -> range | None:  # noqa: ARG002
        """Return None: these positions are not a range."""
        return None

    def _places_in(self, turns: Int64Array) -> Int64Array:
        return turns + (self.rank + self._shift(turns)) % self.world_size

    def _dealt(
        self, index: Int64Array, slot: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        row, at = np.divmod(slot, self.world_size)
        begin = self.start + index * self.step_sequences
        if self._borrowed and self.num_steps is not None:
            begin = np.where(index + 1 == self.num_steps, begin - self._borrowed, begin)
        return row, (at - self._shift(begin + slot - at)) % self.world_size

    def _shift(self, turns: Int64Array) -> Int64Array:
        """Return by how many ranks a turn is rotated, from its first position.

        It depends only on that position, which a resume does not change.
        """
        apart = math.gcd(self.world_size, self.num_lanes)
        first, second = expand_key(self.key, 2)
        drawn = hash64(self._positions(turns.ravel()), (first, second)) >> HALF
        shift = drawn * np.uint64(self.world_size // apart) >> HALF
        return shift.astype(np.int64).reshape(turns.shape) * apart


def by_turns(route: Route, begin: LoaderState) -> Route:
    """Return a route on which ranks that share lanes change places."""
    if begin.num_lanes % route.world_size == 0:
        return route
    key = derive_key(begin.seed, begin.epoch, "mixture", "ranks")
    given = {field.name: getattr(route, field.name) for field in fields(route)}
    return MixtureRoute(**given, num_lanes=begin.num_lanes, key=key)
