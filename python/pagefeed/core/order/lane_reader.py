"""Reads units ahead in many lanes at a time.

A NumPy call costs more than its work for one lane. So the lanes that are read together
are looked up together, as the rows of one array.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.order.lists import UnitList
from pagefeed.core.order.window import (
    MAX_STRETCH,
    MIN_STRETCH,
    DelayWindow,
    by_row_and_time,
)

MOST_HELD = 1 << 22  # read-ahead of all lanes together: at most 32 MiB
READ_AHEAD = 1 << 12  # units of one lane
LONG_DELAY = 1 << 14  # units of one lane
AT_ONCE = 1 << 13  # units resolved in a step, if one lane's are not more
LOOKED_AT = 1 << 15  # units of one lane looked at in a step, at least AT_ONCE
MOST_REPEATED = 16  # how often a delay is looked through at most, to hold less


class LaneUnits(NamedTuple):
    """Units of a lane, in the order they are delivered."""

    first_place: int
    """Position in the lane of the first unit."""
    units: Int64Array
    end_time: int
    """Time at which the window continues."""

    @property
    def end_place(self) -> int:
        """One past the position of the last unit."""
        return self.first_place + len(self.units)


class _Missing(NamedTuple):
    """A stretch of a lane's time to look up, and the units to keep before it."""

    lane: int
    first_place: int
    """The first that is wanted."""
    begin: int
    end: int
    kept: Int64Array


class LaneReader:
    """Reads units at any positions of any lane, fastest in ascending order.

    It caches units. The cache changes only how long reading takes, never the result.

    Args:
        window: Window that delays units inside their lanes.
        sequence: The units before lanes and window.
        most_held: Most units of all lanes to cache; at least an eighth of the units
            that the delays span are cached.
    """

    def __init__(
        self, window: DelayWindow, sequence: UnitList, most_held: int = MOST_HELD
    ) -> None:
        self._window = window
        self._sequence = sequence
        num_lanes = window.lanes.num_lanes
        most = min(MAX_STRETCH, most_held // 2) // num_lanes
        least = max(min(window.delay, MIN_STRETCH), window.delay // MOST_REPEATED)
        self.read_ahead = max(min(max(window.delay, READ_AHEAD), most), least, 1)
        """Units of a lane that are resolved at once when it is read on."""
        self._is_long = window.delay > LONG_DELAY
        # With less room, lanes would be dropped before they are read again.
        self._most_held = max(most_held, 2 * num_lanes * self.read_ahead)
        self._held: OrderedDict[int, LaneUnits] = OrderedDict()
        self._num_held = 0

    def read(self, lane: int, places: range | Int64Array, into: Int64Array) -> None:
        """Read the units at rising positions of one lane."""
        done = 0
        while done < len(places):
            stretch = self._holding(lane, int(places[done]))
            if isinstance(places, range):
                taken = stretch.units[places[done] - stretch.first_place :: places.step]
                taken = taken[: len(places) - done]
            else:
                stop = int(np.searchsorted(places, stretch.end_place))
                taken = stretch.units[places[done:stop] - stretch.first_place]
            into[done : done + len(taken)] = taken
            done += len(taken)

    def _holding(self, lane: int, wanted: int) -> LaneUnits:
        """Return the units that were read around a position of the lane, if any."""
        stretch = self._held.get(lane)
        while stretch is None or not stretch.first_place <= wanted < stretch.end_place:
            for _ in self.prepare([(lane, range(wanted, wanted + 1))]):
                pass
            stretch = self._held[lane]
        return stretch

    def prepare(self, wanted: Iterable[tuple[int, range]]) -> Iterator[None]:
        """Look up, in steps, the units that reading these positions needs.

        Units of a lane before the first place are forgotten. If the delay is long, some
        units may be left to be looked up by :meth:`read`.
        """
        group: list[_Missing] = []
        num_units = 0
        for lane, places in wanted:
            missing = self._missing(lane, places)
            if missing is None:
                continue
            # Units are looked at from one delay earlier, up to the lane's end.
            end = min(missing.end, self._window.lanes.length(lane))
            size = end - max(0, missing.begin - self._window.delay)
            if group and num_units + size > AT_ONCE:
                yield from self._resolve(group)
                group, num_units = [], 0
            group.append(missing)
            num_units += size
        if group:
            yield from self._resolve(group)

    def _missing(self, lane: int, places: range) -> _Missing | None:
        """Return the stretch to look up before positions of a lane are read, or None.

        A lane that is read in ascending order continues where it ended, twice as far
        each time. For any other position as few units as possible are looked up. A
        stretch longer than the delay reaches beyond the position at which it begins.
        """
        near = self._held.get(lane)
        first, last = places[0], places[-1]
        if near is not None and near.first_place <= first and last < near.end_place:
            return None
        delay, last = self._window.delay, min(last, first + self.read_ahead)
        latest = last + delay + 1
        if self._is_long:
            latest = self._window.expected_time(lane, last) + self._window.spread
        if near is None or not near.first_place <= first <= near.end_place:
            begin = first
            ahead = min(MIN_STRETCH, self.read_ahead)
            end = max(latest, first + ahead + delay)
            if self._is_long:
                expected = self._window.expected_time(lane, first)
                begin, end = max(0, expected - self._window.spread), latest
            kept = np.empty(0, dtype=np.int64)
        else:
            begin = near.end_time
            ahead = min(2 * len(near.units), self.read_ahead)
            end = max(begin + max(ahead, 1), latest)
            kept = near.units[first - near.first_place :]
        # Read the end of the lane now if it is no longer than the delay: later, the
        # units before it would have to be looked at again.
        lane_end = self._window.lanes.length(lane) + delay
        if end < lane_end <= end + max(min(delay, self.read_ahead), MIN_STRETCH):
            end = lane_end
        return _Missing(lane, first, begin, end, kept)

    def _resolve(self, group: list[_Missing]) -> Iterator[None]:
        """Sort the units of some lanes by the time they leave.

        With a long delay most units leave before or after the stretch, and are not
        cached.
        """
        window = self._window
        lanes = np.array([missing.lane for missing in group])
        begins = np.array([missing.begin for missing in group])
        ends = np.array([missing.end for missing in group])
        low = np.maximum(
            0, begins - window.delay
        )  # Earlier units have left the window.
        high = np.maximum(low, np.minimum(ends, window.lanes.lengths(lanes)))
        num_units, num_left = np.zeros((2, len(group)), dtype=np.int64)
        times, units = ([np.empty(0, dtype=np.int64)] for _ in range(2))
        # Look at several short lanes together, and at a long lane alone.
        for ahead in range(0, int((high - low).max()), LOOKED_AT):
            start, stop = low + ahead, np.minimum(low + ahead + LOOKED_AT, high)
            leaving = window.leaving(lanes, start, stop, begins, ends)
            num_units += leaving.counts
            num_left += leaving.num_left
            times.append(leaving.times)
            yield
            units.append((yield from self._sequence.units(leaving.chosen)))
            yield
        by_time = by_row_and_time(num_units, np.concatenate(times))
        in_order = np.concatenate(units)[by_time]
        rows = (
            (low + num_left).tolist(),
            num_units.tolist(),
            np.cumsum(num_units).tolist(),
        )
        for missing, first_place, count, stop in zip(group, *rows, strict=True):
            row = in_order[stop - count : stop]
            kept = missing.kept
            if len(kept) or first_place <= missing.first_place < first_place + len(row):
                stretch = np.concatenate([kept, row])
                self._keep(missing.lane, first_place - len(kept), stretch, missing.end)
            else:  # It leaves at another time than was expected.
                begin, end = missing.first_place, missing.first_place + window.delay + 1
                yield from self._resolve([missing._replace(begin=begin, end=end)])
        yield

    def _keep(
        self, lane: int, first_place: int, units: Int64Array, end_time: int
    ) -> None:
        """Remember units of a lane; drop those of the lanes read longest ago."""
        before = self._held.pop(lane, None)
        self._num_held += len(units) - (len(before.units) if before else 0)
        self._held[lane] = LaneUnits(first_place, units, end_time)
        while self._num_held > self._most_held and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._num_held -= len(oldest.units)
