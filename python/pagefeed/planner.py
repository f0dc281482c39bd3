"""From steps to plans: which token ranges go to which rows of which batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed.arrays import Int64Array
from pagefeed.errors import InvalidArgumentError
from pagefeed.route import Route
from pagefeed.sequences import Segments

__all__ = ["NO_UNIT", "BatchPlan", "Cut", "Planner", "plan_batches", "unit_of_slot"]

NO_UNIT = -1
"""Stands for a row of padding."""


class Cut(Protocol):
    """Units of one dataset or of several."""

    @property
    def num_units(self) -> int:
        """Number of units."""

    @property
    def length(self) -> int:
        """Tokens of a unit, padding included."""

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens that are in no unit."""

    def segments(self, units: Int64Array) -> Segments:
        """Return the token ranges of ``units``."""


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
        deliver: The units at rising positions.
        route: The way through them.
        plan_units: Plans whole batches of units.
    """

    def __init__(
        self,
        deliver: Callable[[Int64Array], Int64Array],
        route: Route,
        plan_units: Callable[[Int64Array], tuple[Any, ...]],
    ) -> None:
        self._deliver = deliver
        self._plan_units = plan_units
        self.route = route
        """The way through the positions."""

    def units(self, first: int, count: int) -> Int64Array:
        """Return the units of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size]; ``NO_UNIT`` past the end of the iteration.
        """
        positions = self.route.positions(first, count)
        units = np.full(len(positions), NO_UNIT)
        inside = len(positions)
        if self.route.end is not None:
            inside = int(np.searchsorted(positions, self.route.end))
        units[:inside] = self._deliver(positions[:inside])
        return units

    def plan(self, first: int, count: int) -> tuple[Any, ...]:
        """Return the plan of this process's steps ``first .. first + count``."""
        return self._plan_units(self.units(first, count))


def plan_batches(cut: Cut, units: Int64Array, batch_size: int) -> BatchPlan:
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
