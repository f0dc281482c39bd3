"""A mixture of grown datasets, each of which uses all data from its next epoch on.

What some epochs of a dataset are of is in its component of the schedule, so that states
tell it. The run has the data of such epochs as further datasets, behind those of now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from pagefeed.core.dataset import Dataset, what_changed
from pagefeed.core.run import (
    DatasetOrder,
    Grown,
    LoaderState,
    Records,
    Run,
    records_after,
    records_of,
)
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.growth import (
    MixedOrder,
    before_growth,
    before_rewriting,
    growth_parts,
)
from pagefeed.mixture.component import Component, Former, Mixed
from pagefeed.mixture.mixture_run import MixtureRun
from pagefeed.mixture.schedule import Schedule
from pagefeed.mixture.state_part import cuts_in, schedule_of, with_cuts

__all__ = ["GrownMixtureRun", "rest_of_mixture"]


def rest_of_mixture(
    whole: MixtureRun, state: LoaderState, grown: Grown | None
) -> tuple[Run, LoaderState]:
    """Return the run that continues at a state of a mixture, and the state there.

    Args:
        whole: The run of all data.
        state: The state.
        grown: When what was added since is delivered; None if nothing was.

    Raises:
        InvalidArgumentError: If data are to be mixed into steps some of which are
            skipped.
        StateMismatchError: If a dataset is not that of the state with some files added.
    """
    state.check_run(whole.initial)
    if grown is None and _is_rewritten(whole, state):
        grown = "next-epoch"
    if grown is not None:
        state = _with_growth(whole, state, grown)
    if not schedule_of(state).has_grown:
        return whole, whole.accept(state)
    names = [each.name for each in fields(MixtureRun) if each.init]
    options = {name: getattr(whole, name) for name in names}
    rest = GrownMixtureRun(begun=state, **options)
    return rest, rest.accept(state)


def _is_rewritten(whole: MixtureRun, state: LoaderState) -> bool:
    """Return whether datasets differ from a state, but have the same rows."""
    now = {part.name: part.data for part in whole.parts}
    others = [
        (whole.datasets[whole.names.index(part.name)], part.data)
        for part in schedule_of(state).parts
        if part.name in now and what_changed(part.data, now[part.name])
    ]
    found = [before_rewriting(*each) for each in others]
    return bool(found) and all(each is not None for each in found)


def _with_growth(whole: MixtureRun, state: LoaderState, when: Grown) -> LoaderState:
    """Return a state with the datasets of now, and what epochs are of before."""
    schedule, now = schedule_of(state), {part.name: part for part in whole.parts}
    border = whole.border(state)
    following = whole.course(state).following(border)
    is_mixed = when == "now"
    parts = list(schedule.parts)
    for number, part in enumerate(parts):
        new = now.get(part.name)
        if new is not None and what_changed(part.data, new.data):
            last = int((following[number] - len(following[number])).max())
            parts[number] = _grown(whole, part, new, last, is_mixed=is_mixed)
    if tuple(parts) == schedule.parts:
        return state
    state = state.having(mixture=replace(schedule, parts=tuple(parts)))
    if not is_mixed:
        return state
    if any(end > state.position for _, end in state.skipped):
        raise InvalidArgumentError(
            "grown='now' mixes data into the steps ahead, and some of these are "
            "skipped: load with grown='next-epoch', or a state from before the skip"
        )
    if whole.balance is None or not border:
        return state
    # What was dealt to ranks before stays.
    return with_cuts(state, sorted({*cuts_in(state), border}))


def _grown(
    whole: MixtureRun, part: Component, new: Component, last: int, *, is_mixed: bool
) -> Component:
    """Return a dataset as it continues.

    Args:
        whole: The run of all data.
        part: What the state has of it.
        new: What it is now.
        last: The last local position that was delivered; below 0 if none was.
        is_mixed: Whether what was added comes in what remains of its epoch.
    """
    dataset = whole.datasets[whole.names.index(part.name)]
    before_growth(dataset, part.data)  # It grew: nothing else happened to it.
    grown = replace(
        part,
        data=new.data,
        num_sequences=new.num_sequences,
        num_tokens=new.num_tokens,
    )
    if last < 0:
        return replace(grown, before=())
    epoch, place = (int(found[0]) + 1 for found in part.epochs_of(np.array([last])))
    kept = [each for each in part.before if each.end < epoch]
    former = part.former(epoch - 1)
    if former is None:
        former = Former(epoch, part.data, part.num_sequences, part.num_tokens)
    if is_mixed and place < former.num_sequences:
        if epoch - 1 > (kept[-1].end if kept else 0):
            kept.append(former._replace(end=epoch - 1))
        records = [*(each.data for each in former.mixed), former.data]
        cut = [
            whole.sequences.index(each.spans) for each in growth_parts(dataset, records)
        ]
        size = sum(index.num_sequences for index in cut)
        former = former._replace(
            data=new.data,
            num_sequences=size,
            num_tokens=round(size * part.sequence_tokens) if part.num_tokens else 0,
            mixed=(*former.mixed, Mixed(former.data, place, former.num_sequences)),
        )
    return replace(grown, before=(*kept, former))


@dataclass(kw_only=True, eq=False)
class GrownMixtureRun(MixtureRun):
    """A mixture with the earlier data as further datasets, after the present ones.

    Raises:
        StateMismatchError: If data of epochs that are not over are not there.
    """

    begun: LoaderState
    """State that records the data of earlier epochs."""

    def __post_init__(self) -> None:
        self._former: dict[tuple[str, int], range] = {}
        """Further datasets of epochs: by the name, and one past the last epoch."""
        super().__post_init__()
        schedule, sequences = schedule_of(self.begun), self.num_sequences
        names, datasets = [*self.names], [*self.datasets]
        following = self.course(self.begun).following(self.begun.position)
        for part, ahead in zip(schedule.parts, following, strict=True):
            if part.name not in self.names:
                continue
            for former in part.before:
                is_over = part.begin_of(former.end) <= int(ahead.min())
                found = self._data_of(
                    part, former, is_over=is_over and self.balance is None
                )
                first = len(names)
                names += [part.name] * len(found)
                datasets += found
                self._former[part.name, former.end] = range(first, len(names))
        cut = [self.sequences.index(data.spans) for data in datasets[len(self.names) :]]
        self._number(names, datasets, [*self.indexes, *cut])
        self.num_sequences = sequences
        self.orders.cache_clear()

    def _data_of(
        self, part: Component, former: Former, *, is_over: bool
    ) -> list[Dataset]:
        """Return the data of some epochs: the first data, and those added.

        None are there of epochs that are over, if files of them are gone.
        """
        number = self.names.index(part.name)
        dataset: Dataset = self.datasets[number]
        try:
            if what_changed(former.data, self.parts[number].data):
                dataset = before_growth(dataset, former.data)
            if former.mixed:
                records = [each.data for each in former.mixed]
                return [*growth_parts(dataset, records)]
        except StateMismatchError:
            if not is_over:
                raise
            return []
        return [dataset]

    @property
    def erased(self) -> Records:
        """Records of erased rows, as a state has them."""
        return records_of(*self._of_now)

    def erased_after(self, state: LoaderState) -> Records:
        """Return the records of rows erased now; refuse fewer than a state has."""
        return records_after(state.erased, *self._of_now)

    @property
    def _of_now(self) -> tuple[Sequence[str], Sequence[Dataset]]:
        count = len(self.parts)
        return self.names[:count], self.datasets[:count]

    def entries_of(self, part: Component, epoch: int) -> range:
        """Return the numbers of the datasets that an epoch of one is of."""
        found, former = super().entries_of(part, epoch), part.former(epoch)
        if former is None:
            return found
        return self._former.get((part.name, former.end), range(0))

    def knows(self, schedule: Schedule) -> bool:
        """Return whether it has the data of all epochs that are ahead."""
        begun = schedule_of(self.begun)
        formers = {part.name: part.before for part in begun.parts}
        return all(formers.get(part.name) == part.before for part in schedule.parts)

    def _make_orders(self, epoch: int) -> list[DatasetOrder]:
        orders = super()._make_orders(epoch)
        for part in schedule_of(self.begun).parts:
            for former in part.before:
                entries = self._former.get((part.name, former.end), range(0))
                if not former.mixed or not entries:
                    continue
                added = []
                for number, mixed in zip(entries[1:], former.mixed, strict=True):
                    name = f"{part.name} added {number - entries[0]}"
                    settings = self.settings_of(number, name, epoch)
                    added.append((DatasetOrder(**settings), mixed.place))
                settings = self.settings_of(entries[0], part.name, epoch)
                orders[entries[0]] = MixedOrder(**settings, added=added)
        return orders
