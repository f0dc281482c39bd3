"""The rest of an epoch in which data were added: they are mixed into what is left."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import ClassVar

from pagefeed._base import Int64Array
from pagefeed.dataset import growth_parts
from pagefeed.errors import StateMismatchError
from pagefeed.order import GrownOrder, Ordered
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.dataset_run import DatasetCursor, DatasetRun
from pagefeed.run.erasures import Records
from pagefeed.run.run import Cursor, SequencesOf
from pagefeed.run.state import LoaderState
from pagefeed.sequences import JoinedIndex, cut_sequences

__all__ = ["GrownCursor", "GrownRun"]


@dataclass(eq=False)
class GrownCursor(DatasetCursor):
    """A place of the rest of an epoch."""

    run: GrownRun

    @property
    def num_tokens_before(self) -> int:
        """Tokens of the epochs and sequences before ``begin``, by the mean."""
        tokens = sum(index.num_delivered_tokens for index in self.run.indexes)
        return self.start * tokens // self.run.num_sequences

    def positions(self, found: SequencesOf, now: int) -> Int64Array:
        """Return the positions of sequences in the epoch of position ``now``: int64."""
        first = self.run.first_sequence
        numbered = [first[number] + sequences for number, sequences in found]
        return super().positions([(0, each) for each in numbered], now)

    def _moved(self, state: LoaderState, position: int) -> LoaderState:
        moved = super()._moved(state, position)
        if moved.epoch == self.begin.epoch:
            return moved
        # From the next epoch on all data are one dataset.
        whole = self.run.whole.initial
        return replace(
            moved,
            grown=(),
            sizes=None,
            num_lanes=whole.num_lanes,
            ranks=whole.ranks,
        )


@dataclass(kw_only=True, eq=False)
class GrownRun(DatasetRun):
    """The epoch of a state in which data were added, once or more often.

    Its first sequences are those of the data of before, in their order. From where the
    data grew on, what was added comes in between.

    Raises:
        StateMismatchError: If files of before are not there.
    """

    _cursor: ClassVar[type[Cursor]] = GrownCursor

    begun: LoaderState
    """A state of the epoch, with the growths."""
    whole: DatasetRun = field(init=False)
    """The run of the epochs behind."""

    def __post_init__(self) -> None:
        names = [each.name for each in fields(DatasetRun) if each.init]
        self.whole = DatasetRun(**{name: getattr(self, name) for name in names})
        parts = growth_parts(self.dataset, [record for record, _ in self.begun.grown])
        cut = [cut_sequences(self.sequences, part.spans) for part in parts]
        self.names = [None] * len(parts)
        self.datasets, self.indexes = parts, cut
        self.index = JoinedIndex(cut, [len(part.index) for part in parts])  # type: ignore[assignment]
        self.num_sequences = self.index.num_sequences
        if self.balance is not None:
            self.costs = self.balance.costs(self.index)
        self.orders = _Orders(self)
        self.initial = replace(
            self.whole.initial,
            num_lanes=self.begun.num_lanes,
            ranks=self.begun.ranks,
            grown=self.begun.grown,
        )

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration begins with this epoch."""
        if epoch != self.begun.first_epoch:
            return self.whole.beginning(epoch)
        return super().beginning(epoch)

    def erased_after(self, state: LoaderState) -> Records:
        """Return what is erased now, of all data together."""
        return self.whole.erased_after(state)

    def _adopt(self, state: LoaderState) -> LoaderState:
        if state.grown != self.begun.grown or state.epoch > self.begun.epoch + 1:
            raise StateMismatchError("the state is of other data that were added")
        state.check_run(self.initial)
        state.check_lanes(len(self.dataset.index))
        return state


class _Orders(DatasetOrder):
    """The order of the epoch."""

    def __init__(self, run: GrownRun) -> None:
        self._run = run
        balance = run.balance
        costs = balance and [balance.costs(i) for i in run.indexes]
        self._parts = [
            DatasetOrder(
                dataset=dataset,
                fingerprint=f"{dataset.fingerprint} {run.sequences.identity}",
                index=index,
                seed=run.seed,
                shuffle=run.shuffle,
                world_size=run.world_size,
                memory=run.memory // len(run.datasets),
                name=f"added {number}" if number else "",
                balance=run.balance,
                costs=costs[number] if costs else None,
            )
            if index.num_sequences
            else None
            for number, (dataset, index) in enumerate(
                zip(run.datasets, run.indexes, strict=True)
            )
        ]
        first = self._parts[0]
        assert first is not None  # noqa: S101 - something was delivered of it
        self._first, self.num_lanes = first, first.num_lanes
        self.balance, self.shuffle = run.balance, run.shuffle
        self.of = lru_cache(maxsize=2)(self._make)

    def window(self, num_lanes: int) -> int:
        """Return the longest delay of a sequence in its lane, in sequences."""
        return sum(part.window(num_lanes) for part in self._parts if part is not None)

    @property
    def page_bytes(self) -> float:
        """Mean bytes of a decoded page."""
        return self._first.page_bytes

    def _make(self, epoch: int, num_lanes: int, ranks: int | None = None) -> Ordered:
        order = self._first.of(epoch, num_lanes, ranks)
        size = self._run.indexes[0].num_sequences
        places = [position for _, position in self._run.begun.grown]
        for part, position, index in zip(
            self._parts[1:], places, self._run.indexes[1:], strict=True
        ):
            if part is None:
                continue
            added = part.of(epoch, num_lanes, ranks)
            sizes = size, index.num_sequences
            order = GrownOrder(
                order, added, sizes=sizes, position=position, group=num_lanes
            )
            size += index.num_sequences
        return order
