"""The rest of an epoch in which data were added: they are mixed into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

from pagefeed.core.dataset import Dataset, identity_of_data, what_changed
from pagefeed.core.order import Ordered, derive_key
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
from pagefeed.errors import InvalidArgumentError
from pagefeed.growth.grown_data import before_growth, before_rewriting, growth_parts
from pagefeed.growth.grown_order import GrownOrder

__all__ = [
    "GrownCursor",
    "GrownRun",
    "MixedOrder",
    "arguments_of_run",
    "check_not_skipped",
    "rest_of_dataset",
]


def arguments_of_run(run: Run, kind: type[Run]) -> dict[str, Any]:
    """Return the arguments that would make a run again, as one of a kind."""
    names = [option.name for option in fields(kind) if option.init]
    return {name: getattr(run, name) for name in names}


def check_not_skipped(state: LoaderState, position: int) -> None:
    """Refuse to mix data into coming steps if some of these are skipped.

    Raises:
        InvalidArgumentError: If a step from the position on is skipped.
    """
    if any(end > position for _, end in state.skipped):
        raise InvalidArgumentError(
            "grown='now' mixes data into the steps ahead, and some of these are "
            "skipped: load with grown='next-epoch', or a state from before the skip"
        )


def rest_of_dataset(
    whole: DatasetRun, state: LoaderState, grown: Grown | None
) -> tuple[Run, LoaderState]:
    """Return the run that continues at a state of one dataset, and the state in it.

    Args:
        whole: The run of all data.
        state: A state.
        grown: When to deliver the data added since; None if nothing was added.

    Raises:
        InvalidArgumentError: If data are to be mixed into coming steps, and some of
            these are skipped.
        StateMismatchError: If the data are not the data of the state, with or without
            additions.
    """
    before, same = whole.dataset, True
    if what_changed(state.dataset, whole.initial.dataset):
        if grown is not None:
            before, same = before_growth(before, state.dataset), False
        elif (then := before_rewriting(before, state.dataset)) is not None:
            before, same = then, False
    options = arguments_of_run(whole, DatasetRun)
    run: Callable[..., DatasetRun] = DatasetRun
    if state.grown or whole.epochs != 1:
        run = partial(GrownRun, begun=state, later=whole.dataset)
    rest = run(**options | {"dataset": before})
    begin = rest.going_on(rest.accept(state))
    if same or grown != "now" or not begin.goes_on(state.first_epoch):
        return rest, begin
    position = rest.at(begin).start
    check_not_skipped(begin, position)
    can_look_back = not begin.skipped and begin.epoch == begin.first_epoch
    begin = replace(
        begin.having(
            grown=(*begin.grown, (state.dataset, begin.position)),
            erased=whole.erased_after(None),
        ),
        dataset=whole.initial.dataset,
        skipped=(),
        sizes=begin.sizes if can_look_back else None,
    )
    rest = GrownRun(begun=begin, later=whole.dataset, **options)
    return rest, rest.accept(begin)


@dataclass(eq=False)
class GrownCursor(DatasetCursor):
    """A position in the rest of an epoch."""

    run: GrownRun

    # A state behind the epoch counts positions as a run of all data does.

    @property
    def _is_behind(self) -> bool:
        return self.begin.epoch > self.run.begun.epoch

    @property
    def num_tokens_before(self) -> int:
        """Tokens of the epochs and sequences before ``begin``, by the mean."""
        run = self.run
        if self._is_behind:
            return run.whole.at(self.begin).num_tokens_before
        parts = self._parts(self.begin.epoch)
        tokens = sum(run.indexes[dataset].num_delivered_tokens for dataset in parts)
        return self.start * tokens // run.num_sequences

    def position_of(self, state: LoaderState) -> int:
        """Return the position of a state ahead, as this cursor counts them."""
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
        count, parts = len(self.run.datasets), self.run.num_parts
        return range(parts, count) if epoch > self.run.begun.epoch else range(parts)

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
            moved.having(erased=whole.erased_after(None), grown=None),
            dataset=whole.initial.dataset,
            sizes=None,
            skipped=tuple((a + further, b + further) for a, b in ahead if a < b),
        )


@dataclass(kw_only=True, eq=False)
class GrownRun(DatasetRun):
    """The epoch of a state in which data were added, once or more often.

    Its first sequences are of the earlier data, in their order. From the position at
    which the data grew, added sequences are mixed in. Later epochs of the same
    iteration deliver all data: that is the last dataset of the run.

    Raises:
        StateMismatchError: If files of the earlier data are gone.
    """

    _cursor: ClassVar[type[Cursor]] = GrownCursor

    begun: LoaderState
    """A state of the epoch, with the growths."""
    later: Dataset
    """All data."""
    whole: DatasetRun = field(init=False)
    """The run of the following epochs."""

    def __post_init__(self) -> None:
        options = arguments_of_run(self, DatasetRun)
        self.whole = DatasetRun(**options | {"dataset": self.later})
        parts = growth_parts(self.dataset, [record for record, _ in self.begun.grown])
        cut = [self.sequences.index(data.spans) for data in parts]
        self.num_parts = len(parts)
        """Datasets of the epoch: the first one, and one for each addition."""
        is_joined = self.epochs != 1
        behind, cut_behind = (
            ([self.later], self.whole.indexes) if is_joined else ([], [])
        )
        datasets = [*parts, *behind]
        self._number([None] * len(datasets), datasets, [*cut, *cut_behind])
        self.num_sequences = sum(index.num_sequences for index in cut)
        added = [
            (
                DatasetOrder(
                    run=self, dataset_number=n, seed=self.seed, name=f"added {n}"
                ),
                at,
            )
            for n, (_, at) in enumerate(self.begun.grown, start=1)
        ]
        self.orders = MixedOrder(
            run=self, dataset_number=0, seed=self.seed, added=added
        )
        self.orders_behind = self.whole.orders
        if is_joined:
            self.orders_behind = DatasetOrder(
                run=self, dataset_number=self.num_parts, seed=self.seed
            )
        self.initial = replace(
            self.whole.initial.having(
                erased=self.erased_after(None), grown=self.begun.parts.get("grown")
            ),
            dataset=identity_of_data(self.dataset),
            num_lanes=self.begun.num_lanes,
            ranks=self.begun.ranks,
        )

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration begins with this epoch."""
        begun = self.begun
        if epoch != begun.first_epoch or (begun.grown and begun.epoch > epoch):
            return self.whole.beginning(epoch)
        return super().beginning(epoch)

    def after(self, begin: LoaderState) -> LoaderState:
        """Return the state in which the next iteration begins, which is of all data."""
        return replace(super().after(begin), ended=None)

    @property
    def datasets_of_now(self) -> tuple[Sequence[str | None], Sequence[Dataset]]:
        """All data together, of which a state tells what was erased."""
        return [None], [self.dataset]


@dataclass(kw_only=True, eq=False)
class MixedOrder(DatasetOrder):
    """The order of an epoch with added data; each addition has an order of its own."""

    added: Sequence[tuple[DatasetOrder, int]]
    """Orders of the added data, and the positions from which on they are mixed in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._added = [added for added in self.added if added[0].index.num_sequences]

    def reach(self, state: LoaderState) -> int:
        """Return how far the epoch of a state moves sequences, over all lanes."""
        lanes = state.num_lanes
        added = sum(order.mixed(lanes) for order, _ in self._added)
        return super().reach(state) + added

    def _make(self, epoch: int, num_lanes: int, ranks: int | None = None) -> Ordered:
        order, size = super()._make(epoch, num_lanes, ranks), self.index.num_sequences
        for added, position in self._added:
            # Where all is shuffled in full lanes mean nothing, but rows of ranks do.
            has_lanes = self.shuffle.delayed or added.shuffle.delayed
            order = GrownOrder(
                order,
                added.of(epoch, num_lanes, ranks),
                sizes=(size, added.index.num_sequences),
                position=position,
                group=num_lanes if has_lanes else ranks or 1,
                key=derive_key(self.seed, epoch, added.name),
            )
            size += added.index.num_sequences
        return order
