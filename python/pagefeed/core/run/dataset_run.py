"""The run of one dataset, epoch after epoch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import Dataset, identity_of_data, what_changed
from pagefeed.core.order import Ordered
from pagefeed.core.run.dataset_order import DatasetOrder
from pagefeed.core.run.delivered import Sequences
from pagefeed.core.run.route import RunPosition
from pagefeed.core.run.run import Cursor, Positions, Run, SequencesOf
from pagefeed.core.run.state import Grown, LoaderState
from pagefeed.core.sequences import Cut, SequenceIndex
from pagefeed.core.wiring import rest_of_run
from pagefeed.errors import InvalidArgumentError, StateMismatchError


@dataclass(eq=False)
class DatasetCursor(Cursor):
    """A position in the run of a dataset; positions count on through all epochs."""

    run: DatasetRun

    @property
    def start(self) -> int:
        """The position of ``begin``."""
        return self._first(self.begin.epoch) + self.begin.position

    @property
    def end(self) -> int | None:
        """One past the last position; None: without end."""
        if self.run.epochs is None:
            return None
        return self._first(self.begin.first_epoch + self.run.epochs)

    @property
    def epoch_positions(self) -> float:
        """Sequences of an epoch."""
        return self.run.num_sequences

    @property
    def num_tokens_before(self) -> int:
        """Tokens before ``begin``, from the mean tokens of a sequence."""
        tokens = sum(index.num_delivered_tokens for index in self.run.indexes)
        return self.start * tokens // self.run.num_sequences

    def stats(self) -> dict[str, float]:
        """Return no counters: they are for mixtures."""
        return {}

    def horizon(self, memory: int) -> int:
        """Return how many sequences to plan, so that few pages are read twice."""
        num_ranks = self.route.world_size
        return self.run.orders.ahead(self.begin, memory, num_ranks) // num_ranks

    def at(self, positions: Positions) -> Iterator[Sequences | None]:
        """Yield the sequences at rising positions, in parts.

        Yields None between other steps of work.
        """
        # Epoch by epoch: only two orders are kept, also of short epochs.
        while len(positions):
            epoch = self._epoch_of(RunPosition(int(positions[0])))
            first = self._first(epoch)
            count = bisect_left(positions, self._first(epoch + 1))
            taken, positions = positions[:count], positions[count:]
            now: Positions
            if isinstance(taken, range):
                now = range(taken.start - first, taken.stop - first, taken.step)
            else:
                now = taken - first
            sequences = yield from self._order(epoch).reading(now)
            yield self._numbered(self._parts(epoch)[0], sequences, epoch)

    def positions(self, sequences_of: SequencesOf, now: int) -> Int64Array:
        """Return the positions of sequences in the epoch of position ``now``: int64."""
        epoch = self._epoch_of(RunPosition(now))
        parts, first = self._parts(epoch), self.run.index.first_sequence
        places = [np.empty(0, dtype=np.int64)]
        for dataset, sequences in sequences_of:
            if dataset in parts:
                local = first[dataset] - first[parts[0]] + sequences
                places.append(self._order(epoch).positions(local))
        return self._first(epoch) + np.concatenate(places)

    def lanes_of(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the lane of each position, and the number of lanes: int64 each."""
        local, num_lanes = np.empty((2, len(positions)), dtype=np.int64)
        epochs = [self._epoch_of(position) for position in positions.tolist()]
        for epoch in set(epochs):
            which = np.equal(epochs, epoch)
            local[which] = positions[which] - self._first(epoch)
            num_lanes[which] = self._lanes(epoch)[0]
        return local % num_lanes, num_lanes

    def _prepare_epoch_after(self, position: RunPosition) -> Iterator[None]:
        epoch, end = self._epoch_of(position) + 1, self.end
        if end is None or self._first(epoch) < end:
            yield from self._order(epoch).begin()

    def _moved(self, state: LoaderState, position: RunPosition) -> LoaderState:
        epoch = self._epoch_of(position)
        lanes, ranks = self._lanes(epoch)
        # A state of a later epoch does not record the lanes and ranks of this epoch.
        # If these are not the usual ones, earlier steps cannot be computed.
        is_usual = (state.num_lanes, state.ranks) == (lanes, ranks)
        return replace(
            state,
            epoch=epoch,
            position=position - self._first(epoch),
            num_lanes=lanes,
            ranks=ranks,
            sizes=state.sizes if is_usual else None,
        )

    def _first(self, epoch: int) -> RunPosition:
        """The first position of an epoch."""
        return RunPosition(epoch * self.run.num_sequences)

    def _epoch_of(self, position: RunPosition) -> int:
        return position // self.run.num_sequences

    def _parts(self, epoch: int) -> range:  # noqa: ARG002 - they are the same in all
        """Numbers of the datasets whose sequences an epoch orders."""
        return range(len(self.run.datasets))

    def _order(self, epoch: int) -> Ordered:
        return self.run.orders.of(epoch, *self._lanes(epoch))

    def _lanes(self, epoch: int) -> tuple[int, int | None]:
        """Lanes of an epoch, and the ranks it is balanced for."""
        state = self.begin if epoch == self.begin.epoch else self.run.initial
        return state.num_lanes, state.ranks


@dataclass(kw_only=True, eq=False)
class DatasetRun(Run):
    """A run over one dataset: position p is ``p % n`` of epoch ``p // n``.

    n is the number of sequences of an epoch.

    Raises:
        InvalidArgumentError: If it holds no sequence.
    """

    _cursor: ClassVar[type[Cursor]] = DatasetCursor

    dataset: Dataset
    """The dataset."""

    def __post_init__(self) -> None:
        dataset, sequences = self.dataset, self.sequences
        index = sequences.index(dataset.spans)
        check_bound(index, dataset, repr(dataset), sequences)
        self._number([None], [dataset], [index])
        self.orders = DatasetOrder(run=self, dataset_number=0, seed=self.seed)
        """Makes the order of each epoch."""
        self.orders.check_window()
        data = identity_of_data(dataset)
        self.initial = self._initial_state(self.orders.num_lanes, data)

    def rest(self, state: LoaderState, grown: Grown | None) -> tuple[Run, LoaderState]:
        """Return this run, or a run of the earlier data, and the state in it."""
        if grown is None or not what_changed(state.dataset, self.initial.dataset):
            return self, self.accept(state)
        return rest_of_run(self, state, grown)

    def _adopt(self, state: LoaderState) -> LoaderState:
        state.check_run(self.initial)
        state.check_lanes(len(self.dataset.index))
        self._check_position(state)
        return state

    def _check_position(self, state: LoaderState) -> None:
        if state.position >= self.num_sequences:
            raise StateMismatchError(
                f"the state has position={state.position}, an epoch has "
                f"{self.num_sequences} sequences"
            )


def check_bound(
    index: SequenceIndex, dataset: Dataset, name: str, sequences: Cut
) -> None:
    """Refuse a dataset without a sequence.

    Args:
        index: Its sequences.
        dataset: The dataset.
        name: Name of the dataset in an error.
        sequences: The cut.

    Raises:
        InvalidArgumentError: If it holds none.
    """
    if index.num_sequences == 0:
        dataset.check_not_empty()
        raise InvalidArgumentError(
            f"{name} holds no sequence of {sequences!r}: it has "
            f"{dataset.spans.num_values} tokens in {dataset.spans.num_rows} rows"
        )
