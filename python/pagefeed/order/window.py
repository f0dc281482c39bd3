"""The delay window: a shuffle buffer without a state.

Inside a lane the unit at x leaves at time ``x + D * h(x)``, h a keyed hash, uniform in
[0, 1). Which units leave in a stretch of time depends on that stretch and the D units
before it alone, so every place is found by looking at about D units, and nothing before
it has to be replayed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagefeed.arrays import Int64Array, UInt64Array
from pagefeed.order.keys import HALF, expand_key, mix
from pagefeed.order.lanes import Lanes

MAX_STRETCH = 1 << 21  # units: what is sorted at once, unless D itself is longer
MIN_STRETCH = 1 << 10


class Stretch(NamedTuple):
    """The units of a lane that leave in a stretch of time, in the order they leave."""

    first_place: int
    """Place in the lane, after the window, of the first of them."""
    units: Int64Array
    """Their places in the lane before the window; or, read through, their units."""
    end_time: int
    """When the stretch ends: where the next one begins."""


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
        # One sort does it all: a 64-bit number holds the time, with a fraction, above
        # the place. The bits depend on D alone, as they decide between near ties.
        self._place_bits = np.uint64(max(4 * delay, 2 * MAX_STRETCH).bit_length())
        self._time_bits = np.uint64(min(16, 63 - 2 * int(self._place_bits)))

    def stretch(self, lane: int, begin: int, end: int) -> Stretch:
        """The units of a lane with begin <= time < end.

        With ``end >= begin + delay + 1`` it reaches beyond place ``begin``, which it
        never leaves out: ``first_place`` is at most ``begin``.
        """
        low = max(0, begin - self.delay)  # everything before has left before begin
        leaving = self._leaving(lane, low, end)
        edges = np.array([begin - low, end - low], dtype=np.uint64)
        edges <<= self._time_bits + self._place_bits
        first, last = np.searchsorted(leaving, edges)
        places = leaving[first:last] & (
            (np.uint64(1) << self._place_bits) - np.uint64(1)
        )
        return Stretch(low + int(first), places.view(np.int64) + low, end)

    def places(self, lane: int, places: Int64Array) -> Int64Array:
        """Where the window puts places of one lane, int64; fast for neighbours."""
        if self.delay == 1:
            return places
        times = self.times(lane, places)
        put = np.empty(len(places), dtype=np.int64)
        order = np.argsort(times, kind="stable")
        done = 0
        while done < len(order):
            begin = int(times[order[done]])
            end = begin + max(self.delay, MIN_STRETCH)
            stop = int(np.searchsorted(times, end, sorter=order))
            group = order[done:stop]
            low = max(0, begin - self.delay)
            leaving = self._leaving(lane, low, end)
            sought = self._packed(lane, low, places[group])
            put[group] = np.searchsorted(leaving, sought) + low
            done = stop
        return put

    def times(self, lane: int, places: Int64Array) -> Int64Array:
        """Time, in whole units, at which places of one lane leave, int64."""
        return places + (self._delays(lane, places) >> self._time_bits).view(np.int64)

    def _leaving(self, lane: int, low: int, high: int) -> UInt64Array:
        """Places in [low, high) by time: all that leave before high + 1, and more."""
        high = min(high, self.lanes.length(lane))
        packed = self._packed(lane, low, np.arange(low, high, dtype=np.int64))
        packed.sort()
        return packed

    def _packed(self, lane: int, low: int, places: Int64Array) -> UInt64Array:
        place = (places - low).view(np.uint64)
        packed = place << self._time_bits
        packed += self._delays(lane, places)
        packed <<= self._place_bits
        packed |= place
        return packed

    def _delays(self, lane: int, places: Int64Array) -> UInt64Array:
        """D * h in fixed point with ``_time_bits`` bits of fraction."""
        hashed = mix(places + self.lanes.start(lane), self._key)
        hashed >>= HALF
        hashed *= np.uint64(self.delay)
        hashed >>= HALF - self._time_bits
        return hashed
