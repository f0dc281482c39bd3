"""What a run delivers: one dataset, epoch after epoch, or a mixture of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np

from pagefeed.arrays import Int64Array
from pagefeed.damage import units_of_damage
from pagefeed.dataset import ParquetDataset
from pagefeed.errors import InvalidArgumentError, PagefeedError, StateMismatchError
from pagefeed.order import Order, Shuffle
from pagefeed.orders import Orders
from pagefeed.provenance import Source, number_of_row, sources_of_unit
from pagefeed.sequences import Cut, Sequences, Units
from pagefeed.state import LoaderState

__all__ = ["EpochSupply", "Held", "Supply", "bind_checked"]

Held: TypeAlias = Sequence[tuple[int, Int64Array]]
"""Units of datasets: the number of each dataset, and those of its units."""

MAX_HORIZON = 1 << 17
"""Units planned ahead at most where there are no blocks: 50 bytes of plan each."""


class Supply(Protocol):
    """Positions of an iteration to units, the same at any number of ranks.

    Positions are counted as the supply likes; where an iteration begins and ends is
    told by the state from which it iterates: its ``begin``.
    """

    @property
    def cut(self) -> Cut:
        """What the units are."""

    @property
    def datasets(self) -> Sequence[ParquetDataset]:
        """What they are cut from, in the order in which pages are numbered through."""

    @property
    def plan(self) -> LoaderState:
        """The beginning of epoch 0."""

    def start(self, begin: LoaderState) -> int:
        """Return the position of ``begin``."""

    def end(
        self, begin: LoaderState, epochs: int | None, step_units: int
    ) -> int | None:
        """Return one past the last position; None: without end."""

    def state_at(self, begin: LoaderState, position: int) -> LoaderState:
        """Return the state at a position."""

    def deliver(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[Int64Array | None]:
        """Yield the units at rising positions, in parts, and None after other work.

        No step takes more than a few milliseconds.
        """

    def begin_next_epoch(
        self, begin: LoaderState, position: int, end: int | None
    ) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""

    @property
    def is_scattered(self) -> bool:
        """Whether a page's units are anywhere, so that it is read for each of them."""

    def document_units(self, file: str, row: int) -> Held:
        """Return the units with tokens of a document."""

    def damaged_units(self, error: PagefeedError) -> Held:
        """Return the units with tokens of what an error about data names."""

    def positions(
        self, begin: LoaderState, now: LoaderState, end: int | None, held: Held
    ) -> Int64Array:
        """Return the positions of units in the epoch of ``now``: int64."""

    def sources(self, unit: int) -> list[Source]:
        """Return where the tokens of a unit come from."""

    def accept(
        self, state: LoaderState, begin: LoaderState, step_units: int
    ) -> LoaderState:
        """Return a saved state as this run continues it.

        Raises:
            StateMismatchError: If it belongs to another run than that of ``begin``.
        """

    def horizon_units(self, begin: LoaderState, memory: int, world_size: int) -> int:
        """Return how many units of a rank to plan ahead, to use each page well."""

    def stats(self, state: LoaderState) -> dict[str, float]:
        """Return counters of what was delivered before a state."""


class EpochSupply:
    """One dataset: position p is place ``p % num_units`` of epoch ``p // num_units``.

    Args:
        dataset: The dataset.
        sequences: How to cut it.
        seed: Seed of the run.
        shuffle: How to shuffle it.
        world_size: Number of ranks.

    Raises:
        InvalidArgumentError: If it holds no sequence.
    """

    def __init__(
        self,
        dataset: ParquetDataset,
        *,
        sequences: Sequences,
        seed: int,
        shuffle: Shuffle,
        world_size: int,
    ) -> None:
        self.dataset = dataset
        self.cut: Units = bind_checked(sequences, dataset, repr(dataset))
        self.orders = Orders(
            dataset,
            fingerprint=f"{dataset.fingerprint} {sequences.identity}",
            units=self.cut,
            seed=seed,
            shuffle=shuffle,
            world_size=world_size,
        )
        self.plan = LoaderState(
            num_lanes=self.orders.num_lanes,
            seed=seed,
            dataset=dataset.fingerprint,
            sequences=sequences.identity,
            shuffle=shuffle.identity,
        )

    @property
    def datasets(self) -> Sequence[ParquetDataset]:
        """The dataset alone."""
        return [self.dataset]

    @property
    def num_units(self) -> int:
        """Units of an epoch."""
        return self.cut.num_units

    def start(self, begin: LoaderState) -> int:
        """Return the position of ``begin``, counted through all epochs."""
        return begin.epoch * self.num_units + begin.position

    def end(
        self,
        begin: LoaderState,
        epochs: int | None,
        step_units: int,  # noqa: ARG002 - an epoch does not count steps
    ) -> int | None:
        """Return one past the last position; None: without end."""
        if epochs is None:
            return None
        return (begin.first_epoch + epochs) * self.num_units

    def state_at(self, begin: LoaderState, position: int) -> LoaderState:
        """Return the state at a position."""
        epoch, within = divmod(position, self.num_units)
        lanes = self.num_lanes(begin, epoch)
        # Beyond its epoch the lanes of a state are forgotten: all must be as usual.
        is_usual = epoch == begin.epoch or begin.num_lanes == lanes
        return replace(
            begin,
            epoch=epoch,
            position=within,
            num_lanes=lanes,
            sizes=begin.sizes if is_usual else None,
        )

    def deliver(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[Int64Array | None]:
        """Yield the units at rising positions, in parts, and None after other work."""
        # Epoch after epoch: of short ones only two orders are kept.
        for order, places in self._by_epoch(begin, positions):
            units = yield from order.reading(places)
            yield units

    def begin_next_epoch(
        self, begin: LoaderState, position: int, end: int | None
    ) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""
        epoch = position // self.num_units + 1
        if end is None or epoch * self.num_units < end:
            yield from self.orders.of(epoch, self.num_lanes(begin, epoch)).begin()

    @property
    def is_scattered(self) -> bool:
        """Whether a page's units are anywhere, so that it is read for each of them."""
        return self.orders.is_scattered

    def _by_epoch(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[tuple[Order, Int64Array]]:
        """The order of each epoch, and the places in it that positions are."""
        done = 0
        while done < len(positions):
            epoch = int(positions[done]) // self.num_units
            first = epoch * self.num_units
            stop = int(np.searchsorted(positions, first + self.num_units))
            order = self.orders.of(epoch, self.num_lanes(begin, epoch))
            yield order, positions[done:stop] - first
            done = stop

    def num_lanes(self, begin: LoaderState, epoch: int) -> int:
        """Lanes of an epoch: those the state names, chosen anew for other epochs."""
        return begin.num_lanes if epoch == begin.epoch else self.orders.num_lanes

    def document_units(self, file: str, row: int) -> Held:
        """Return the units with tokens of a document."""
        number = number_of_row(self.dataset.spans, file, row)
        return [] if number is None else [(0, self.cut.units_of_row(number))]

    def damaged_units(self, error: PagefeedError) -> Held:
        """Return the units with tokens of what an error about data names."""
        return [(0, units_of_damage(self.dataset, self.cut, error))]

    def positions(
        self,
        begin: LoaderState,
        now: LoaderState,
        end: int | None,  # noqa: ARG002 - an epoch has one
        held: Held,
    ) -> Int64Array:
        """Return the positions of units in the epoch of ``now``: int64."""
        found, epoch = [np.empty(0, dtype=np.int64)], now.epoch
        for _, units in held:
            order = self.orders.of(epoch, self.num_lanes(begin, epoch))
            found.append(epoch * self.num_units + order.positions(units))
        return np.concatenate(found)

    def sources(self, unit: int) -> list[Source]:
        """Return where the tokens of a unit come from."""
        return sources_of_unit(self.dataset.index, self.cut, unit)

    def accept(
        self,
        state: LoaderState,
        begin: LoaderState,
        step_units: int,  # noqa: ARG002 - nothing hangs on steps
    ) -> LoaderState:
        """Return a saved state as this run continues it."""
        state.check_plan(begin)
        state.check_lanes(len(self.dataset.index))
        if state.position >= self.num_units:
            raise StateMismatchError(
                f"the state has position={state.position}, an epoch has "
                f"{self.num_units} sequences"
            )
        return state

    def horizon_units(self, begin: LoaderState, memory: int, world_size: int) -> int:
        """Return how many units of a rank to plan ahead, to use each page well.

        With blocks that is from the first to the last use of a page. Without them the
        uses of a page are anywhere: then it pays to know those of twice as many pages
        as fit into ``memory`` bytes.
        """
        if self.orders.is_scattered:
            held = int(memory / max(1.0, self.orders.page_bytes))
            return min(2 * held, self.num_units // world_size, MAX_HORIZON)
        window = self.orders.window(begin.num_lanes)
        return 2 * window * begin.num_lanes // world_size

    def stats(
        self,
        state: LoaderState,  # noqa: ARG002 - it is all one dataset
    ) -> dict[str, float]:
        """Return nothing: there are no parts to tell apart."""
        return {}


def bind_checked(sequences: Sequences, dataset: ParquetDataset, name: str) -> Units:
    """Cut a dataset.

    Args:
        sequences: How.
        dataset: What.
        name: What to call it in an error.

    Raises:
        InvalidArgumentError: If it holds no sequence.
    """
    units = sequences.bind(dataset.spans)
    if units.num_units == 0:
        dataset.check_not_empty()
        raise InvalidArgumentError(
            f"{name} holds no sequence of {sequences!r}: it has "
            f"{dataset.spans.num_values} tokens in {dataset.spans.num_rows} rows"
        )
    return units
