"""The rest of an epoch in which data were added: they come from the next epoch on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, cast

from pagefeed.core.dataset import Dataset, identity_of_data
from pagefeed.core.order import Ordered
from pagefeed.core.run import (
    Cursor,
    DatasetCursor,
    DatasetOrder,
    DatasetRun,
    Grown,
    LoaderState,
    Run,
    RunPosition,
)
from pagefeed.growth.grown_data import before_growth


def arguments_of_run(run: Run, kind: type[Run]) -> dict[str, Any]:
    """Return the arguments of a run, to make one of another class from them."""
    names = [option.name for option in fields(kind) if option.init]
    return {name: getattr(run, name) for name in names}


def rest_of_run(
    whole: Run, state: LoaderState, grown: Grown | None
) -> tuple[Run, LoaderState]:
    """Return the run that continues a state of earlier data, and the state in it.

    Args:
        whole: The run of all data.
        state: A state of the data before files were added.
        grown: When to deliver the files added since; None if none were added.

    Raises:
        StateMismatchError: If the data are not those of the state and some more.
    """
    if isinstance(whole, DatasetRun):
        return _rest_of_dataset(whole, state)
    from pagefeed.growth.grown_mixture import rest_of_mixture
    from pagefeed.mixture import MixtureRun

    return rest_of_mixture(cast("MixtureRun", whole), state, grown)


def _rest_of_dataset(whole: DatasetRun, state: LoaderState) -> tuple[Run, LoaderState]:
    """Return the run of the earlier data that continues a state, and the state in it.

    Args:
        whole: The run of all data.
        state: A state of the data before files were added.

    Raises:
        StateMismatchError: If the data are not those of the state and some more.
    """
    options = arguments_of_run(whole, DatasetRun)
    options["dataset"] = before_growth(whole.dataset, state.dataset)
    rest = DatasetRun(**options)
    if whole.epochs != 1:
        rest = GrownRun(begun=state, later=whole.dataset, **options)
    return rest, rest.going_on(rest.accept(state))


@dataclass(eq=False)
class GrownCursor(DatasetCursor):
    """A position in the rest of an epoch."""

    run: GrownRun

    # A state after the epoch counts positions over all data.

    @property
    def _is_behind(self) -> bool:
        return self.begin.epoch > self.run.begun.epoch

    @property
    def num_tokens_before(self) -> int:
        """Tokens before ``begin``, from the mean tokens of a sequence."""
        run = self.run
        if self._is_behind:
            return run.whole.at(self.begin).num_tokens_before
        tokens = run.indexes[self._parts(self.begin.epoch)[0]].num_delivered_tokens
        return self.start * tokens // run.num_sequences

    def position_of(self, state: LoaderState) -> int:
        """Return the position of a later state, as this cursor counts positions."""
        return self._first(state.epoch) + state.position

    def _first(self, epoch: int) -> RunPosition:
        size, whole = self.run.num_sequences, self.run.whole.num_sequences
        if self._is_behind:
            return RunPosition(epoch * whole)
        num_behind = max(0, epoch - self.run.begun.epoch - 1)
        return RunPosition((epoch - num_behind) * size + num_behind * whole)

    def _epoch_of(self, position: RunPosition) -> int:
        whole, following = self.run.whole.num_sequences, self.run.begun.epoch + 1
        if self._is_behind:
            return position // whole
        behind = position - self._first(following)
        if behind < 0:
            return super()._epoch_of(position)
        return following + behind // whole

    def _parts(self, epoch: int) -> range:
        number = int(epoch > self.run.begun.epoch)
        return range(number, number + 1)

    def _order(self, epoch: int) -> Ordered:
        if epoch <= self.run.begun.epoch:
            return super()._order(epoch)
        return self.run.orders_behind.of(epoch, *self._lanes(epoch))

    def _lanes(self, epoch: int) -> tuple[int, int | None]:
        if self._is_behind or epoch <= self.run.begun.epoch:
            return super()._lanes(epoch)
        whole = self.run.whole.initial
        return whole.num_lanes, whole.ranks

    def _moved(self, state: LoaderState, position: RunPosition) -> LoaderState:
        moved, following = super()._moved(state, position), self.run.begun.epoch + 1
        if moved.epoch < following or self._is_behind:
            return moved
        # From the next epoch on all data are one dataset.
        whole, first = self.run.whole, self._first(following)
        further = following * whole.num_sequences - first
        ahead = [(max(begin, first), end) for begin, end in moved.skipped]
        return replace(
            moved.having(erased=whole.erased_after(None)),
            dataset=whole.initial.dataset,
            sizes=None,
            skipped=tuple((a + further, b + further) for a, b in ahead if a < b),
        )


@dataclass(kw_only=True, eq=False)
class GrownRun(DatasetRun):
    """A run whose first epoch is over the earlier data, and later ones over all.

    Raises:
        StateMismatchError: If files of the earlier data are gone.
    """

    _cursor: ClassVar[type[Cursor]] = GrownCursor

    begun: LoaderState
    """A state of the epoch in which data were added."""
    later: Dataset
    """All data."""
    whole: DatasetRun = field(init=False)
    """The run of the following epochs."""

    def __post_init__(self) -> None:
        options = arguments_of_run(self, DatasetRun)
        self.whole = DatasetRun(**options | {"dataset": self.later})
        index = self.sequences.index(self.dataset.spans)
        datasets = [self.dataset, self.later]
        self._number([None, None], datasets, [index, *self.whole.indexes])
        self.num_sequences = index.num_sequences
        self.orders, self.orders_behind = (
            DatasetOrder(run=self, dataset_number=number, seed=self.seed)
            for number in range(2)
        )
        self.initial = replace(
            self.whole.initial.having(erased=self.erased_after(None)),
            dataset=identity_of_data(self.dataset),
            num_lanes=self.begun.num_lanes,
            ranks=self.begun.ranks,
        )

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration begins with this epoch."""
        if epoch != self.begun.first_epoch:
            return self.whole.beginning(epoch)
        return super().beginning(epoch)

    def after(self, begin: LoaderState) -> LoaderState:
        """Return the state in which the next iteration begins, which is of all data."""
        return replace(super().after(begin), ended=None)

    @property
    def datasets_of_now(self) -> tuple[Sequence[str | None], Sequence[Dataset]]:
        """The dataset with the added files, whose erased rows a state records."""
        return [None], [self.dataset]
