"""The delay window: a shuffle buffer without a state.

Inside a lane the unit at x leaves at time ``x + D * h(x)``, where h is a keyed hash,
uniform in [0, 1). The units that leave in a stretch of time come from that stretch and
the D units before it alone. So every place is found by looking at about D units, and
nothing has to be replayed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pagefeed._base import Int64Array, UInt64Array
from pagefeed.order.keys import HALF, expand_key, mix
from pagefeed.order.lanes import Lanes

MAX_STRETCH = 1 << 21  # units: what is sorted at once, unless D itself is longer
MIN_STRETCH = 1 << 10
MIN_SPREAD = 64
NEVER = np.uint64(2**64 - 1)  # behind every time


def time_layout(delay: int) -> tuple[int, int]:
    """Return how many bits a place takes, and the fraction of a time.

    One sort does it all: a 64-bit number holds the time, with a fraction, above the
    place. The bits depend on the delay alone, as they decide between near ties.
    """
    place_bits = max(4 * delay, 2 * MAX_STRETCH).bit_length()
    return place_bits, min(16, 63 - 2 * place_bits)


class Stretch(NamedTuple):
    """The units of a lane that leave in a stretch of time, in the order they leave."""

    first_place: int
    """Place in the lane, after the window, of the first of them."""
    places: Int64Array
    """Their places in the lane before the window."""


class Stretches(NamedTuple):
    """Stretches of several lanes, side by side."""

    low: Int64Array
    """Place of each lane before which everything has left: int64 [lanes]."""
    high: Int64Array
    """Place at which nothing has left yet, or the lane's end: int64 [lanes]."""
    first: Int64Array
    """Number of the first place of ``by_time`` that leaves in the stretch."""
    last: Int64Array
    """One past the last, likewise."""
    by_time: UInt64Array
    """Places from ``low`` on, counted from there, by time: [lanes, most places]."""

    def stretch(self, lane: int) -> Stretch:
        """The stretch of one of the lanes."""
        low, first = int(self.low[lane]), int(self.first[lane])
        places = self.by_time[lane, first : int(self.last[lane])]
        return Stretch(low + first, places.view(np.int64) + low)


class DelayWindow:
    """Delays units inside their lane by less than ``delay``.

    Args:
        lanes: How the units are cut.
        delay: D, the longest delay in units; 1 delays nothing.
        key: Key of the hash.
    """

    def __init__(self, lanes: Lanes, delay: int, key: bytes) -> None:
        self.lanes = lanes
        self.delay = delay
        hash_key = expand_key(key, 2)
        self._key = (hash_key[0], hash_key[1])
        place_bits, time_bits = time_layout(delay)
        self._place_bits, self._time_bits = np.uint64(place_bits), np.uint64(time_bits)
        self._place_mask = (np.uint64(1) << self._place_bits) - np.uint64(1)

    def stretches(
        self, lanes: Int64Array, begins: Int64Array, ends: Int64Array
    ) -> Stretches:
        """The units of lanes with begin <= time < end, each lane with its own.

        With ``end >= place + delay + 1`` a stretch reaches beyond that place, and it
        never leaves out place ``begin``: ``first_place`` is at most ``begin``.
        """
        low = np.maximum(0, begins - self.delay)  # what is before has left before
        high = np.maximum(low, np.minimum(ends, self.lanes.lengths(lanes)))
        sizes = high - low
        place = np.arange(sizes.max())
        start = self.lanes.starts(lanes) + low
        packed = self._packed(place, place + start[:, np.newaxis])
        if sizes.min() < len(place):
            packed[place >= sizes[:, np.newaxis]] = NEVER
        packed.sort(axis=1)
        shift = self._time_bits + self._place_bits
        edges = np.stack([begins - low, ends - low], axis=1).astype(np.uint64) << shift
        found = [
            np.searchsorted(row, edge) for row, edge in zip(packed, edges, strict=True)
        ]
        first, last = np.array(found).T
        packed &= self._place_mask
        return Stretches(low, high, first, last, packed)

    def expected_time(self, lane: int, place: int) -> int:
        """Return the expected time at which the unit at a place of a lane leaves.

        In lanes longer than the delay, units very rarely leave more than :attr:`spread`
        before or after it.
        """
        length = self.lanes.length(lane)
        if 2 * place < self.delay:
            return math.isqrt(2 * self.delay * place)
        if 2 * (length - place) < self.delay:
            left = math.isqrt(2 * self.delay * max(0, length - place))
            return length + self.delay - left
        return place + self.delay // 2

    @property
    def spread(self) -> int:
        """Eight times the deviation of what has left of a lane, as a time."""
        return 6 * math.isqrt(self.delay) + MIN_SPREAD

    def part(
        self, lane: int, low: int, places: range, begin: int, end: int
    ) -> tuple[int, UInt64Array]:
        """Look at consecutive places of a lane.

        Returns:
            How many have left before ``begin``; the rest with time < ``end``, by place:
            time above place, counted from ``low`` as the others of their stretch.
        """
        place = np.arange(places.start, places.stop)
        times = self._delays(place + self.lanes.start(lane))
        place -= low
        times += place.view(np.uint64) << self._time_bits
        edges = np.array([begin - low, end - low]).astype(np.uint64) << self._time_bits
        has_left = times < edges[0]
        leaves = times < edges[1]
        leaves ^= has_left
        leaving = np.flatnonzero(leaves)
        packed = times[leaving] << self._place_bits
        packed |= place[leaving].view(np.uint64)
        return int(np.count_nonzero(has_left)), packed

    def places_of(self, packed: UInt64Array) -> Int64Array:
        """Return the places below the times."""
        return (packed & self._place_mask).view(np.int64)

    def by_time(self, packed: UInt64Array) -> Int64Array:
        """Return the places in ``packed`` of its elements, by time: int64.

        Args:
            packed: Time above place, by place; the places are lost.
        """
        packed &= ~self._place_mask
        packed |= np.arange(len(packed), dtype=np.uint64)
        packed.sort()
        return self.places_of(packed)

    def places(self, lane: int, places: Int64Array) -> Int64Array:
        """Where the window puts places of one lane, int64; fast for neighbours."""
        if self.delay == 1:
            return places
        times = self.times(lane, places)
        put = np.empty(len(places), dtype=np.int64)
        start = self.lanes.start(lane)
        order = np.argsort(times, kind="stable")
        done = 0
        while done < len(order):
            begin = int(times[order[done]])
            end = begin + max(self.delay, MIN_STRETCH)
            stop = int(np.searchsorted(times, end, sorter=order))
            group = order[done:stop]
            low = max(0, begin - self.delay)
            leaving = self._leaving(lane, low, end)
            sought = self._packed(places[group] - low, places[group] + start)
            put[group] = np.searchsorted(leaving, sought) + low
            done = stop
        return put

    def times(self, lane: int, places: Int64Array) -> Int64Array:
        """Time, in whole units, at which places of one lane leave, int64."""
        delays = self._delays(places + self.lanes.start(lane))
        return places + (delays >> self._time_bits).view(np.int64)

    def _leaving(self, lane: int, low: int, high: int) -> UInt64Array:
        """Places in [low, high) by time: all that leave before high + 1, and more."""
        high = min(high, self.lanes.length(lane))
        place = np.arange(high - low)
        packed = self._packed(place, place + (low + self.lanes.start(lane)))
        packed.sort()
        return packed

    def _packed(self, places: Int64Array, indices: Int64Array) -> UInt64Array:
        """Time above place, both counted from the same place of a lane.

        Args:
            places: Places, counted from there.
            indices: The same units' indices among those of all lanes.
        """
        place = places.view(np.uint64)
        packed = self._delays(indices)
        packed += place << self._time_bits
        packed <<= self._place_bits
        packed |= place
        return packed

    def _delays(self, indices: Int64Array) -> UInt64Array:
        """D * h in fixed point with ``_time_bits`` bits of fraction."""
        hashed = mix(indices, self._key)
        hashed >>= HALF
        hashed *= np.uint64(self.delay)
        hashed >>= HALF - self._time_bits
        return hashed
