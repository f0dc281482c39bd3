"""A run: what does not change while it iterates, and the states and routes it makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pagefeed.order import Order
from pagefeed.orders import Orders
from pagefeed.planner import Planner
from pagefeed.route import Route
from pagefeed.sequences import Units
from pagefeed.state import LoaderState

__all__ = ["Run"]

MAX_HORIZON = 1 << 17
"""Units planned ahead at most where there are no blocks: 50 bytes of plan each."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The sizes of a run on this rank, and the orders of its epochs.

    Where a run stands is told by the state from which it iterates: its ``begin``.
    """

    units: Units
    """The dataset, cut."""
    orders: Orders
    """The orders of the epochs."""
    batch_size: int
    """Units of a step on one rank."""
    rank: int
    """This rank."""
    world_size: int
    """Number of ranks."""
    epochs: int | None
    """Epochs of an iteration; None never ends."""
    drop_last: bool
    """Leave the last, incomplete step of an iteration out."""
    plan: LoaderState
    """The beginning of epoch 0."""

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration from this epoch on begins."""
        return replace(self.plan, epoch=epoch, first_epoch=epoch)

    def after(self, begin: LoaderState) -> LoaderState:
        """Return the state in which the iteration after this one begins."""
        return self.beginning(begin.first_epoch + (self.epochs or 0))

    def state_at(self, begin: LoaderState, position: int, step: int) -> LoaderState:
        """Return the state at a position counted through all epochs."""
        epoch, within = divmod(position, self.units.num_units)
        lanes = self.num_lanes(begin, epoch)
        # Beyond its epoch the lanes of a state are forgotten: all must be as usual.
        is_usual = epoch == begin.epoch or begin.num_lanes == lanes
        known = is_usual and self.has_one_size(begin)
        return replace(
            begin,
            epoch=epoch,
            position=within,
            step=step,
            num_lanes=lanes,
            sizes=self._sizes if known else None,
        )

    def route(self, begin: LoaderState) -> Route:
        """Return the way from a state to the end of its iteration."""
        num_units, end = self.units.num_units, None
        if self.epochs is not None:
            end = (begin.first_epoch + self.epochs) * num_units
        return Route(
            start=begin.epoch * num_units + begin.position,
            end=end,
            batch_size=self.batch_size,
            rank=self.rank,
            world_size=self.world_size,
            drop_last=self.drop_last,
            first_step=begin.step,
            skipped=begin.skipped,
        )

    def known_route(self, begin: LoaderState) -> Route:
        """Return the way from the first step that is known to have had these sizes."""
        if not self.has_one_size(begin):
            return self.route(begin)
        return self.route(replace(begin, epoch=begin.first_epoch, position=0, step=0))

    def has_one_size(self, begin: LoaderState) -> bool:
        """Whether all steps of this iteration had this run's sizes."""
        return begin.step == 0 or begin.sizes == self._sizes

    def planner(self, begin: LoaderState, route: Route) -> Planner:
        """Return what plans the batches of a route."""
        return Planner(self.units, lambda epoch: self.order(begin, epoch), route)

    def order(self, begin: LoaderState, epoch: int) -> Order:
        """Return the order of an epoch."""
        return self.orders.of(epoch, self.num_lanes(begin, epoch))

    @property
    def is_scattered(self) -> bool:
        """Whether a page's units are anywhere, so that it is read for each of them."""
        return self.orders.is_scattered

    def num_lanes(self, begin: LoaderState, epoch: int) -> int:
        """Lanes of an epoch: those the state names, chosen anew for other epochs."""
        return begin.num_lanes if epoch == begin.epoch else self.orders.num_lanes

    def horizon_units(self, begin: LoaderState, memory: int) -> int:
        """Return how many units of this rank to plan ahead, to use each page well.

        With blocks that is from the first to the last use of a page. Without them the
        uses of a page are anywhere: then it pays to know those of twice as many pages
        as fit into ``memory`` bytes.
        """
        if self.is_scattered:
            held = int(memory / max(1.0, self.orders.page_bytes))
            most = min(self.units.num_units // self.world_size, MAX_HORIZON)
            return min(2 * held, most)
        window = self.orders.window(begin.num_lanes)
        return 2 * window * begin.num_lanes // self.world_size

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.batch_size, self.world_size
