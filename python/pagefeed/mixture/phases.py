"""Phases of lanes: they decide which lane rounds up at a node of a tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.order import Permutation, derive_key
from pagefeed.mixture.tree import ONE, Members, Tree

__all__ = ["Phases"]

SOON = 4
"""Turns of a lane in which a dataset catches up with its mean share."""
MOST_KEPT = ONE // 4
"""Greatest lag that a dataset may keep, in turns of each lane."""


class Phases:
    """Makes the phases of lanes: at even distances, shifted by the lag of datasets.

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
        """Return the phases of a tree for some lanes: int64 [all lanes, nodes].

        A node owes its left side the amount that the datasets there lack, minus their
        share of what all datasets below the node lack. Lanes that begin a row together
        exchange phases: the lane that is owed most gets the largest phase. Then all
        phases are shifted by the mean amount owed, so they stay evenly apart.

        Args:
            tree: The tree that deals the turns out.
            lacking: Amount that datasets lack, in units of 2**-40: int64 [all lanes,
                datasets].
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
            lacking = lacking - _lag(tree, lacking)
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
        """Return a phase for each lane, at even distances, in the node's order."""
        if (left, right) not in self._staggers:
            # Names, not numbers: a dataset that joins later changes no other node.
            sides = (
                sorted(self._names[member] for member in side) for side in (left, right)
            )
            key = derive_key(self._seed, "mixture", *map(repr, sides))
            turn = Permutation(self._num_lanes, key)[np.arange(self._num_lanes)]
            self._staggers[left, right] = (2 * turn + 1) * ONE // (2 * self._num_lanes)
        return self._staggers[left, right]


def _lag(tree: Tree, lacking: Int64Array) -> Int64Array:
    """Return how much of its mean lack a dataset keeps for now: int64 [datasets].

    A dataset makes up at once only for its share of the next few turns. The rest would
    be taken from the others, or given to them, and one large dataset could have to
    bear the sum of many. So the dataset keeps the rest, up to a limit that stops errors
    from adding up.
    """
    mean = lacking.sum(axis=0) / len(lacking)
    soon = SOON * tree.shares
    lag = np.clip(mean - np.clip(mean, -soon, soon), -MOST_KEPT, MOST_KEPT)
    return lag.astype(np.int64)
