"""An order dealt anew, stretch by stretch, so that ranks are balanced."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array, distinct, finished
from pagefeed.order.balance import Balance, Costs, deal, quantiles
from pagefeed.order.ordered import Ordered

__all__ = ["BalancedOrder", "Dealing"]

NEVER = 1 << 62
"""A position that is never reached."""
MOST_KEPT = 4
"""Stretches that are kept."""


class Reading(Protocol):
    """Sequences by position."""

    def reading(self, positions: Int64Array) -> Generator[None, None, Int64Array]:
        """Find the sequences at rising positions, in short steps."""


@dataclass
class _Stretch:
    """What was dealt of a stretch: that of some ranks."""

    begin: int
    end: int
    row: Int64Array
    """Row of each rank; -1 of those that were not dealt."""
    put: Int64Array
    """Where each place of a rank went: [ranks dealt, places]."""
    dealt: Int64Array
    """What stands at each place: likewise."""


class Dealing:
    """Deals the sequences of each rank's stretches by cost.

    It is a permutation of the positions, and a pure function of its arguments. A
    position is found by looking at one stretch of its rank.

    Args:
        order: The order that is balanced.
        balance: How long stretches and buckets are.
        key: Key of this epoch.
        costs: Gives what sequences cost.
        ranks: N, for which it is balanced: rank r takes r, r + N, and so on.
        cuts: Positions, from 0 on, over which nothing is moved.
        end: One past the last position; None without end.
    """

    def __init__(
        self,
        order: Reading,
        *,
        balance: Balance,
        key: bytes,
        costs: Costs,
        ranks: int,
        cuts: Sequence[int] = (0,),
        end: int | None,
    ) -> None:
        self._order = order
        self._key = key
        self._costs = costs
        self._ranks = ranks
        self._apart = 1 if balance.exact else ranks
        self._bucket = balance.bucket
        self._size = balance.stretch * ranks
        self._cuts = np.array([*cuts, NEVER if end is None else end], dtype=np.int64)
        self._kept: OrderedDict[int, _Stretch] = OrderedDict()

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the sequences at positions, in steps of a few milliseconds.

        Returns:
            int64 [positions].
        """
        if isinstance(positions, range):  # Of which NumPy would take one by one.
            positions = np.arange(positions.start, positions.stop, positions.step)
        wanted = np.asarray(positions, dtype=np.int64).ravel()
        sequences = np.empty(len(wanted), dtype=np.int64)
        for stretch, which, rank, place in self._groups(wanted):
            yield from self._deal(stretch, rank)
            sequences[which] = stretch.dealt[stretch.row[rank], place]
            yield
        return sequences

    def moved(self, before: Int64Array) -> Int64Array:
        """Return where what stood at positions of the given order stands now."""
        after = np.empty(len(before), dtype=np.int64)
        for stretch, which, rank, place in self._groups(before):
            finished(self._deal(stretch, rank))
            now = stretch.put[stretch.row[rank], place]
            after[which] = before[which] + (now - place) * self._apart
        return after

    def next_border(self, position: int) -> int:
        """Return the first border of stretches at or behind a position."""
        begin, end = self._borders(np.array([position]))
        return int(begin[0] if begin[0] == position else end[0])

    def _borders(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """First position of each position's stretch, and one past the last.

        A stretch is so many whole turns of all ranks; the last one before a cut is up
        to twice as long.
        """
        part = np.searchsorted(self._cuts, positions, side="right") - 1
        first, last = self._cuts[part], self._cuts[part + 1]
        whole = -(-first // self._ranks) * self._ranks
        num_stretches = np.maximum((last - whole) // self._size, 1)
        number = np.minimum((positions - whole) // self._size, num_stretches - 1)
        number = np.maximum(number, 0)
        begin = np.where(number == 0, first, whole + number * self._size)
        end = np.where(
            number == num_stretches - 1, last, whole + (number + 1) * self._size
        )
        return begin, end

    def _groups(
        self, positions: Int64Array
    ) -> Iterator[tuple[_Stretch, Int64Array, Int64Array, Int64Array]]:
        """Yield stretches: which positions are theirs, their ranks, places in these."""
        begins, ends = self._borders(positions)
        for begin in distinct(begins).tolist():
            which = np.flatnonzero(begins == begin)
            stretch = self._kept.pop(begin, None)
            if stretch is None:
                nothing = np.empty((0, 0), dtype=np.int64)
                row = np.full(self._apart, -1)
                stretch = _Stretch(begin, int(ends[which[0]]), row, nothing, nothing)
            self._kept[begin] = stretch
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            rank = positions[which] % self._apart
            place = (positions[which] - begin) // self._apart
            yield stretch, which, rank, place

    def _deal(
        self, stretch: _Stretch, ranks: Int64Array
    ) -> Generator[None, None, None]:
        """Deal those of some ranks, if they were not."""
        ranks = distinct(ranks[stretch.row[ranks] < 0])
        if not len(ranks):
            return
        first = np.sort(stretch.begin + (ranks - stretch.begin) % self._apart)
        num_places = -(-(stretch.end - int(first[0])) // self._apart)
        # By turns of the ranks, and so rising: what lies behind the end comes last.
        turns = first + np.arange(num_places)[:, None] * self._apart
        every = turns.ravel()
        num_found = int(np.searchsorted(every, stretch.end))
        sequences = np.zeros(len(every), dtype=np.int64)
        sequences[:num_found] = yield from self._order.reading(every[:num_found])
        yield
        costs = np.zeros(len(every))
        costs[:num_found] = self._costs(sequences[:num_found])
        shape = turns.shape
        put = deal(
            costs.reshape(shape).T,
            quantiles(every // self._ranks, self._key, self._bucket).reshape(shape).T,
            -(-(stretch.end - first) // self._apart),
        )
        dealt = np.empty_like(put)
        np.put_along_axis(dealt, put, sequences.reshape(shape).T, axis=1)
        stretch.row[first % self._apart] = len(stretch.put) + np.arange(len(first))
        if len(stretch.put):
            put, dealt = _below(stretch.put, put), _below(stretch.dealt, dealt)
        stretch.put, stretch.dealt = put, dealt
        yield


class BalancedOrder(Dealing, Ordered):
    """The order of an epoch, dealt anew.

    Example:
        >>> from pagefeed.order import EpochOrder, ExplicitBlocks, Shuffle
        >>> order = EpochOrder(ExplicitBlocks([0, 100]), seed=1, epoch=0, name="",
        ...                    shuffle=Shuffle(), num_lanes=2, window=9)
        >>> balanced = BalancedOrder(
        ...     order, balance=Balance(tokens=1, stretch=16), key=b"1",
        ...     costs=lambda units: units % 7.0, ranks=2, end=100)
        >>> units = balanced.at(range(100))
        >>> sorted(units.tolist()) == list(range(100))
        True
        >>> balanced.positions(units[[3, 7]]).tolist()
        [3, 7]
    """

    _order: Ordered

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in short steps."""
        return self._order.begin()

    def positions(self, units: npt.ArrayLike) -> Int64Array:
        """Return the positions of sequences: the inverse of :meth:`at`."""
        return self.moved(self._order.positions(units))


def _below(upper: Int64Array, lower: Int64Array) -> Int64Array:
    """Rows below others; ranks differ by one place at most."""
    width = max(upper.shape[1], lower.shape[1])
    rows = [
        np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in (upper, lower)
    ]
    return np.concatenate(rows)
