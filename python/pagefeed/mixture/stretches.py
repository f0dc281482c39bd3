"""Rows of constant weights, lane by lane, in which a course looks positions up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pagefeed.core._base import Int64Array, distinct
from pagefeed.mixture.chain import MAX_TURN

ENDED = -1
"""Marks a lane that has run out."""
SPAN = MAX_TURN << 1
"""Distance of the lanes in the keys of rows."""


class LaneStretches:
    """Rows of constant weights, by lane and first turn."""

    def __init__(self, num_lanes: int, num_datasets: int) -> None:
        self._num_lanes = num_lanes
        self._num_phases = max(1, num_datasets - 1)
        self._added: list[tuple[Int64Array, ...]] = []

    def add(
        self,
        lanes: Int64Array,
        start: Int64Array,
        stop: Int64Array,
        chain: int,
        counts: Int64Array,
        phases: Int64Array | None,
    ) -> None:
        """Add a row of some lanes; ``start``, ``stop`` and ``counts`` are of all."""
        if phases is None:
            phases = np.zeros((len(lanes), self._num_phases), dtype=np.int64)
        chains = np.full(len(lanes), chain)
        self._added.append(
            (lanes, start[lanes], stop[lanes], chains, counts[lanes], phases)
        )

    def take(self, other: LaneStretches, turn: Int64Array) -> None:
        """Add the rows of sealed stretches that begin before a turn of each lane."""
        lanes = np.repeat(np.arange(self._num_lanes), np.diff(other._borders))
        is_before = other.start < turn[lanes]
        columns = (other.start, other.stop, other.chain, other.counts, other.phases)
        self._added.append(
            (lanes[is_before], *(column[is_before] for column in columns))
        )

    def seal(self) -> None:
        """Sort the rows that were added."""
        columns = [np.concatenate(column) for column in zip(*self._added, strict=True)]
        keys = columns[0] * SPAN + columns[1]
        by_key = np.argsort(keys)
        self._keys = keys[by_key]
        lanes, self.start, self.stop, self.chain, self.counts, self.phases = (
            column[by_key] for column in columns
        )
        self._borders = np.searchsorted(lanes, np.arange(self._num_lanes + 1))
        self._added = []

    def find(self, lane: Int64Array, turn: Int64Array) -> Int64Array:
        """Return the row of each turn of a lane."""
        if len(self._keys) == self._num_lanes:
            return lane
        return np.searchsorted(self._keys, lane * SPAN + turn, side="right") - 1

    def find_count(self, dataset: int, lane: Int64Array, nth: Int64Array) -> Int64Array:
        """Return the row with a lane's ``nth``-th turn of a dataset.

        That is the last row that begins with at most this number of its turns. If no
        such turn comes, it may be any row.
        """
        if len(self._keys) == self._num_lanes:
            return lane
        lanes = np.repeat(np.arange(self._num_lanes), np.diff(self._borders))
        keys = lanes * SPAN + self.counts[:, dataset]
        return np.searchsorted(keys, lane * SPAN + nth, side="right") - 1


def turns_before(position: int | Int64Array, num_lanes: int) -> Int64Array:
    """Return the turns of each lane before a position: int64 [..., lanes]."""
    lane = np.arange(num_lanes)
    return np.maximum(0, (position - lane + num_lanes - 1) // num_lanes)


def groups(chains: Int64Array) -> Iterable[tuple[int, Int64Array | slice]]:
    """Yield each chain, and the positions where it is used."""
    if len(chains) == 0:
        return []
    if (chains == chains[0]).all():
        return [(int(chains[0]), slice(None))]
    return [
        (chain, np.flatnonzero(chains == chain)) for chain in distinct(chains).tolist()
    ]
