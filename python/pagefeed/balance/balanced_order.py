"""The order of an epoch, rearranged in stretches so that ranks are balanced."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.balance.balance import Balance, deal
from pagefeed.core._base import Int64Array, UInt32Array, distinct, finished
from pagefeed.core.order import Costs, Ordered
from pagefeed.core.run import Sequences, joined

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Int32Array: TypeAlias = npt.NDArray[np.int32]

NEVER = 1 << 62
"""A position that is never reached."""
MOST_KEPT = 4
"""Stretches that are kept, at most."""
MOST_HELD = 1 << 19
"""Sequences of stretches that are kept, if more than one is."""
AT_ONCE = 1 << 16
"""Sequences that are looked up together."""
MOST_DEALT = 1 << 17
"""Sequences of several ranks that are dealt at once, about."""


Reading: TypeAlias = Callable[[Int64Array], Generator[None, None, Sequences]]
"""Function that finds the sequences at rising positions, in short steps."""


class Division(NamedTuple):
    """A range of positions; no sequence moves into it or out of it."""

    first: int
    end: int
    """One past the last; ``NEVER`` without end."""
    epoch: int
    """Least number of positions between two deliveries of a sequence."""
    stays: Callable[[Int64Array], BoolArray] | None = None
    """Function that returns which positions are left unchanged; None if none are."""


@dataclass
class _Stretch:
    """A stretch, and the slots dealt in it so far, for some of the ranks."""

    begin: int
    end: int
    division: Division
    row: Int64Array
    """Row of each rank; -1 if it is not dealt yet."""
    put: Int32Array
    """New slot of each old slot of a rank: [ranks dealt, slots]."""
    dealt: Sequences
    """Sequence at each new slot of a rank: [ranks dealt, slots]."""


class Dealing:
    """Deals the sequences in the stretches of each rank by their cost.

    It is a permutation of the positions, and a pure function of its arguments. To find
    a position, one stretch of its rank is dealt.

    Args:
        order: Finds the sequences of the order that is balanced.
        balance: How long stretches and buckets are.
        key: Key of this epoch.
        costs: Function that returns the costs of sequences.
        ranks: N, for which it is balanced: rank r takes r, r + N, and so on.
        divisions: Function that returns the division of a position; or the number of
            positions, if they are one division and an epoch.
    """

    def __init__(
        self,
        order: Reading,
        *,
        balance: Balance,
        key: bytes,
        costs: Costs,
        ranks: int,
        divisions: Callable[[int], Division] | int,
    ) -> None:
        self._find = order
        self._key = key
        self._costs = costs
        self._ranks = ranks
        self._apart = 1 if balance.exact else ranks
        self._balance = balance
        self._size = balance.slots_of(ranks) * ranks
        if isinstance(divisions, int):
            whole = Division(0, divisions, epoch=divisions)
            self._division_of: Callable[[int], Division] = lambda _: whole
        else:
            self._division_of = divisions
        self._divisions: list[Division] = []
        self._cache: OrderedDict[int, _Stretch] = OrderedDict()

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Sequences]:
        """Find the sequences at positions, in steps of a few milliseconds."""
        if isinstance(positions, range):  # NumPy would take one by one.
            positions = np.arange(positions.start, positions.stop, positions.step)
        wanted = np.asarray(positions, dtype=np.int64).ravel()
        parts = []
        for stretch, which, rank, slot in self._groups(wanted):
            yield from self._deal(stretch, rank)
            parts.append((which, stretch.dealt[stretch.row[rank], slot]))
            yield
        return Sequences.placed(len(wanted), parts)

    def moved(self, before: Int64Array) -> Int64Array:
        """Return the new positions of sequences at positions of the given order."""
        after = np.empty(len(before), dtype=np.int64)
        for stretch, which, rank, slot in self._groups(before):
            finished(self._deal(stretch, rank))
            now = stretch.put[stretch.row[rank], slot]
            after[which] = before[which] + (now - slot) * self._apart
        return after

    def next_border(self, position: int) -> int:
        """Return the first border of stretches at or after a position."""
        begin, end = self.borders(position)
        return begin if begin == position else end

    def borders(self, position: int) -> tuple[int, int]:
        """Return the first position of a stretch, and one past its last.

        A stretch is a fixed number of whole turns of all ranks. The last stretch of a
        division is up to twice as long.
        """
        division, size = self._division(position), self._size
        first = -(-division.first // self._ranks) * self._ranks
        last = max((division.end - first) // size, 1) - 1
        index = min(max((position - first) // size, 0), last)
        begin = division.first if index == 0 else first + index * size
        return begin, division.end if index == last else first + (index + 1) * size

    def _division(self, position: int) -> Division:
        """Return the division that contains a position."""
        at = bisect_right(self._divisions, position, key=itemgetter(0))
        if at and position < self._divisions[at - 1].end:
            return self._divisions[at - 1]
        division = self._division_of(position)
        if not division.first <= position < division.end:
            raise IndexError(f"position {position} is outside of what is dealt")
        self._divisions.insert(at, division)
        return division

    def _groups(
        self, positions: Int64Array
    ) -> Iterator[tuple[_Stretch, Int64Array, Int64Array, Int64Array]]:
        """Yield stretches with the positions in them, their ranks and slots."""
        left = np.arange(len(positions))
        while len(left):
            stretch = self._stretch(int(positions[left].min()))
            is_here = positions[left] < stretch.end
            which, left = left[is_here], left[~is_here]
            rank = positions[which] % self._apart
            slot = (positions[which] - stretch.begin) // self._apart
            yield stretch, which, rank, slot

    def _stretch(self, position: int) -> _Stretch:
        """Return the stretch of a position, from the cache if it is there."""
        begin, end = self.borders(position)
        stretch = self._cache.pop(begin, None)
        if stretch is None:
            row, put = np.full(self._apart, -1), np.empty((0, 0), np.int32)
            dealt = Sequences.placed(put.shape, [])
            stretch = _Stretch(begin, end, self._division(begin), row, put, dealt)
        self._cache[begin] = stretch
        cached = sum(stored.put.size for stored in self._cache.values())
        while len(self._cache) > (1 if cached > MOST_HELD else MOST_KEPT):
            cached -= self._cache.popitem(last=False)[1].put.size
        return stretch

    def _deal(
        self, stretch: _Stretch, ranks: Int64Array
    ) -> Generator[None, None, None]:
        """Deal the sequences of ranks that are not dealt yet."""
        ranks = distinct(ranks[stretch.row[ranks] < 0])
        together = max(1, MOST_DEALT * self._apart // (stretch.end - stretch.begin))
        for at in range(0, len(ranks), together):
            yield from self._deal_some(stretch, ranks[at : at + together])

    def _deal_some(
        self, stretch: _Stretch, ranks: Int64Array
    ) -> Generator[None, None, None]:
        """Deal the sequences of some ranks together."""
        first = np.sort(stretch.begin + (ranks - stretch.begin) % self._apart)
        every = self._turns(stretch, first)
        parts, costs = [], np.empty(len(every))
        for at in range(0, len(every), AT_ONCE):
            some = slice(at, at + AT_ONCE)
            parts.append((yield from self._find(every[some])))
            yield
            costs[some] = self._costs(parts[-1].numbers)
            yield
        sequences = joined(parts)
        division, balance = stretch.division, self._balance
        put, numbers = deal(
            sequences.numbers,
            costs,
            None if division.stays is None else division.stays(every),
            first=first,
            ranks=self._ranks,
            key=self._key,
            balance=balance,
            equal=balance.equal_of(max(1, division.epoch // self._size)),
        )
        dealt = Sequences(numbers, _epochs_dealt(sequences.epochs, put))
        stretch.row[first % self._apart] = len(stretch.put) + np.arange(len(first))
        if len(stretch.put):
            put, dealt = _below(stretch, put, dealt)
        stretch.put, stretch.dealt = put, dealt
        yield

    def _turns(self, stretch: _Stretch, first: Int64Array) -> Int64Array:
        """Return the positions of some ranks of a stretch, rising: int64."""
        num_slots = -(-(stretch.end - int(first[0])) // self._apart)
        turns = (first + np.arange(num_slots)[:, None] * self._apart).ravel()
        return turns[: int(np.searchsorted(turns, stretch.end))]


class BalancedOrder(Ordered):
    """The order of an epoch, rearranged so that ranks are balanced.

    Args:
        order: The order.
        **settings: The other arguments of :class:`Dealing`.

    Example:
        >>> from pagefeed.core.order import EpochOrder, Shuffle
        >>> from pagefeed.core.sequences import ExplicitBlocks
        >>> order = EpochOrder(ExplicitBlocks([0, 100]), seed=1, epoch=0, name="",
        ...                    shuffle=Shuffle(), num_lanes=2, window=9)
        >>> balanced = BalancedOrder(
        ...     order, balance=Balance(tokens=1, stretch=16), key=b"1",
        ...     costs=lambda units: units % 7.0, ranks=2, divisions=100)
        >>> units = balanced.at(range(100))
        >>> sorted(units.tolist()) == list(range(100))
        True
        >>> balanced.positions(units[[3, 7]]).tolist()
        [3, 7]
    """

    def __init__(self, order: Ordered, **settings: Any) -> None:
        self._order = order
        self._dealing = Dealing(partial(_found, order), **settings)

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in short steps."""
        return self._order.begin()

    def reading(self, positions: npt.ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the sequences at positions, in steps of a few milliseconds."""
        return (yield from self._dealing.reading(positions)).numbers

    def positions(self, units: npt.ArrayLike) -> Int64Array:
        """Return the positions of sequences: the inverse of :meth:`at`."""
        return self._dealing.moved(self._order.positions(units))


def _found(order: Ordered, at: Int64Array) -> Generator[None, None, Sequences]:
    """Find the sequences of an order of one epoch."""
    return Sequences((yield from order.reading(at)))


def _epochs_dealt(epochs: UInt32Array | None, put: Int32Array) -> UInt32Array | None:
    """Return the epoch in each new slot: uint32 [ranks, slots].

    Args:
        epochs: Epochs of the sequences, turn after turn of the ranks.
        put: New slot of each: [ranks, slots].
    """
    if epochs is None:
        return None
    slot, rank = np.divmod(np.arange(len(epochs)), len(put))
    dealt = np.zeros(put.shape, dtype=np.uint32)
    dealt[rank, put[rank, slot]] = epochs
    return dealt


def _below(
    upper: _Stretch, put: Int32Array, dealt: Sequences
) -> tuple[Int32Array, Sequences]:
    """Return the slots of a stretch, and below them those of more ranks."""
    ranks, slots = upper.put.shape
    shape = ranks + len(put), max(slots, put.shape[1])
    at = np.s_[:ranks, :slots], np.s_[ranks:, : put.shape[1]]
    both = np.zeros(shape, dtype=np.int32)
    both[at[0]], both[at[1]] = upper.put, put
    return both, Sequences.placed(shape, zip(at, (upper.dealt, dealt), strict=True))
