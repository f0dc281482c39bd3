"""The delay window: a shuffle buffer without a state.

Inside a lane the unit at x leaves at time ``x + D * h(x)``, where h is a keyed hash,
uniform in [0, 1). The units that leave in a stretch of time come only from that stretch
and the D units before it. So every position is found by looking at about D units, and
nothing has to be replayed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array, joined_ranges
from pagefeed.core.order.keys import HALF, expand_key, hash64
from pagefeed.core.order.lanes import Lanes
from pagefeed.core.order.lists import Chosen

MAX_STRETCH = 1 << 21  # units: what is sorted at once, unless D itself is longer
MIN_STRETCH = 1 << 10
MIN_SPREAD = 64


class Leaving(NamedTuple):
    """Units that leave the window in a stretch of time; int64 arrays."""

    chosen: Chosen
    """The units, among all that were looked at, by their indices in all lanes."""
    times: Int64Array
    """When they leave, counted from the begin of the stretch: [units]."""
    counts: Int64Array
    """Number of units of each row: [rows]."""
    num_left: Int64Array
    """Number of units of each row that left before the stretch: [rows]."""


class DelayWindow:
    """Delays units inside their lane by less than ``delay``.

    Args:
        lanes: Lanes that the units are cut into.
        delay: D, the longest delay in units; 1 delays nothing.
        key: Key of the hash.
    """

    def __init__(self, lanes: Lanes, delay: int, key: bytes) -> None:
        self.lanes = lanes
        self.delay = delay
        hash_key = expand_key(key, 2)
        self._key = (hash_key[0], hash_key[1])
        # The fraction of a time decides between near ties, so that its bits are part of
        # the order. They depend on the delay alone.
        place_bits = max(4 * delay, 2 * MAX_STRETCH).bit_length()
        time_bits = min(16, 63 - 2 * place_bits)
        self._unit, self._hash_bits = 1 << time_bits, np.uint64(32 - time_bits)

    def leaving(
        self,
        lanes: Int64Array,
        starts: Int64Array,
        stops: Int64Array,
        begins: Int64Array,
        ends: Int64Array,
    ) -> Leaving:
        """Return the units that leave at begin <= time < end.

        Args:
            lanes: Lane of each row.
            starts: First unit to look at in the lane.
            stops: One past the last unit to look at.
            begins: Begin of the stretch of time.
            ends: Its end.
        """
        sizes, first = stops - starts, self.lanes.starts(lanes)
        runs = first + starts, first + stops
        indices = joined_ranges(*runs)
        times = indices - np.repeat(first + begins, sizes)
        times *= self._unit
        times += self._delays(indices)
        has_left = times < 0
        leaves = times < np.repeat((ends - begins) * self._unit, sizes)
        leaves &= ~has_left
        which, borders = np.flatnonzero(leaves), np.append(0, np.cumsum(sizes))
        counts = np.diff(np.searchsorted(which, borders))
        num_left = np.diff(np.searchsorted(np.flatnonzero(has_left), borders))
        chosen = Chosen(*runs, which, indices[which])
        return Leaving(chosen, times[which], counts, num_left)

    def expected_time(self, lane: int, in_lane: int) -> int:
        """Return the time at which the unit at a position of a lane leaves, on average.

        In lanes longer than the delay, units very rarely leave more than :attr:`spread`
        before or after it.
        """
        length = self.lanes.length(lane)
        if 2 * in_lane < self.delay:
            return math.isqrt(2 * self.delay * in_lane)
        if 2 * (length - in_lane) < self.delay:
            left = math.isqrt(2 * self.delay * max(0, length - in_lane))
            return length + self.delay - left
        return in_lane + self.delay // 2

    @property
    def spread(self) -> int:
        """Eight times the deviation of what has left of a lane, as a time."""
        return 6 * math.isqrt(self.delay) + MIN_SPREAD

    def places(self, lane: int, places: Int64Array) -> Int64Array:
        """Return positions in one lane after the window, int64. Neighbours are fast."""
        if self.delay == 1:
            return places
        start, length = self.lanes.start(lane), self.lanes.length(lane)
        times = places + self._delays(places + start) // self._unit
        put = np.empty(len(places), dtype=np.int64)
        order = np.argsort(times, kind="stable")
        done = 0
        while done < len(order):
            begin = int(times[order[done]])
            end = begin + max(self.delay, MIN_STRETCH)
            stop = int(np.searchsorted(times, end, sorter=order))
            group = order[done:stop]
            low, high = max(0, begin - self.delay), min(end, length)
            leaving = self.leaving(*np.array([[lane], [low], [high], [begin], [end]]))
            in_order = by_row_and_time(leaving.counts, leaving.times)
            rank = np.empty_like(in_order)
            rank[in_order] = np.arange(len(rank))
            sought = np.searchsorted(leaving.chosen.indices, places[group] + start)
            put[group] = low + leaving.num_left + rank[sought]
            done = stop
        return put

    def _delays(self, indices: Int64Array) -> Int64Array:
        """Return the delays of units in fixed point, as fractions of a unit of time."""
        hashed = hash64(indices, self._key)
        hashed >>= HALF
        hashed *= np.uint64(self.delay)
        hashed >>= self._hash_bits
        return hashed.view(np.int64)


def by_row_and_time(counts: Int64Array, times: Int64Array) -> Int64Array:
    """Return the numbers of units, row after row, in the order they leave: int64.

    Row, time and number fit into 63 bits together, so one sort is enough.

    Args:
        counts: Units of each row.
        times: Time at which each unit leaves, at least 0, row after row.
    """
    number_bits = len(times).bit_length()
    row_bits = number_bits + int(times.max(initial=0)).bit_length()
    packed = times << number_bits
    packed |= np.arange(len(times))
    packed |= np.repeat(np.arange(len(counts)) << row_bits, counts)
    packed.sort()
    packed &= (1 << number_bits) - 1
    return packed
