"""Phases of lanes: they decide which lane rounds up at a dataset of a chain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.order import Permutation, derive_key
from pagefeed.mixture.chain import ONE, Chain

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
        self._staggers: dict[int, Int64Array] = {}

    def of(
        self, chain: Chain, lacking: Int64Array, lanes: Int64Array, *, together: bool
    ) -> Int64Array:
        """Return the phases of a chain for some lanes: int64 [all lanes, datasets - 1].

        A dataset is owed what it lacks, minus its share of what it and the datasets
        after it lack. Lanes that begin a row together exchange phases: the lane that
        owes most gets the largest phase. Then all phases are shifted by the mean amount
        owed, so they stay evenly apart.

        Args:
            chain: The chain that deals the turns out.
            lacking: Amount that datasets lack, in units of 2**-40: int64 [all lanes,
                datasets].
            lanes: Numbers of the lanes.
            together: Whether all these lanes begin a row at the same position.
        """
        phases = np.zeros(
            (self._num_lanes, max(1, len(self._names) - 1)), dtype=np.int64
        )
        if not chain.ratios:
            return phases
        lacking = lacking[lanes]
        if together:
            lacking = lacking - _lag(chain, lacking)
        own = lacking[:, chain.members]
        both = own[:, ::-1].cumsum(axis=1)[:, :0:-1]
        own, ratio = own[:, :-1], np.array(chain.ratios) / ONE
        members = chain.members[:-1]
        stagger = np.stack([self._stagger(member)[lanes] for member in members], 1)
        wanted = stagger + (own - both * ratio)
        if together:
            by_owed = wanted.argsort(axis=0, kind="stable")
            # Whole numbers have the same sum on every machine.
            mean_owed = (own.sum(axis=0) - both.sum(axis=0) * ratio) / len(lanes)
            traded = np.sort(stagger, axis=0) + np.trunc(mean_owed)
            np.put_along_axis(wanted, by_owed, traded, axis=0)
        phases[lanes, : len(members)] = np.clip(wanted, 0, ONE - 1)
        return phases

    def _stagger(self, member: int) -> Int64Array:
        """Return a phase for each lane, at even distances, in an order by the name."""
        if member not in self._staggers:
            key = derive_key(self._seed, "mixture", self._names[member])
            turn = Permutation(self._num_lanes, key)[np.arange(self._num_lanes)]
            self._staggers[member] = (2 * turn + 1) * ONE // (2 * self._num_lanes)
        return self._staggers[member]


def _lag(chain: Chain, lacking: Int64Array) -> Int64Array:
    """Return how much of its mean lack a dataset keeps for now: int64 [datasets].

    A dataset makes up at once only for its share of the next few turns. The rest would
    be taken from the others, or given to them, and one large dataset could have to
    bear the sum of many. So the dataset keeps the rest, up to a limit that stops errors
    from adding up.
    """
    mean = lacking.sum(axis=0) / len(lacking)
    soon = SOON * chain.shares
    lag = np.clip(mean - np.clip(mean, -soon, soon), -MOST_KEPT, MOST_KEPT)
    return lag.astype(np.int64)
