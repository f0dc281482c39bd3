"""Dealing turns out to datasets by weight, evenly, in closed form.

The datasets stand in a chain, the heaviest first. From the first j turns that reach a
dataset it gets ``floor(j * ratio + phase)``, and the datasets after it get the rest. So
the dataset of any turn, and its number among the turns of that dataset, are found in a
few steps, and the inverse too.

At each dataset of the chain a count is rounded, by half a sequence per lane at most if
the mean of the lanes' phases is a half. A dataset bears its own rounding, and of each
rounding before it a part: its share of the turns that were left there.

All arithmetic is exact in integers: ratios and phases are multiples of 2**-40, and
products of 80 bits are computed in halves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pagefeed.core._base import Int64Array, distinct

BITS = 40
ONE = 1 << BITS
HALF_BITS = BITS // 2
MAX_TURN = 1 << 40
"""Turns of a lane at most; positions beyond are never reached."""
SMALLEST = 2.0**-60
"""Weights that differ by less than this share are equal."""
SHORT_TURN = 1 << 22
"""Below, a product with a ratio fits 63 bits."""


class Chain:
    """Deals turns to datasets.

    Args:
        weights: Weight of each dataset, all above 0 for ``members``.
        members: The datasets that take part.

    Example:
        >>> chain = Chain([0.5, 0.25, 0.25], [0, 1, 2])
        >>> phases = np.full((1, 2), ONE // 2)
        >>> chain.deal(np.arange(4), phases, np.zeros(4, dtype=np.int64))[0].tolist()
        [0, 1, 0, 2]
    """

    def __init__(self, weights: Sequence[float], members: Sequence[int]) -> None:
        total = math.fsum(weights[member] for member in members)
        self.shares = np.zeros(len(weights), dtype=np.int64)
        """Share of each dataset in units of 2**-40: int64 [datasets]."""
        for member in members:
            self.shares[member] = round(weights[member] / total * ONE)
        self.members = sorted(members, key=lambda member: (-weights[member], member))
        """The datasets, in the order of the chain."""
        # A lighter dataset never gets a turn.
        heavy = [max(weights[member], total * SMALLEST) for member in self.members]
        after, self.ratios = 0.0, list[int]()
        for weight in reversed(heavy):
            after += weight
            self.ratios.append(min(max(round(weight / after * ONE), 1), ONE - 1))
        self.ratios = self.ratios[:0:-1]
        """Share of each but the last in the turns that reach it, in units of 2**-40."""
        ratios = np.array([*self.ratios, ONE]) / ONE
        rates = ratios * np.cumprod([1.0, *(1 - ratios[:-1])])
        self._rates = np.zeros(len(weights))
        self._rates[self.members] = rates

    def deal(
        self, turns: Int64Array, phases: Int64Array, rows: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the dataset of each turn, and the turns of that dataset before it.

        Args:
            turns: int64 [turns], counted from the chain's first.
            phases: int64 [rows, datasets of the chain but the last], in units of
                2**-40.
            rows: int64 [turns], which phases each has.
        """
        dataset = np.full(len(turns), self.members[-1])
        count, which = np.array(turns), np.arange(len(turns))
        for place, ratio in enumerate(self.ratios):
            turn = count[which]
            before, rest = _scaled(turn, ratio, phases[rows[which], place])
            is_dealt = rest + ratio >= ONE
            dataset[which[is_dealt]] = self.members[place]
            count[which] = np.where(is_dealt, before, turn - before)
            which = which[~is_dealt]
        return dataset, count

    def counts(self, turns: Int64Array, phases: Int64Array) -> Int64Array:
        """Return how many of the first ``turns`` each dataset gets.

        Args:
            turns: int64 [lanes].
            phases: int64 [lanes, datasets of the chain but the last].

        Returns:
            int64 [lanes, datasets].
        """
        counts = np.zeros((len(turns), len(self.shares)), dtype=np.int64)
        for place, ratio in enumerate(self.ratios):
            before, _ = _scaled(turns, ratio, phases[:, place])
            counts[:, self.members[place]] = before
            turns = turns - before
        counts[:, self.members[-1]] = turns
        return counts

    def count(
        self, dataset: int, turns: Int64Array, phases: Int64Array, rows: Int64Array
    ) -> Int64Array:
        """Return how many of the first ``turns`` one dataset is dealt.

        Args:
            dataset: The dataset.
            turns: int64 [..., lanes].
            phases: int64 [rows, datasets of the chain but the last].
            rows: int64 [lanes], which phases each has.

        Returns:
            int64 [..., lanes].
        """
        for place, ratio in enumerate(self.ratios):
            before, _ = _scaled(turns, ratio, phases[rows, place])
            if self.members[place] == dataset:
                return before
            turns = turns - before
        return turns

    def turns_of(
        self, dataset: int, numbers: Int64Array, phases: Int64Array, rows: Int64Array
    ) -> Int64Array:
        """Return the turns of a dataset with these numbers; the inverse of ``deal``.

        Args:
            dataset: The dataset.
            numbers: int64 [numbers].
            phases: int64 [rows, datasets of the chain but the last].
            rows: int64 [numbers], which phases each has.

        Returns:
            int64 [numbers]; at least ``MAX_TURN`` for turns that are never reached.
        """
        turns, own = numbers, self.members.index(dataset)
        for place in reversed(range(min(own + 1, len(self.ratios)))):
            ratio, phase = self.ratios[place], phases[rows, place]
            if (
                place < own
            ):  # Passed on: rounds up where the dataset's count rounds down.
                ratio, phase = ONE - ratio, ONE - 1 - phase
            turns = _turn_before(turns + 1, ratio, phase)
        return turns

    def first_end(
        self, left: Int64Array, members: Sequence[int], phases: Int64Array
    ) -> Int64Array:
        """Return after how many turns the first dataset reaches its limit.

        Args:
            left: int64 [lanes, datasets], turns that each dataset may still get, at
                least 1.
            members: Which of them to look at, at least one.
            phases: int64 [lanes, datasets of the chain but the last].

        Returns:
            int64 [lanes].
        """
        wanted, rates = left[:, members], self._rates[members]
        ends = np.empty(len(left), dtype=np.int64)
        lanes, guess = np.arange(len(left)), (wanted / rates).argmin(axis=1)
        while len(lanes):
            for index in distinct(guess).tolist():
                mine = lanes[guess == index]
                last = wanted[mine, index] - 1
                ends[mine] = self.turns_of(members[index], last, phases, mine) + 1
            # Datasets that reached their limit before these turns come first.
            counts = self.counts(ends[lanes] - 1, phases[lanes])
            over = counts[:, members] - wanted[lanes]
            guess = np.where(over < 0, -1, (over + 1) / rates).argmax(axis=1)
            is_late = (over >= 0).any(axis=1)
            lanes, guess = lanes[is_late], guess[is_late]
        return ends


def _scaled(
    turns: Int64Array, ratio: int, phases: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return floor and fraction, in units of 2**-40, of ``turns * ratio + phases``."""
    if turns.size == 0 or int(turns.max()) < SHORT_TURN:
        product = turns * ratio + phases
        return product >> BITS, product & (ONE - 1)
    upper = (turns >> HALF_BITS) * ratio
    lower = (turns & ((1 << HALF_BITS) - 1)) * ratio
    lower += (upper & ((1 << HALF_BITS) - 1)) << HALF_BITS
    lower += phases
    return (upper >> HALF_BITS) + (lower >> BITS), lower & (ONE - 1)


def _turn_before(counts: Int64Array, ratio: int, phases: Int64Array) -> Int64Array:
    """Return the last turn before which fewer than ``counts`` were dealt."""
    guess = (counts.astype(np.float64) * ONE - phases) / ratio
    turn = np.minimum(np.ceil(guess), MAX_TURN).astype(np.int64)
    # The guess has a rounding error: one or two steps lead to the first turn after
    # which the dataset has that many turns.
    while True:
        few = (_scaled(turn, ratio, phases)[0] < counts) & (turn < MAX_TURN)
        if not few.any():
            break
        turn += few
    while True:
        below = turn - 1
        many = (turn > 0) & (_scaled(below, ratio, phases)[0] >= counts)
        if not many.any():
            break
        turn -= many
    never = _scaled(turn, ratio, phases)[0] < counts
    return np.where(never | (counts > MAX_TURN), MAX_TURN, turn - 1)
