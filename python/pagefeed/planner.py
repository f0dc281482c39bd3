"""From steps to plans: which token ranges go to which rows of which batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.arrays import Int64Array
from pagefeed.errors import InvalidArgumentError
from pagefeed.order import Order
from pagefeed.route import Route
from pagefeed.sequences import Segments, Units

__all__ = ["NO_UNIT", "BatchPlan", "Planner", "plan_batches", "unit_of_slot"]

NO_UNIT = -1
"""Stands for a row of padding."""


class BatchPlan(NamedTuple):
    """What the engine takes: segments of consecutive batches, sorted by batch."""

    batch_offsets: npt.NDArray[np.uint32]
    page: npt.NDArray[np.uint64]
    row: npt.NDArray[np.uint32]
    first_token: npt.NDArray[np.uint32]
    num_tokens: npt.NDArray[np.uint32]
    destination_row: npt.NDArray[np.uint32]
    destination_offset: npt.NDArray[np.uint32]
    bundles: tuple[npt.NDArray[Any], ...] | None = None
    """The bundles that ``page`` refers to, as the engine takes them."""


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
        positions = self.route.positions(first, count)
        num_units, end = self._units.num_units, self.route.end
        units = np.full(len(positions), NO_UNIT)
        inside = len(positions)
        if end is not None:
            inside = int(np.searchsorted(positions, end))
        done = 0
        while done < inside:
            epoch = int(positions[done]) // num_units
            begin = epoch * num_units
            stop = min(inside, int(np.searchsorted(positions, begin + num_units)))
            local = positions[done:stop] - begin
            units[done:stop] = self._order_of(epoch).units(local)
            done = stop
        return units

    def plan(self, first: int, count: int) -> BatchPlan:
        """Return the plan of this process's steps ``first .. first + count``."""
        units = self.units(first, count)
        return plan_batches(self._units, units, self.route.batch_size)


def plan_batches(cut: Units, units: Int64Array, batch_size: int) -> BatchPlan:
    """Plan batches of the ``units`` of a dataset, in their order.

    Args:
        cut: The dataset, cut.
        units: int64 [batches * batch_size]; ``NO_UNIT`` leaves a row of padding.
        batch_size: Rows of a batch.
    """
    places = np.flatnonzero(units != NO_UNIT)
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
        bundles=_bundles(cut, segments),
    )


def _bundles(cut: Units, segments: Segments) -> tuple[npt.NDArray[Any], ...] | None:
    """Return the bundles of the segments, None if there are no such."""
    if cut.layout.packing is None:
        return None
    bundles = cut.bundles(np.unique(segments.page))
    wide = {"key", "part_page"}
    return tuple(
        part.astype(np.uint64 if name in wide else np.uint32)
        for name, part in bundles._asdict().items()
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
