"""The rest of an epoch in which data were added: they are mixed into what is left."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from pagefeed.dataset import growth_parts
from pagefeed.errors import StateMismatchError
from pagefeed.order import GrownOrder, Ordered
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.dataset_run import DatasetCursor, DatasetRun
from pagefeed.run.erasures import Records
from pagefeed.run.run import Cursor
from pagefeed.run.state import LoaderState

__all__ = ["GrownCursor", "GrownRun"]


@dataclass(eq=False)
class GrownCursor(DatasetCursor):
    """A place of the rest of an epoch."""

    run: GrownRun

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
        cut = [self.sequences.index(part.spans) for part in parts]
        self._number([None] * len(parts), parts, cut)
        self.orders = _GrownOrders(run=self, number=0, seed=self.seed)
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


@dataclass(kw_only=True, eq=False)
class _GrownOrders(DatasetOrder):
    """The order of the epoch: that of the data of before, with what was added."""

    run: GrownRun

    def __post_init__(self) -> None:
        super().__post_init__()
        run = self.run
        self._added = [
            (DatasetOrder(run=run, number=n, seed=run.seed, name=f"added {n}"), at)
            for n, (_, at) in enumerate(run.begun.grown, start=1)
            if run.indexes[n].num_sequences
        ]

    def reach(self, state: LoaderState) -> int:
        """Return how far the epoch of a state moves sequences, over all lanes."""
        lanes = state.num_lanes
        added = sum(part.mixed(lanes) for part, _ in self._added)
        return super().reach(state) + added

    def _make(self, epoch: int, num_lanes: int, ranks: int | None = None) -> Ordered:
        order, size = super()._make(epoch, num_lanes, ranks), self.index.num_sequences
        for part, position in self._added:
            order = GrownOrder(
                order,
                part.of(epoch, num_lanes, ranks),
                sizes=(size, part.index.num_sequences),
                position=position,
                group=num_lanes,
            )
            size += part.index.num_sequences
        return order
