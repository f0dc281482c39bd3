"""The run of one dataset, epoch after epoch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset, identity_of_data
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.order import Ordered
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.run import Cursor, Positions, Run, SequencesOf
from pagefeed.run.state import LoaderState
from pagefeed.sequences import (
    Cut,
    SequenceIndex,
)

__all__ = ["DatasetCursor", "DatasetRun", "check_bound"]


@dataclass(eq=False)
class DatasetCursor(Cursor):
    """A place of the run of a dataset. Positions count through all epochs."""

    run: DatasetRun

    @property
    def start(self) -> int:
        """The position of ``begin``."""
        return self.begin.epoch * self.run.num_sequences + self.begin.position

    @property
    def end(self) -> int | None:
        """One past the last position; None: without end."""
        if self.run.epochs is None:
            return None
        return (self.begin.first_epoch + self.run.epochs) * self.run.num_sequences

    @property
    def epoch_positions(self) -> float:
        """Sequences of an epoch."""
        return self.run.num_sequences

    @property
    def num_tokens_before(self) -> int:
        """Tokens of the epochs and sequences before ``begin``, by the mean."""
        tokens = sum(index.num_delivered_tokens for index in self.run.indexes)
        return self.start * tokens // self.run.num_sequences

    def stats(self) -> dict[str, float]:
        """Return nothing: there is one dataset."""
        return {}

    def horizon(self, memory: int) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well."""
        return self.run.orders.ahead(self.begin, memory) // self.run.world_size

    def at(self, positions: Positions) -> Iterator[Int64Array | None]:
        """Yield the sequences at rising positions, in parts; None after other work."""
        # One epoch after another: of short ones only two orders are kept.
        size = self.run.num_sequences
        while len(positions):
            epoch = int(positions[0]) // size
            first = epoch * size
            count = bisect_left(positions, first + size)
            part, positions = positions[:count], positions[count:]
            now: Positions
            if isinstance(part, range):
                now = range(part.start - first, part.stop - first, part.step)
            else:
                now = part - first
            found = yield from self._order(epoch).reading(now)
            yield self._numbered(0, found, epoch)

    def positions(self, found: SequencesOf, now: int) -> Int64Array:
        """Return the positions of sequences in the epoch of position ``now``: int64."""
        epoch = now // self.run.num_sequences
        places, first = [np.empty(0, dtype=np.int64)], self.run.index.first_sequence
        for number, sequences in found:
            places.append(self._order(epoch).positions(first[number] + sequences))
        return epoch * self.run.num_sequences + np.concatenate(places)

    def _prepare_epoch_after(self, position: int) -> Iterator[None]:
        epoch, end = position // self.run.num_sequences + 1, self.end
        if end is None or epoch * self.run.num_sequences < end:
            yield from self._order(epoch).begin()

    def _moved(self, state: LoaderState, position: int) -> LoaderState:
        epoch, place = divmod(position, self.run.num_sequences)
        lanes, ranks = self._lanes(epoch)
        # A state of a later epoch does not tell the lanes and ranks of this one. Unless
        # these are the usual ones, nobody can look back.
        is_usual = (state.num_lanes, state.ranks) == (lanes, ranks)
        return replace(
            state,
            epoch=epoch,
            position=place,
            num_lanes=lanes,
            ranks=ranks,
            sizes=state.sizes if is_usual else None,
        )

    def _order(self, epoch: int) -> Ordered:
        return self.run.orders.of(epoch, *self._lanes(epoch))

    def _lanes(self, epoch: int) -> tuple[int, int | None]:
        """Lanes of an epoch, and ranks it balances: of the state, or chosen anew."""
        state = self.begin if epoch == self.begin.epoch else self.run.initial
        return state.num_lanes, state.ranks


@dataclass(kw_only=True, eq=False)
class DatasetRun(Run):
    """One dataset: position p is place ``p % n`` of epoch ``p // n``, n sequences each.

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
        self.orders = DatasetOrder(run=self, number=0, seed=self.seed)
        """The order of each epoch."""
        self.orders.check_window()
        data = identity_of_data(dataset)
        self.initial = self._initial_state(self.orders.num_lanes, data)

    def _adopt(self, state: LoaderState) -> LoaderState:
        state.check_run(self.initial)
        state.check_lanes(len(self.dataset.index))
        if state.grown:
            raise StateMismatchError(
                "data were added in the epoch of the state: it loads into a loader of "
                "one dataset with epochs=1"
            )
        if state.position >= self.num_sequences:
            raise StateMismatchError(
                f"the state has position={state.position}, an epoch has "
                f"{self.num_sequences} sequences"
            )
        return state


def check_bound(
    index: SequenceIndex, dataset: Dataset, name: str, sequences: Cut
) -> None:
    """Refuse a dataset without a sequence.

    Args:
        index: Its sequences.
        dataset: The dataset.
        name: What to call it in an error.
        sequences: How it was cut.

    Raises:
        InvalidArgumentError: If it holds none.
    """
    if index.num_sequences == 0:
        dataset.check_not_empty()
        raise InvalidArgumentError(
            f"{name} holds no sequence of {sequences!r}: it has "
            f"{dataset.spans.num_values} tokens in {dataset.spans.num_rows} rows"
        )
