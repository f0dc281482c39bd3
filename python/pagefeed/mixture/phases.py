"""Phases of the lanes: which of them rounds up where a tree deals out its turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.mixture.tree import ONE, Members, Tree
from pagefeed.order import Permutation, derive_key

__all__ = ["Phases"]

SOON = 4
"""Turns of a lane in which a dataset may make up for what it lacks in the mean."""
MOST_KEPT = ONE // 4
"""What it may lack longer, in turns of each lane."""


class Phases:
    """Phases of lanes, evenly apart, moved by what datasets lack.

    Args:
        names: Names of all datasets.
        num_lanes: Number of lanes.
        seed: Seed of the run.
    """

    def __init__(self, names: Sequence[str], *, num_lanes: int, seed: int) -> None:
        self._names = names
        self._num_lanes = num_lanes
        self._seed = seed
        self._staggers: dict[tuple[Members, Members], Int64Array] = {}

    def of(
        self, tree: Tree, lacking: Int64Array, lanes: Int64Array, *, together: bool
    ) -> Int64Array:
        """Phases of a tree: int64 [lanes, nodes], for some of the lanes.

        A node's left side is owed what its datasets lack, less its share of what all
        below the node lack, since that is the node's own concern. Lanes that begin
        together trade their phases: the one that is owed most has the largest, and all
        are moved by the mean. So they stay evenly apart.

        Args:
            tree: What deals the turns out.
            lacking: What datasets lack, in units of 2**-40: int64
                [all lanes, datasets].
            lanes: Numbers of the lanes.
            together: Whether all these lanes begin a row at the same position.
        """
        phases = np.zeros(
            (self._num_lanes, max(1, len(self._names) - 1)), dtype=np.int64
        )
        if not tree.sides:
            return phases
        lacking = lacking[lanes]
        if together:
            lacking = lacking - _kept(tree, lacking)
        left, both = tree.sums(lacking)
        ratio = np.array([node.ratio for node in tree.nodes]) / ONE
        stagger = np.stack([self._stagger(*sides)[lanes] for sides in tree.sides], 1)
        wanted = stagger + (left - both * ratio)
        if together:
            by_owed = wanted.argsort(axis=0, kind="stable")
            # Of whole numbers, whose sum is the same on every machine.
            mean_owed = (left.sum(axis=0) - both.sum(axis=0) * ratio) / len(lanes)
            traded = np.sort(stagger, axis=0) + np.trunc(mean_owed)
            np.put_along_axis(wanted, by_owed, traded, axis=0)
        phases[lanes, : len(tree.nodes)] = np.clip(wanted, 0, ONE - 1)
        return phases

    def _stagger(self, left: Members, right: Members) -> Int64Array:
        """Phases, one for each lane, evenly apart and in an order of the node's own."""
        if (left, right) not in self._staggers:
            # Names, not numbers: a dataset that joins later changes no other node.
            sides = (
                sorted(self._names[member] for member in side) for side in (left, right)
            )
            key = derive_key(self._seed, "mixture", *map(repr, sides))
            place = Permutation(self._num_lanes, key)[np.arange(self._num_lanes)]
            self._staggers[left, right] = (2 * place + 1) * ONE // (2 * self._num_lanes)
        return self._staggers[left, right]


def _kept(tree: Tree, lacking: Int64Array) -> Int64Array:
    """Return what of the lanes' mean lack a dataset keeps for now: int64 [datasets].

    What it lacks, or has had too much, beyond its share of some turns to come would be
    taken from the others at once, or given to them: a large one could bear the sum of
    many. So it keeps that, up to a limit beyond which errors would add up.
    """
    mean = lacking.sum(axis=0) / len(lacking)
    soon = SOON * tree.shares
    kept = np.clip(mean - np.clip(mean, -soon, soon), -MOST_KEPT, MOST_KEPT)
    whole: Int64Array = kept.astype(np.int64)
    return whole
