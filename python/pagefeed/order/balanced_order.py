"""An order dealt anew, stretch by stretch, so that ranks are balanced."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array, finished
from pagefeed.order.balance import Balance, deal, quantiles

__all__ = ["BalancedOrder", "Ordered"]

NEVER = 1 << 62
"""A position that is never reached."""
MOST_KEPT = 4
"""Stretches that are kept."""

Costs = Callable[[Int64Array], npt.NDArray[np.float64]]
"""Gives the cost of each of some sequences."""


class Ordered(Protocol):
    """Sequences by position, before they are balanced."""

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in short steps."""

    def at(self, positions: npt.ArrayLike) -> Int64Array:
        """Return the sequences at positions: int64 [positions]."""

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the same, in short steps."""

    def positions(self, units: npt.ArrayLike) -> Int64Array:
        """Return where sequences are delivered."""


@dataclass
class _Stretch:
    """What was dealt of a stretch: some lanes."""

    begin: int
    end: int
    row: Int64Array
    """Row of each lane; -1 of those that were not dealt."""
    put: Int64Array
    """Where each place of a lane went: [lanes dealt, places]."""
    dealt: Int64Array
    """What stands at each place: likewise."""


class BalancedOrder:
    """Deals the sequences of each lane's stretches by cost.

    It is a permutation of the positions, and a pure function of its arguments. A
    position is found by looking at one stretch of its lane.

    Args:
        order: The order that is balanced.
        balance: How long stretches are.
        key: Key of this epoch.
        costs: Gives what sequences cost.
        num_lanes: V: position p is of lane ``p % V``.
        ranks: N, for which it is balanced: rank r takes r, r + N, and so on.
        cuts: Positions, from 0 on, over which nothing is moved.
        end: One past the last position; None without end.

    Example:
        >>> from pagefeed.order import EpochOrder, ExplicitBlocks, Shuffle
        >>> order = EpochOrder(ExplicitBlocks([0, 100]), seed=1, epoch=0, name="",
        ...                    shuffle=Shuffle(), num_lanes=2, window=9)
        >>> balanced = BalancedOrder(
        ...     order, balance=Balance(tokens=1, stretch=16), key=b"1", num_lanes=2,
        ...     costs=lambda units: units % 7.0, ranks=2, end=100)
        >>> units = balanced.at(range(100))
        >>> sorted(units.tolist()) == list(range(100))
        True
        >>> balanced.positions(units[[3, 7]]).tolist()
        [3, 7]
    """

    def __init__(
        self,
        order: Ordered,
        *,
        balance: Balance,
        key: bytes,
        costs: Costs,
        num_lanes: int,
        ranks: int,
        cuts: Sequence[int] = (0,),
        end: int | None,
    ) -> None:
        self._order = order
        self._key = key
        self._costs = costs
        self._num_lanes, self._ranks = num_lanes, ranks
        self._size = balance.stretch * num_lanes
        self._cuts = np.array([*cuts, NEVER if end is None else end], dtype=np.int64)
        self._kept: OrderedDict[int, _Stretch] = OrderedDict()

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in short steps."""
        return self._order.begin()

    def at(self, positions: npt.ArrayLike) -> Int64Array:
        """Return the sequences at positions: int64 [positions]."""
        return finished(self.reading(positions))

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the same as :meth:`at`, in steps of a few milliseconds."""
        wanted = np.asarray(positions, dtype=np.int64).ravel()
        sequences = np.empty(len(wanted), dtype=np.int64)
        for stretch, which, lane, place in self._groups(wanted):
            yield from self._deal(stretch, lane)
            sequences[which] = stretch.dealt[stretch.row[lane], place]
            yield
        return sequences

    def positions(self, units: npt.ArrayLike) -> Int64Array:
        """Return the positions of sequences: the inverse of :meth:`at`."""
        before = self._order.positions(units)
        return self.moved(before)

    def moved(self, before: Int64Array) -> Int64Array:
        """Return where what stood at positions of the given order stands now."""
        after = np.empty(len(before), dtype=np.int64)
        for stretch, which, lane, place in self._groups(before):
            finished(self._deal(stretch, lane))
            now = stretch.put[stretch.row[lane], place]
            after[which] = before[which] + (now - place) * self._num_lanes
        return after

    def end_of_stretch(self, position: int) -> int:
        """Return one past the last position that this one could be exchanged with."""
        return int(self._borders(np.array([position]))[1][0])

    def _borders(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """First position of each position's stretch, and one past the last.

        A stretch is so many whole turns of all lanes; the last one before a cut is up
        to twice as long.
        """
        part = np.searchsorted(self._cuts, positions, side="right") - 1
        first, last = self._cuts[part], self._cuts[part + 1]
        whole = -(-first // self._num_lanes) * self._num_lanes
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
        """Yield stretches: which positions are theirs, their lanes, places in these."""
        begins, ends = self._borders(positions)
        for begin in np.unique(begins).tolist():
            which = np.flatnonzero(begins == begin)
            stretch = self._kept.pop(begin, None)
            if stretch is None:
                nothing = np.empty((0, 0), dtype=np.int64)
                row = np.full(self._num_lanes, -1)
                stretch = _Stretch(begin, int(ends[which[0]]), row, nothing, nothing)
            self._kept[begin] = stretch
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            lane = positions[which] % self._num_lanes
            place = (positions[which] - begin) // self._num_lanes
            yield stretch, which, lane, place

    def _deal(
        self, stretch: _Stretch, lanes: Int64Array
    ) -> Generator[None, None, None]:
        """Deal lanes of a stretch, if they were not."""
        lanes = np.unique(lanes[stretch.row[lanes] < 0])
        if not len(lanes):
            return
        first = np.sort(stretch.begin + (lanes - stretch.begin) % self._num_lanes)
        num_places = -(-(stretch.end - int(first[0])) // self._num_lanes)
        # By turns of the lanes, and so rising: what lies behind the end comes last.
        turns = first + np.arange(num_places)[:, None] * self._num_lanes
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
            quantiles(every // self._ranks, self._key).reshape(shape).T,
            -(-(stretch.end - first) // self._num_lanes),
        )
        dealt = np.empty_like(put)
        np.put_along_axis(dealt, put, sequences.reshape(shape).T, axis=1)
        stretch.row[first % self._num_lanes] = len(stretch.put) + np.arange(len(first))
        if len(stretch.put):
            put, dealt = _below(stretch.put, put), _below(stretch.dealt, dealt)
        stretch.put, stretch.dealt = put, dealt
        yield


def _below(upper: Int64Array, lower: Int64Array) -> Int64Array:
    """Rows below others; lanes of a stretch differ by one place at most."""
    width = max(upper.shape[1], lower.shape[1])
    rows = [
        np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in (upper, lower)
    ]
    return np.concatenate(rows)
