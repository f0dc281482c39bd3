"""From steps to plans: which token ranges go to which rows of which batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.arrays import Int64Array
from pagefeed.errors import InvalidArgumentError
from pagefeed.order import Order
from pagefeed.route import Route
from pagefeed.sequences import Units

__all__ = ["NO_UNIT", "BatchPlan", "Planner", "plan_batches", "unit_of_slot"]

NO_UNIT = -1
"""Stands for a row of padding."""

PIECE_UNITS = 2048
"""Units of a piece of a plan: few enough for a fraction of a millisecond."""


class BatchPlan(NamedTuple):
    """What the engine takes: segments of consecutive batches, sorted by batch."""

    batch_offsets: npt.NDArray[np.uint32]
    page: npt.NDArray[np.uint64]
    row: npt.NDArray[np.uint32]
    first_token: npt.NDArray[np.uint32]
    num_tokens: npt.NDArray[np.uint32]
    destination_row: npt.NDArray[np.uint32]
    destination_offset: npt.NDArray[np.uint32]


class Planner:
    """Plans the batches of a route.

    Args:
        units: The dataset, cut.
        order_of: The order of an epoch.
        route: The way through the epochs.
    """

    def __init__(
        self, units: Units, order_of: Callable[[int], Order], route: Route
    ) -> None:
        self._units = units
        self._order_of = order_of
        self.route = route
        """The way through the epochs."""

    def units(self, first: int, count: int) -> Int64Array:
        """Return the units of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size]; ``NO_UNIT`` past the end of the iteration.
        """
        units = np.full(count * self.route.batch_size, NO_UNIT)
        for order, place, positions in self._by_epoch(first, count):
            units[place : place + len(positions)] = order.units(positions)
        return units

    def _by_epoch(
        self, first: int, count: int
    ) -> Iterator[tuple[Order, int, Int64Array]]:
        """The order of each epoch, the first place in it, and positions from there."""
        positions = self.route.positions(first, count)
        num_units, end = self._units.num_units, self.route.end
        inside = len(positions)
        if end is not None:
            inside = int(np.searchsorted(positions, end))
        done = 0
        while done < inside:
            epoch = int(positions[done]) // num_units
            begin = epoch * num_units
            stop = min(inside, int(np.searchsorted(positions, begin + num_units)))
            yield self._order_of(epoch), done, positions[done:stop] - begin
            done = stop

    def plan(self, first: int, count: int) -> BatchPlan:
        """Return the plan of this process's steps ``first .. first + count``."""
        units = self.units(first, count)
        return plan_batches(self._units, units, self.route.batch_size)

    def begin_next_epoch(self, step: int) -> Iterator[None]:
        """Prepare the epoch after the one that a step begins in, in short steps.

        An epoch of very many blocks takes a pass over them before its first batch.
        """
        epoch = self.route.position_after(step) // self._units.num_units + 1
        end = self.route.end
        if end is None or epoch * self._units.num_units < end:
            yield from self._order_of(epoch).begin()

    def pieces(self, first: int, count: int) -> Iterator[BatchPlan | None]:
        """Return the same plan in pieces, so that no piece takes long to make.

        Yields:
            The plan of the next few steps; None when there was other work to do.
        """
        for order, _, positions in self._by_epoch(first, count):
            for _ in order.prepare(positions):
                yield None
        units = self.units(first, count)
        yield None
        batch_size = self.route.batch_size
        at_once = max(1, PIECE_UNITS // batch_size) * batch_size
        for begin in range(0, len(units), at_once):
            part = units[begin : begin + at_once]
            yield plan_batches(self._units, part, batch_size)


def plan_batches(cut: Units, units: Int64Array, batch_size: int) -> BatchPlan:
    """Plan batches of the ``units`` of a dataset, in their order.

    Args:
        cut: The dataset, cut.
        units: int64 [batches * batch_size]; ``NO_UNIT`` leaves a row of padding.
        batch_size: Rows of a batch.
    """
    is_unit = units != NO_UNIT
    if is_unit.all():
        segments = cut.segments(units)
        place = segments.unit
    else:
        places = np.flatnonzero(is_unit)
        segments = cut.segments(units[places])
        place = places[segments.unit]
    borders = np.arange(0, len(units) + 1, batch_size)
    return BatchPlan(
        batch_offsets=np.searchsorted(place, borders).astype(np.uint32),
        page=segments.page.astype(np.uint64),
        row=segments.row.astype(np.uint32),
        first_token=segments.first_token.astype(np.uint32),
        num_tokens=segments.num_tokens.astype(np.uint32),
        destination_row=(place % batch_size).astype(np.uint32),
        destination_offset=segments.offset.astype(np.uint32),
    )


def unit_of_slot(planner: Planner, step: int, row: int) -> int:
    """Return the unit that a row of this rank's batches holds.

    Raises:
        InvalidArgumentError: If there is none: no such step or row, or padding.
    """
    route = planner.route
    index = route.checked_index(step)
    if not 0 <= row < route.batch_size:
        raise InvalidArgumentError(f"row={row} must lie below {route.batch_size}")
    if route.number_of(index) != step:
        raise InvalidArgumentError(f"step={step} is skipped")
    unit = int(planner.units(index, 1)[row])
    if unit == NO_UNIT:
        raise InvalidArgumentError(f"step={step}, row={row} is padding")
    return unit
