"""The order of an epoch: its interface, and position -> unit and back."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pagefeed.core._base import Int64Array, finished, sorted_with_places
from pagefeed.core.order.keys import KeyPart, derive_key
from pagefeed.core.order.lane_reader import MOST_HELD, LaneReader
from pagefeed.core.order.lanes import Lanes
from pagefeed.core.order.lists import SingleList, make_list
from pagefeed.core.order.permutation import checked_indices
from pagefeed.core.order.shuffle import Shuffle
from pagefeed.core.order.window import DelayWindow
from pagefeed.core.sequences import Blocks
from pagefeed.errors import InvalidArgumentError

Costs: TypeAlias = Callable[[Int64Array], npt.NDArray[np.float64]]
"""Function that returns the costs of sequences: float64 [sequences]."""


class Ordered(ABC):
    """The order of an epoch: a permutation of its units."""

    def begin(self) -> Iterator[None]:
        """Prepare the first use, in steps of a few milliseconds."""
        yield from ()

    def at(self, positions: ArrayLike) -> Int64Array:
        """Return the units delivered at positions of the epoch.

        Fastest for a range, such as a rank's ``range(first, last, world_size)``, or an
        array of the same numbers.

        Args:
            positions: Positions of the epoch, in any order, repeats allowed.

        Returns:
            int64 [len(positions)].

        Raises:
            IndexError: A position lies outside the epoch.
        """
        return finished(self.reading(positions))

    @abstractmethod
    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Find what :meth:`at` finds, in steps of at most a few milliseconds.

        Returns:
            int64 [len(positions)].

        Example:
            >>> def deliver(order, positions):
            ...     units = yield from order.reading(positions)
            ...     yield units
        """

    @abstractmethod
    def positions(self, units: ArrayLike) -> Int64Array:
        """Return the positions at which units are delivered: the inverse of :meth:`at`.

        Returns:
            int64 [len(units)].

        Raises:
            IndexError: There is no such unit.
        """


SPARSE = 16
"""A lane with more positions than this per wanted position is not read in one piece.
"""


class EpochOrder(Ordered):
    """The order in which the units of one epoch are delivered, over all ranks.

    It is a pure function of its arguments: rank r of N delivers the positions r, r + N,
    r + 2N and so on, for any N. Its memory does not grow with the dataset, with one
    exception: blocks of different sizes need a sum for every 64 of them. Reading on in
    a lane is fast. A jump to another position costs work for about ``window`` units.

    Args:
        blocks: The units and the blocks they lie in.
        seed: Seed of the run.
        epoch: Number of the epoch.
        name: Name of the dataset, which sets it apart from others in a mixture.
        shuffle: The settings; ``shuffle.window`` is not used here.
        num_lanes: V, see :func:`~pagefeed.core.order.choose_num_lanes`.
        window: D, the longest delay inside a lane in units, see :meth:`Shuffle.delay`;
            0 or 1 delays nothing, as do shuffles without a window.
        most_held: Most units that reading ahead may keep in memory, of 8 bytes each.

    Raises:
        InvalidArgumentError: There are too many units and passes.

    Example:
        >>> from pagefeed.core.order import EpochOrder, Shuffle
        >>> from pagefeed.core.sequences import ExplicitBlocks
        >>> blocks = ExplicitBlocks(range(0, 1001, 50))
        >>> order = EpochOrder(blocks, seed=1, epoch=0, name="web", shuffle=Shuffle(),
        ...                    num_lanes=4, window=60)
        >>> units = order.at(range(1000))
        >>> sorted(units.tolist()) == list(range(1000))
        True
        >>> order.positions(units[[3, 7]]).tolist()
        [3, 7]
    """

    def __init__(
        self,
        blocks: Blocks,
        *,
        seed: KeyPart,
        epoch: int,
        name: str,
        shuffle: Shuffle,
        num_lanes: int,
        window: int,
        most_held: int = MOST_HELD,
    ) -> None:
        if blocks.num_sequences * shuffle.passes >= 1 << 62:
            raise InvalidArgumentError(
                f"{blocks.num_sequences} units in {shuffle.passes} passes are too "
                "many: their product must be below 2**62"
            )
        key = derive_key(seed, epoch, name)
        sequence = make_list(blocks, shuffle, derive_key(key, "sequence"))
        self._sequence = sequence
        self.lanes = Lanes(num_units=blocks.num_sequences, num_lanes=num_lanes)
        delay = max(window, 1) if shuffle.delayed else 1
        # Without a window or blocks every position is found on its own.
        self._direct: SingleList | None = None
        if delay == 1 and isinstance(sequence, SingleList):
            self._direct = sequence
        self._window = DelayWindow(self.lanes, delay, derive_key(key, "window"))
        self._reader = LaneReader(self._window, self._sequence, most_held)

    def begin(self) -> Iterator[None]:
        """Make the sums over blocks, in short steps; otherwise the first use does."""
        return self._sequence.prepare()

    @property
    def num_units(self) -> int:
        """Units, and so positions, of the epoch."""
        return self.lanes.num_units

    def reading(self, positions: ArrayLike) -> Generator[None, None, Int64Array]:
        """Find the units at positions, in steps of a few milliseconds at most.

        Returns:
            int64 [len(positions)].
        """
        if self._direct is not None:
            checked = checked_indices(positions, self.num_units, "position").ravel()
            return self._direct.at(self.lanes.join(checked))
        span = self._span(positions)
        if span is not None:
            return (yield from self._progression(span))
        return (yield from self._scattered(np.asarray(positions, np.int64).ravel()))

    def positions(self, units: ArrayLike) -> Int64Array:
        """Return the positions of units: int64 [len(units)]."""
        checked = checked_indices(units, self.num_units, "unit").ravel()
        lane, at = self.lanes.split(self._sequence.indices(checked))
        order = np.argsort(lane, kind="stable")
        borders = np.flatnonzero(np.diff(lane[order])) + 1
        for group in np.split(order, borders):
            if len(group):
                at[group] = self._window.places(int(lane[group[0]]), at[group])
        return at * self.lanes.num_lanes + lane

    def _span(self, positions: ArrayLike) -> range | None:
        """Check positions.

        Return them as a range if they are consecutive, else None.
        """
        if isinstance(positions, range):
            if positions:
                ends = [positions[0], positions[-1]]
                checked_indices(ends, self.num_units, "position")
            return positions if positions.step > 0 else None
        return _as_range(checked_indices(positions, self.num_units, "position").ravel())

    def _turns(self, positions: range) -> list[tuple[int, range]]:
        """Return the lanes that evenly spaced positions visit in turn, and where."""
        num_lanes = self.lanes.num_lanes
        num_turns = num_lanes // math.gcd(positions.step, num_lanes)
        stride = num_turns * positions.step // num_lanes
        rounds, rest = divmod(len(positions), num_turns)
        turns = []
        for turn, position in enumerate(positions[:num_turns]):
            in_lane, lane = divmod(position, num_lanes)
            end = in_lane + (rounds + (turn < rest)) * stride
            turns.append((lane, range(in_lane, end, stride)))
        return turns

    def _progression(self, positions: range) -> Generator[None, None, Int64Array]:
        """Read evenly spaced positions, as many at a time as lanes are read ahead."""
        units = np.empty(len(positions), dtype=np.int64)
        at_once = max(1, self._reader.read_ahead * self.lanes.num_lanes)
        at_once = max(1, at_once // positions.step)
        for begin in range(0, len(positions), at_once):
            read_now = units[begin : begin + at_once]
            turns = self._turns(positions[begin : begin + at_once])
            yield from self._reader.prepare(turns)
            for turn, (lane, places) in enumerate(turns):
                self._reader.read(lane, places, read_now[turn :: len(turns)])
        return units

    def _scattered(self, positions: Int64Array) -> Generator[None, None, Int64Array]:
        """Read any positions: lane by lane, and each lane from front to back."""
        index, where = sorted_with_places(self.lanes.join(positions))
        lane, places = self.lanes.split(index)
        begins = np.flatnonzero(np.diff(lane, prepend=-1))
        ends = np.append(begins[1:], len(lane))[: len(begins)]
        lanes, first = lane[begins].tolist(), places[begins]
        last = places[ends - 1]
        # If only few places are wanted, most of a long stretch would be wasted.
        last = np.where(last - first < SPARSE * (ends - begins), last, first)
        turns = map(range, first.tolist(), (last + 1).tolist())
        yield from self._reader.prepare(zip(lanes, turns, strict=True))
        rising, units = np.empty((2, len(positions)), dtype=np.int64)
        for lane_read, begin, end in zip(
            lanes, begins.tolist(), ends.tolist(), strict=True
        ):
            self._reader.read(lane_read, places[begin:end], rising[begin:end])
        units[where] = rising
        return units


def _as_range(positions: Int64Array) -> range | None:
    """Return the positions as a range if they are consecutive, else None."""
    if not len(positions):
        return None
    step = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    if step < 1 or np.any(np.diff(positions) != step):
        return None
    return range(int(positions[0]), int(positions[-1]) + 1, step)
