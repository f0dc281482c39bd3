"""From steps to plans: which token ranges go to which rows of which batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.order import Order
from pagefeed.arrays import Int64Array
from pagefeed.sequences import Units

__all__ = ["BatchPlan", "Planner", "Route"]

NO_UNIT = -1


class BatchPlan(NamedTuple):
    """What the engine takes: segments of consecutive batches, sorted by batch."""

    batch_offsets: npt.NDArray[np.uint32]
    page: npt.NDArray[np.uint64]
    row: npt.NDArray[np.uint32]
    first_token: npt.NDArray[np.uint32]
    num_tokens: npt.NDArray[np.uint32]
    destination_row: npt.NDArray[np.uint32]
    destination_offset: npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True)
class Route:
    """The way of one rank through the epochs of one iteration.

    Units are counted through all epochs: ``position`` p is place ``p % num_units`` of
    epoch ``p // num_units``. Step s is the positions
    ``start + (s * batch_size + j) * world_size + rank``, j below ``batch_size``. Of
    ``num_workers`` processes that share a rank's steps, each takes every
    ``num_workers``-th; the k-th of this one is step ``k * num_workers + worker``.
    """

    start: int
    """First position of step 0."""
    end: int | None
    """One past the last position of the iteration; None: without end."""
    batch_size: int
    """Units of a step on one rank."""
    rank: int
    """This rank."""
    world_size: int
    """Number of ranks."""
    drop_last: bool
    """Leave the last, incomplete step out."""
    worker: int = 0
    """This process among those that share the rank's steps."""
    num_workers: int = 1
    """How many share them."""

    @property
    def step_units(self) -> int:
        """Units of a step on all ranks."""
        return self.batch_size * self.world_size

    @property
    def num_steps(self) -> int | None:
        """Steps to the end, equal on all ranks."""
        if self.end is None:
            return None
        steps, rest = divmod(self.end - self.start, self.step_units)
        return steps + (rest > 0 and not self.drop_last)

    @property
    def num_taken_here(self) -> int | None:
        """Those of them that this process takes."""
        steps = self.num_steps
        return (
            None if steps is None else len(range(self.worker, steps, self.num_workers))
        )

    def positions(self, first: int, count: int) -> Int64Array:
        """Return the positions of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size].
        """
        step = np.arange(first, first + count) * self.num_workers + self.worker
        place = np.arange(self.batch_size) * self.world_size + self.rank
        return (self.start + step[:, None] * self.step_units + place).reshape(-1)

    def position_after(self, num_taken: int) -> int:
        """Return where a process that took so many steps continues."""
        consumed = self.start + num_taken * self.num_workers * self.step_units
        return consumed if self.end is None else min(consumed, self.end)


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
        self._route = route

    def units(self, first: int, count: int) -> Int64Array:
        """Return the units of this process's steps ``first .. first + count``.

        Returns:
            int64 [count * batch_size]; ``NO_UNIT`` past the end of the iteration.
        """
        positions = self._route.positions(first, count)
        num_units, end = self._units.num_units, self._route.end
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
        batch_size = self._route.batch_size
        units = self.units(first, count)
        places = np.flatnonzero(units != NO_UNIT)
        segments = self._units.segments(units[places])
        place = places[segments.unit]
        borders = np.arange(count + 1) * batch_size
        return BatchPlan(
            batch_offsets=np.searchsorted(place, borders).astype(np.uint32),
            page=segments.page.astype(np.uint64),
            row=segments.row.astype(np.uint32),
            first_token=segments.first_token.astype(np.uint32),
            num_tokens=segments.num_tokens.astype(np.uint32),
            destination_row=(place % batch_size).astype(np.uint32),
            destination_offset=segments.offset.astype(np.uint32),
        )
