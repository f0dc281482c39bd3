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
from pagefeed.core.run import Grown, LoaderState, Run
from pagefeed.errors import StateMismatchError
from pagefeed.growth.grown_data import before_growth
from pagefeed.growth.grown_run import arguments_of_run
from pagefeed.mixture import Component, Former, MixtureRun, Schedule, schedule_of


def rest_of_mixture(
    whole: MixtureRun, state: LoaderState, grown: Grown | None
) -> tuple[Run, LoaderState]:
    """Return the run that continues at a state of a mixture, and the state there.

    Args:
        whole: The run of all data.
        state: The state.
        grown: When to deliver the data added since; None if nothing was added.

    Raises:
        StateMismatchError: If a dataset is not the dataset of the state, with or
            without added files.
    """
    if grown is not None:
        state = _with_growth(whole, state)
    if not schedule_of(state).has_grown:
        return whole, whole.accept(state)
    rest = GrownMixtureRun(begun=state, **arguments_of_run(whole, MixtureRun))
    return rest, rest.accept(state)


def _with_growth(whole: MixtureRun, state: LoaderState) -> LoaderState:
    """Return a state with the present datasets, and the data of earlier epochs."""
    schedule = schedule_of(state)
    now = {component.name: component for component in whole.components}
    following = whole.course(state).following(whole.border(state))
    components = list(schedule.components)
    for dataset, component in enumerate(components):
        new = now.get(component.name)
        if new is not None and what_changed(component.data, new.data):
            last = int((following[dataset] - len(following[dataset])).max())
            components[dataset] = _grown(whole, component, new, last)
    return state.having(mixture=replace(schedule, components=tuple(components)))


def _grown(
    whole: MixtureRun, component: Component, new: Component, last: int
) -> Component:
    """Return the component of a grown dataset.

    Args:
        whole: The run of all data.
        component: Component of the dataset in the state.
        new: Component of the dataset now.
        last: The last local position that was delivered; below 0 if none was.
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
    end = int(component.epochs_of(np.array([last]))[0][0]) + 1
    formers = [earlier for earlier in component.before if earlier.end < end]
    former = component.former(end - 1) or Former(
        end, component.data, component.num_sequences, component.num_tokens
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
        self._former: dict[tuple[str, int], int] = {}
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
                data = self._data_of(
                    component, former, is_over=is_over and self.balance is None
                )
                if data is not None:
                    self._former[component.name, former.end] = len(names)
                    names.append(component.name)
                    datasets.append(data)
        cut = [self.sequences.index(data.spans) for data in datasets[len(self.names) :]]
        self._number(names, datasets, [*self.indexes, *cut])
        self.num_sequences = sequences
        self.orders.cache_clear()

    def _data_of(
        self, component: Component, former: Former, *, is_over: bool
    ) -> Dataset | None:
        """Return the data of some epochs; None if these are over and files are gone."""
        entry = self.names.index(component.name)
        dataset: Dataset = self.datasets[entry]
        if not what_changed(former.data, self.components[entry].data):
            return dataset
        try:
            return before_growth(dataset, former.data)
        except StateMismatchError:
            if not is_over:
                raise
            return None

    @property
    def datasets_of_now(self) -> tuple[Sequence[str | None], Sequence[Dataset]]:
        """The components without the earlier ones."""
        count = len(self.components)
        return self.names[:count], self.datasets[:count]

    def entry_of(self, component: Component, epoch: int) -> int | None:
        """Return the number of the dataset with the data of an epoch of a component."""
        former = component.former(epoch)
        if former is None:
            return super().entry_of(component, epoch)
        return self._former.get((component.name, former.end))

    def knows(self, schedule: Schedule) -> bool:
        """Return whether the run has the data of all epochs that are ahead."""
        begun = schedule_of(self.begun)
        formers = {component.name: component.before for component in begun.components}
        return all(
            formers.get(component.name) == component.before
            for component in schedule.components
        )
