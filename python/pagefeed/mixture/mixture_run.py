"""Run of a mixture: each epoch is the whole schedule, in other orders."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from pagefeed.balance import Dealing
from pagefeed.core._base import Int64Array, lazy, logger
from pagefeed.core.order import NODE_BYTES, Ordered, derive_key
from pagefeed.core.run import (
    MAX_HORIZON,
    Cursor,
    DatasetOrder,
    Grown,
    LoaderState,
    Positions,
    Route,
    Run,
    RunPosition,
    Sequences,
    SequencesOf,
    Step,
    StepIndex,
    check_bound,
    gathered,
)
from pagefeed.core.wiring import rest_of_run
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.mixture.component import Component
from pagefeed.mixture.course import LEAST_LANES, Course, CourseInOrder
from pagefeed.mixture.delivered import counts_before, datasets_in
from pagefeed.mixture.divisions import MixtureDivisions
from pagefeed.mixture.mixture import Mixture, check_tokenizers, check_weights
from pagefeed.mixture.mixture_route import by_turns
from pagefeed.mixture.mixture_totals import (
    ends_by_datasets,
    last_position,
    totals,
    totals_as_text,
)
from pagefeed.mixture.resolution import Anchor, adopt, resolve, sequence_weights
from pagefeed.mixture.schedule import Schedule
from pagefeed.mixture.state_part import (
    check_size,
    cuts_in,
    cuts_of,
    make_components,
    schedule_of,
    with_cuts,
)

AT_ONCE = 1 << 15
"""Positions that are looked up together; of datasets in file order a quarter."""
RARE = 0.05
"""Least share of a dataset for which plans reach far enough. Pages of datasets with a
smaller share may be read again."""


@dataclass(eq=False)
class MixtureCursor(Cursor):
    """A position in the run of a mixture; positions count through one epoch."""

    run: MixtureRun

    @lazy
    def course(self) -> Course:
        """The dataset at each position."""
        return self.run.course(self.begin)

    @property
    def start(self) -> int:
        """Position within its epoch at which the run begins (``begin``)."""
        return self.begin.position

    @property
    def end(self) -> int | None:
        """One past the last position; None: without end."""
        schedule, mixture = self.course.schedule, self.run.mixture
        # Weights for exhausted datasets alone end the epoch where they begin.
        begun = [s.start for s in schedule.changes if s.start <= self.start]
        ends = [
            None if end is None else max(end, *begun, 0)
            for end in ends_by_datasets(self.course, mixture.stop)
        ]
        if mixture.max_steps is not None:
            ends.append(self._end_of_steps(mixture.max_steps))
        if mixture.max_tokens is not None:
            ends.append(schedule.position_of_tokens(mixture.max_tokens))
        return min((end for end in ends if end is not None), default=None)

    @lazy
    def balanced(self) -> Dealing | None:
        """Deals sequences to ranks by cost, if ranks are balanced."""
        begin, balance = self.begin, self.run.balance
        if balance is None or begin.ranks is None:
            return None
        divisions = MixtureDivisions(
            self.course, ranks=begin.ranks, cuts=cuts_in(begin)
        )
        return Dealing(
            self.reading,
            balance=balance,
            key=derive_key(begin.seed, begin.epoch, "mixture", "balance"),
            costs=self.run.costs,
            ranks=begin.ranks,
            divisions=divisions.division_of,
        )

    def _end_of_steps(self, max_steps: int) -> int:
        """One past the last position of the steps with smaller numbers.

        Skips made with other step sizes leave incomplete steps: the last one is filled
        up.
        """
        begin, step_sequences = self.begin, self.run.step_sequences
        if max_steps <= begin.step:
            return begin.position + (max_steps - begin.step) * step_sequences
        endless = self.run.route(
            self,
            start=begin.position,
            end=None,
            drop_last=True,
            first_step=begin.step,
            skipped=begin.skipped,
        )
        return endless.span(StepIndex(0), endless.index_of(Step(max_steps)))[1]

    @property
    def epoch_positions(self) -> float:
        """Positions that an epoch takes of the dataset that ends its epoch first."""
        shares, run = self._largest_shares, self.run
        sizes = zip(run.names, run.indexes, strict=True)
        return min(
            index.num_sequences / max(RARE, shares[name]) for name, index in sizes
        )

    @property
    def num_tokens_before(self) -> int:
        """Tokens delivered before ``begin``, from the mean length of each dataset."""
        counts = self.stats().items()
        return int(sum(count for name, count in counts if name.endswith("/tokens")))

    def log(self) -> None:
        """Log tokens, share and epochs of each dataset."""
        end = last_position(self.course, self.end)
        lines = totals_as_text(totals(self.course, end), self.run.step_sequences)
        logger.info(
            "the run of the mixture%s:\n  %s",
            ", until every dataset was delivered once" if self.end is None else "",
            "\n  ".join(lines),
        )

    def stats(self) -> dict[str, float]:
        """Return sequences before ``begin``, and tokens by the mean of a sequence."""
        components, position = self.course.schedule.components, self.begin.position
        stats, counts = {}, counts_before(self, position)
        for begin, end in self.begin.skipped:
            if begin < position:
                counts -= counts_before(self, min(end, position))
                counts += counts_before(self, begin)
        for component, count in zip(components, counts.tolist(), strict=True):
            name, tokens = component.name, count * component.sequence_tokens
            stats[f"{name}/sequences"] = count
            if component.num_tokens:
                stats[f"{name}/tokens"] = round(tokens)
        return stats

    def horizon(self, memory: int) -> int:
        """Return how many sequences to plan, so that few pages are read twice."""
        shares, run = self._largest_shares, self.run
        num_ranks, horizons = self.route.world_size, [0.0]
        for name, orders in zip(run.names, run.orders(self.begin.epoch), strict=True):
            ahead = orders.ahead(self.begin, memory, num_ranks)
            horizons.append(ahead / max(RARE, shares[name]))
        return min(int(max(horizons)) // num_ranks, 2 * MAX_HORIZON)

    @lazy
    def _largest_shares(self) -> dict[str | None, float]:
        schedule = self.course.schedule
        shares = np.array([span.weights for span in schedule.changes])
        largest = (shares / shares.sum(axis=1, keepdims=True)).max(axis=0)
        return dict(zip(schedule.names, largest.tolist(), strict=True))

    def at(self, positions: Positions) -> Iterator[Sequences | None]:
        """Yield the sequences at positions, some at a time; None while it plans."""
        if self.balanced is None:
            yield from self.unbalanced(positions)
        else:
            yield (yield from self.balanced.reading(positions))

    def reading(self, positions: Positions) -> Generator[None, None, Sequences]:
        """Find the sequences at rising positions, before ranks are balanced."""
        return gathered(self.unbalanced(positions))

    def unbalanced(self, positions: Positions) -> Iterator[Sequences | None]:
        """Yield the sequences before ranks are balanced."""
        begun = self.begin.epoch
        at_once = AT_ONCE // 4 if self.run.shuffle.in_order else AT_ONCE
        for first in range(0, len(positions), at_once):
            some = positions[first : first + at_once]
            if isinstance(some, range):
                some = np.arange(some.start, some.stop, some.step)
            dataset, local = self.course.at(some)
            yield None
            parts = []
            for member in np.flatnonzero(np.bincount(dataset)).tolist():
                which = np.flatnonzero(dataset == member)
                component = self.course.schedule.components[member]
                for epoch, now, offsets in component.by_epoch(local[which]):
                    ours, order = self._order(component, epoch)
                    sequences = yield from order.reading(offsets)
                    numbered = self._numbered(ours, sequences, epoch, begun)
                    parts.append((which[now], numbered))
                    yield None
            yield Sequences.placed(len(dataset), parts)

    def local_sequences(self, dataset: int, local: Int64Array) -> Int64Array:
        """Return the sequences of one dataset at its local positions: int64 [local].

        Args:
            dataset: Its number in the schedule.
            local: The positions.
        """
        component = self.course.schedule.components[dataset]
        sequences = np.empty(len(local), dtype=np.int64)
        for epoch, now, offsets in component.by_epoch(local):
            ours, order = self._order(component, epoch)
            sequences[now] = self.run.index.first_sequence[ours] + order.at(offsets)
        return sequences

    def positions(self, sequences_of: SequencesOf, now: int) -> Int64Array:
        """Return the positions of sequences in the current epoch: int64.

        If the run has no end, up to the end of the next epoch of their dataset.
        """
        schedule, end = self.course.schedule, self.end
        following = self.course.following(now if end is None else max(end, self.start))
        positions = [np.empty(0, dtype=np.int64)]
        for ours, sequences in sequences_of:
            dataset = schedule.names.index(self.run.names[ours] or "")
            component = schedule.components[dataset]
            # Epochs that any lane has begun: lanes of a small dataset are far apart.
            begun = math.ceil(component.num_epochs(int(following[dataset].max())))
            for epoch in range(begun + (end is None)):
                if self.run.entry_of(component, epoch) != ours:
                    continue
                local = self._order(component, epoch)[1].positions(sequences)
                local += component.begin_of(epoch)
                positions.append(self.course.positions(dataset, local))
        joined = np.concatenate(positions)
        joined = joined[joined >= 0]
        return joined if self.balanced is None else self.balanced.moved(joined)

    def _prepare_epoch_after(self, position: RunPosition) -> Iterator[None]:  # noqa: ARG002
        yield from ()

    def _moved(self, state: LoaderState, position: RunPosition) -> LoaderState:
        # Positions skipped after the last step may have used step numbers beyond it.
        most = self.run.mixture.max_steps
        step = state.step if most is None else min(state.step, most)
        return replace(state, position=position, step=step)

    def _order(self, component: Component, epoch: int) -> tuple[int, Ordered]:
        """Return the number of the dataset with an epoch's data, and its order."""
        entry = self.run.entry_of(component, epoch)
        if entry is None:
            raise InvalidArgumentError(
                f"epoch {epoch} of dataset {component.name!r} was delivered before "
                "this run, and the mixture does not have the data of that epoch"
            )
        orders = self.run.orders(self.begin.epoch)[entry]
        return entry, orders.of(epoch, self.begin.num_lanes)


@dataclass(kw_only=True, eq=False)
class MixtureRun(Run):
    """A mixture. Datasets are numbered in the order of their names.

    Raises:
        InvalidArgumentError: If a dataset with a weight holds no sequence, or the
            stages do not begin one after another.
    """

    _cursor = MixtureCursor
    is_of_state: ClassVar[bool] = True

    mixture: Mixture
    """The datasets, and how they are mixed."""
    names: list[str] = field(init=False)
    """Names of the datasets with sequences, in order."""

    def __post_init__(self) -> None:
        datasets, sequences = self.mixture.datasets, self.sequences
        bound = {
            name: sequences.index(datasets[name].spans) for name in sorted(datasets)
        }
        # A dataset without a sequence and without a weight is left out.
        names = [name for name, index in bound.items() if index.num_sequences]
        for name, index in bound.items():
            if self.mixture.needs(name) or not names:
                check_bound(index, datasets[name], f"dataset {name!r}", sequences)
        if len(names) > 1:
            check_tokenizers(datasets, recorded=True)
        indexes = [bound[name] for name in names]
        self._number(names, [datasets[name] for name in names], indexes)
        self.orders = lru_cache(maxsize=2)(self._make_orders)
        """Returns the orders of all datasets in an epoch of the run."""
        self._course = lru_cache(maxsize=2)(self._make_course)
        self.datasets_in = datasets_in(lambda state: MixtureCursor(self, state))
        self._last_course: Course | None = None
        components = make_components(self.mixture, names, self.datasets, indexes)
        self.components = components
        """The datasets as a schedule knows them."""
        sizes = [(c.num_tokens, c.num_sequences) for c in self.components]
        largest = sizes.index(max(sizes))
        orders = self.orders(0)[largest]
        if self.components[largest].num_sequences > orders.num_lanes:
            orders.check_window()
        anchor = Anchor(step_sequences=self.step_sequences)
        schedule = resolve(self.mixture, self.components, anchor)
        self.initial = self._initial_state(
            orders.num_lanes, "mixture", mixture=schedule
        )
        check_size(self.initial)
        # A state may bring another course, so the course is checked when a loop begins;
        # here only if datasets may run out before weights change.
        if self.mixture.max_epochs and len(schedule.changes) > 1:
            self.course(self.initial)

    def _make_orders(self, epoch: int) -> list[DatasetOrder]:
        return [
            DatasetOrder(
                run=self,
                dataset_number=entry,
                seed=self.seed if epoch == 0 else derive_key(self.seed, "pass", epoch),
                name=name,
                least_lanes=LEAST_LANES,
                auto_bytes=NODE_BYTES // 8,  # There may be many in one memory.
            )
            for entry, name in enumerate(self.names)
        ]

    def entry_of(self, component: Component, epoch: int) -> int | None:
        """Return the number of the dataset with the data of an epoch of a component.

        None if the data are gone.

        Raises:
            InvalidArgumentError: If there is no such dataset.
        """
        if component.name not in self.names:
            raise InvalidArgumentError(
                f"dataset {component.name!r} was delivered before this run, which does "
                f"not have it: it has {', '.join(self.names)}; give it, with a weight "
                "of 0, to look back"
            )
        entry = self.names.index(component.name)
        return entry if component.former(epoch) is None else None

    def course(self, begin: LoaderState) -> Course:
        """Return the course of positions from the state of an iteration.

        Raises:
            InvalidArgumentError: If its schedule cannot be followed.
        """
        return self._course(schedule_of(begin), begin.num_lanes)

    def _make_course(self, schedule: Schedule, num_lanes: int) -> Course:
        make = CourseInOrder if self.shuffle.in_order else Course
        before = self._last_course
        course = make(schedule, num_lanes=num_lanes, seed=self.seed, before=before)
        self._last_course = course
        return course

    def beginning(self, epoch: int) -> LoaderState:
        """Return the state in which an iteration begins with this epoch."""
        begin = super().beginning(epoch)
        return with_cuts(begin, self._cuts(begin, 0))

    def first_of(self, state: LoaderState) -> LoaderState:
        """Return where the iteration of a state began, with the weights that it has."""
        return super().first_of(state).having(mixture=state.parts.get("mixture"))

    def rest(self, state: LoaderState, grown: Grown | None) -> tuple[Run, LoaderState]:
        """Return this run, or one with the data of earlier epochs, and the state."""
        state.check_run(self.initial)
        if grown is None and not schedule_of(state).has_grown:
            return self, self.accept(state)
        return rest_of_run(self, state, grown)

    def _adopt(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it, see :func:`adopt`."""
        if not self.knows(schedule_of(state)):
            raise StateMismatchError(
                "data were added to a dataset in the epoch of the state, and this run "
                "has only the present data: load the state with a Loader of the mixture"
            )
        state.check_run(self.initial)
        state.check_lanes(max(len(dataset.index) for dataset in self.datasets))
        anchor = Anchor(
            position=state.position,
            step=state.step,
            step_sequences=self.step_sequences,
        )
        border = self.border(state)
        theirs = schedule_of(state)
        schedule = adopt(theirs, self.mixture, self.components, anchor, border)
        return self._checked(state.having(mixture=schedule), border)

    def route(self, cursor: Cursor, **settings: Any) -> Route:
        """Return a route of a cursor's rank, with these settings of :class:`Route`."""
        plain = super().route(cursor, **settings)
        return plain if self.fleet is not None else by_turns(plain, cursor.begin)

    def knows(self, schedule: Schedule) -> bool:
        """Return whether the run has the data of all epochs that are ahead."""
        return not schedule.has_grown

    def reweighted(
        self, state: LoaderState, weights: Mapping[str, float], anneal: int
    ) -> LoaderState:
        """Return a state with new weights from its position on.

        Args:
            state: The state.
            weights: Weights by name, as the mixture counts them.
            anneal: Positions over which the weights change to these.

        Raises:
            InvalidArgumentError: If the weights cannot be right, or the state would
                grow too long.
        """
        check_weights(weights, self.mixture.datasets)
        empty = [n for n, weight in weights.items() if weight and n not in self.names]
        if empty:
            raise InvalidArgumentError(
                f"{', '.join(map(repr, empty))}: no sequence to give a weight to"
            )
        schedule, position = schedule_of(state), self.border(state)
        if position > self.course(state).end_of_changes:
            raise InvalidArgumentError(
                "the mixture has run out, but for its last sequences: weights cannot "
                "change any more; set them earlier, or raise max_epochs"
            )
        by_sequence = sequence_weights(self.mixture, schedule.components, weights)
        changed = schedule.reweighted(position, anneal, by_sequence)
        return self._checked(state.having(mixture=changed), position)

    def border(self, state: LoaderState) -> int:
        """Return the first position at which weights may change.

        With balanced ranks it is the end of the stretch. Some of its sequences were
        delivered early, so the rest of the stretch stays as it was dealt.
        """
        balanced, position = MixtureCursor(self, state).balanced, state.position
        return position if balanced is None else balanced.next_border(position)

    def _cuts(self, state: LoaderState, border: int) -> tuple[int, ...]:
        if self.balance is None:
            return cuts_in(state)
        return cuts_of(self.mixture, self.step_sequences, state, border)

    def _checked(self, state: LoaderState, border: int) -> LoaderState:
        """Refuse a schedule that cannot be followed, before anything moves."""
        state = with_cuts(state, self._cuts(state, border))
        self.course(state)
        check_size(state)
        return state
