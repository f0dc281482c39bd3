"""A mixture of datasets to which data were added during the run.

Each dataset uses all data from its next epoch on. The component of a dataset in the
schedule, and so the state, records the data of its earlier epochs. The run has these
data as further datasets, after the present ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagefeed.core.dataset import Dataset, what_changed
from pagefeed.core.run import (
    DatasetOrder,
    Grown,
    LoaderState,
    Run,
)
from pagefeed.errors import StateMismatchError
from pagefeed.growth import (
    MixedOrder,
    arguments_of_run,
    before_growth,
    before_rewriting,
    check_not_skipped,
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
        grown: When to deliver the data added since; None if nothing was added.

    Raises:
        InvalidArgumentError: If data are to be mixed into coming steps, and some of
            these are skipped.
        StateMismatchError: If a dataset is not the dataset of the state, with or
            without added files.
    """
    state.check_run(whole.initial)
    if grown is None and _is_rewritten(whole, state):
        grown = "next-epoch"
    if grown is not None:
        state = _with_growth(whole, state, grown)
    if not schedule_of(state).has_grown:
        return whole, whole.accept(state)
    rest = GrownMixtureRun(begun=state, **arguments_of_run(whole, MixtureRun))
    return rest, rest.accept(state)


def _is_rewritten(whole: MixtureRun, state: LoaderState) -> bool:
    """Return whether datasets differ from a state, but have the same rows."""
    now = {component.name: component.data for component in whole.components}
    others = [
        (whole.datasets[whole.names.index(component.name)], component.data)
        for component in schedule_of(state).components
        if component.name in now and what_changed(component.data, now[component.name])
    ]
    rewritten = [before_rewriting(*changed) for changed in others]
    return bool(rewritten) and all(changed is not None for changed in rewritten)


def _with_growth(whole: MixtureRun, state: LoaderState, when: Grown) -> LoaderState:
    """Return a state with the datasets of now, and what epochs are of before."""
    schedule = schedule_of(state)
    now = {component.name: component for component in whole.components}
    border = whole.border(state)
    following = whole.course(state).following(border)
    is_mixed = when == "now"
    components = list(schedule.components)
    for dataset, component in enumerate(components):
        new = now.get(component.name)
        if new is not None and what_changed(component.data, new.data):
            last = int((following[dataset] - len(following[dataset])).max())
            components[dataset] = _grown(whole, component, new, last, is_mixed=is_mixed)
    if tuple(components) == schedule.components:
        return state
    state = state.having(mixture=replace(schedule, components=tuple(components)))
    if not is_mixed:
        return state
    check_not_skipped(state, state.position)
    if whole.balance is None or not border:
        return state
    # What was dealt to ranks before stays.
    return with_cuts(state, sorted({*cuts_in(state), border}))


def _grown(
    whole: MixtureRun,
    component: Component,
    new: Component,
    last: int,
    *,
    is_mixed: bool,
) -> Component:
    """Return the component of a grown dataset.

    Args:
        whole: The run of all data.
        component: Component of the dataset in the state.
        new: Component of the dataset now.
        last: The last local position that was delivered; below 0 if none was.
        is_mixed: Whether added data are mixed into the rest of the current epoch.
    """
    dataset = whole.datasets[whole.names.index(component.name)]
    before_growth(dataset, component.data)  # It grew: nothing else happened to it.
    grown = replace(
        component,
        data=new.data,
        num_sequences=new.num_sequences,
        num_tokens=new.num_tokens,
    )
    if last < 0:
        return replace(grown, before=())
    [epoch], [offset] = component.epochs_of(np.array([last]))
    epoch, offset = int(epoch) + 1, int(offset) + 1
    formers = [earlier for earlier in component.before if earlier.end < epoch]
    former = component.former(epoch - 1)
    if former is None:
        former = Former(
            epoch, component.data, component.num_sequences, component.num_tokens
        )
    if is_mixed and offset < former.num_sequences:
        if epoch - 1 > (formers[-1].end if formers else 0):
            formers.append(former._replace(end=epoch - 1))
        records = [*(mixed.data for mixed in former.mixed), former.data]
        cut = [
            whole.sequences.index(added.spans)
            for added in growth_parts(dataset, records)
        ]
        size = sum(index.num_sequences for index in cut)
        former = former._replace(
            data=new.data,
            num_sequences=size,
            num_tokens=round(size * component.sequence_tokens)
            if component.num_tokens
            else 0,
            mixed=(*former.mixed, Mixed(former.data, offset, former.num_sequences)),
        )
    return replace(grown, before=(*formers, former))


@dataclass(kw_only=True, eq=False)
class GrownMixtureRun(MixtureRun):
    """A mixture with the earlier data as further datasets, after the present ones.

    Raises:
        StateMismatchError: If the data of an epoch that is not over are missing.
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
        for component, ahead in zip(schedule.components, following, strict=True):
            if component.name not in self.names:
                continue
            for former in component.before:
                is_over = component.begin_of(former.end) <= int(ahead.min())
                versions = self._data_of(
                    component, former, is_over=is_over and self.balance is None
                )
                first = len(names)
                names += [component.name] * len(versions)
                datasets += versions
                self._former[component.name, former.end] = range(first, len(names))
        cut = [self.sequences.index(data.spans) for data in datasets[len(self.names) :]]
        self._number(names, datasets, [*self.indexes, *cut])
        self.num_sequences = sequences
        self.orders.cache_clear()

    def _data_of(
        self, component: Component, former: Former, *, is_over: bool
    ) -> list[Dataset]:
        """Return the data of some epochs: the first data, then each addition.

        The list is empty if the epochs are over and some of their files are gone.
        """
        entry = self.names.index(component.name)
        dataset: Dataset = self.datasets[entry]
        try:
            if what_changed(former.data, self.components[entry].data):
                dataset = before_growth(dataset, former.data)
            if former.mixed:
                records = [mixed.data for mixed in former.mixed]
                return [*growth_parts(dataset, records)]
        except StateMismatchError:
            if not is_over:
                raise
            return []
        return [dataset]

    @property
    def datasets_of_now(self) -> tuple[Sequence[str | None], Sequence[Dataset]]:
        """The components without those of before."""
        count = len(self.components)
        return self.names[:count], self.datasets[:count]

    def entries_of(self, component: Component, epoch: int) -> range:
        """Return the numbers of the datasets that an epoch of one is of."""
        entries, former = super().entries_of(component, epoch), component.former(epoch)
        if former is None:
            return entries
        return self._former.get((component.name, former.end), range(0))

    def knows(self, schedule: Schedule) -> bool:
        """Return whether it has the data of all epochs that are ahead."""
        begun = schedule_of(self.begun)
        formers = {component.name: component.before for component in begun.components}
        return all(
            formers.get(component.name) == component.before
            for component in schedule.components
        )

    def _make_orders(self, epoch: int) -> list[DatasetOrder]:
        orders = super()._make_orders(epoch)
        for component in schedule_of(self.begun).components:
            for former in component.before:
                entries = self._former.get((component.name, former.end), range(0))
                if not former.mixed or not entries:
                    continue
                added = []
                for entry, mixed in zip(entries[1:], former.mixed, strict=True):
                    name = f"{component.name} added {entry - entries[0]}"
                    settings = self.settings_of(entry, name, epoch)
                    added.append((DatasetOrder(**settings), mixed.offset))
                settings = self.settings_of(entries[0], component.name, epoch)
                orders[entries[0]] = MixedOrder(**settings, added=added)
        return orders
