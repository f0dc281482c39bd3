"""What a run of a mixture delivers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pagefeed._base import Int64Array, sorted_with_places
from pagefeed.dataset import Dataset
from pagefeed.errors import InvalidArgumentError, PagefeedError, StateMismatchError
from pagefeed.mixture import (
    LEAST_LANES,
    Anchor,
    Course,
    CourseInOrder,
    Mixture,
    Schedule,
    adopt,
    check_weights,
    resolve,
    sequence_weights,
)
from pagefeed.order import EpochOrder, Shuffle, SmallOrder, derive_key
from pagefeed.run.damage import sequences_of_damage
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.epochs import MAX_HORIZON, Held, bind_checked
from pagefeed.run.mixed_parts import make_parts
from pagefeed.run.provenance import Origin, number_of_row, origins_of_sequence
from pagefeed.run.route import Route
from pagefeed.run.state import LoaderState
from pagefeed.sequences import JoinedIndex, SequenceSetting

__all__ = ["MAX_STATE_BYTES", "MixtureSupply"]

MAX_STATE_BYTES = 128 << 10
"""Room for some 2,000 datasets; a state with more of them and stages is refused."""
AT_ONCE = 1 << 15
"""Positions looked at in a step; of datasets in order fewer, as they take longer."""
RARE = 0.05
"""Pages of a dataset with a smaller share may be read again: plans end somewhere."""


class MixtureSupply:
    """A mixture: each epoch of the run is its whole schedule, under other orders.

    Sequences are numbered through the datasets, by their names.

    Args:
        mixture: The datasets, and how they are mixed.
        sequences: How to cut them.
        seed: Seed of the run.
        shuffle: How to shuffle each.
        world_size: Number of ranks.
        step_sequences: Sequences of a step on all ranks, by which stages begin at
            steps.
        memory: Bytes that the orders may hold of what they read ahead.

    Raises:
        InvalidArgumentError: If a dataset holds no sequence, or the stages do not begin
            one after another.
    """

    def __init__(
        self,
        mixture: Mixture,
        *,
        sequences: SequenceSetting,
        seed: int,
        shuffle: Shuffle,
        world_size: int,
        step_sequences: int,
        memory: int,
    ) -> None:
        self.mixture = mixture
        self._seed = seed
        self._in_order = shuffle.in_order
        self.names = sorted(mixture.datasets)
        """Names of the datasets, in the order in which they are numbered."""
        self.datasets: Sequence[Dataset] = [
            mixture.datasets[name] for name in self.names
        ]
        self.sequences_of = [
            bind_checked(sequences, dataset, f"dataset {name!r}")
            for name, dataset in zip(self.names, self.datasets, strict=True)
        ]
        """The datasets, cut."""
        self.cut = JoinedIndex(self.sequences_of, [len(d.index) for d in self.datasets])
        self._make_orders = lambda epoch: [
            DatasetOrder(
                dataset,
                fingerprint=f"{dataset.fingerprint} {sequences.identity}",
                index=index,
                seed=seed if epoch == 0 else derive_key(seed, "pass", epoch),
                shuffle=shuffle,
                world_size=world_size,
                least_lanes=LEAST_LANES,
                memory=memory // len(self.datasets),
                name=name,
            )
            for name, dataset, index in zip(
                self.names, self.datasets, self.sequences_of, strict=True
            )
        ]
        self.orders = lru_cache(maxsize=2)(self._make_orders)
        """The orders of the datasets in an epoch of the run."""
        self._course = lru_cache(maxsize=4)(self._make_course)
        self.parts = make_parts(mixture, self.names, self.datasets, self.sequences_of)
        """The datasets as a schedule knows them."""
        sizes = [(part.num_tokens, part.num_sequences) for part in self.parts]
        largest = sizes.index(max(sizes))
        self.plan = LoaderState(
            num_lanes=self.orders(0)[largest].num_lanes,
            seed=seed,
            dataset="mixture",
            sequences=sequences.identity,
            shuffle=shuffle.identity,
            mixture=resolve(mixture, self.parts, Anchor(step_sequences=step_sequences)),
        )
        # Its course is not looked at yet: a state may bring another.
        _check_size(self.plan)

    def course(self, begin: LoaderState) -> Course:
        """Return the course of positions from the state of an iteration."""
        return self._course(_schedule(begin), begin.num_lanes)

    def _make_course(self, schedule: Schedule, num_lanes: int) -> Course:
        make = CourseInOrder if self._in_order else Course
        return make(schedule, num_lanes=num_lanes, seed=self._seed)

    def start(self, begin: LoaderState) -> int:
        """Return the position of ``begin``, counted in its epoch."""
        return begin.position

    def end(
        self,
        begin: LoaderState,
        epochs: int | None,  # noqa: ARG002 - always one
        step_sequences: int,
    ) -> int | None:
        """Return one past the last position; None: without end."""
        course, schedule, mixture = self.course(begin), _schedule(begin), self.mixture
        ends = [course.natural_end]
        if mixture.max_steps is not None:
            ends.append(_end_of_steps(begin, mixture.max_steps, step_sequences))
        if mixture.max_tokens is not None:
            ends.append(schedule.position_of_tokens(mixture.max_tokens))
        if mixture.stop is not None:
            done = [
                course.delivered(number, schedule.parts[number].max_epochs or 1)
                for number in range(len(schedule.parts))
            ]
            known = [place for place in done if place is not None]
            if known:
                first = mixture.stop == "first_exhausted"
                ends.append(min(known) if first else max(known))
        return min((end for end in ends if end is not None), default=None)

    def state_at(self, begin: LoaderState, position: int) -> LoaderState:
        """Return the state at a position."""
        return replace(begin, position=position)

    def deliver(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[Int64Array | None]:
        """Yield the sequences at positions, some at a time."""
        course, names = self.course(begin), _schedule(begin).names
        at_once = AT_ONCE // 4 if self._in_order else AT_ONCE
        for first in range(0, len(positions), at_once):
            dataset, local = course.at(positions[first : first + at_once])
            yield None
            found = np.empty(len(dataset), dtype=np.int64)
            for number in np.flatnonzero(np.bincount(dataset)).tolist():
                which = np.flatnonzero(dataset == number)
                ours = self._number_of(names[number])
                for order, now, places in self._epochs(begin, ours, local[which]):
                    sequences = yield from order.reading(places)
                    found[which[now]] = sequences + self.cut.first_sequence[ours]
                    yield None
            yield found

    def local_sequences(
        self, begin: LoaderState, number: int, local: Int64Array
    ) -> Int64Array:
        """Return the sequences of one dataset at its local positions: int64 [local]."""
        sequences = np.empty(len(local), dtype=np.int64)
        for order, now, places in self._epochs(begin, number, local):
            sequences[now] = order.at(places)
        return sequences

    def _epochs(
        self, begin: LoaderState, number: int, local: Int64Array
    ) -> Iterator[tuple[EpochOrder | SmallOrder, Int64Array, Int64Array]]:
        """Yield the orders of local positions: which are of it, and at which places."""
        orders = self.orders(begin.epoch)[number]
        epoch, place = np.divmod(local, self.sequences_of[number].num_sequences)
        rising, which = sorted_with_places(epoch)
        borders = np.flatnonzero(np.diff(rising, prepend=-1))
        ends = np.append(borders[1:], len(which))[: len(borders)].tolist()
        # Of one epoch the places stay in order.
        for first, end in zip(borders.tolist(), ends, strict=True):
            now = which[first:end]
            yield orders.of(int(rising[first]), begin.num_lanes), now, place[now]

    def _number_of(self, name: str) -> int:
        if name not in self.names:
            raise InvalidArgumentError(
                f"dataset {name!r} was delivered before this run, which does not have "
                f"it: it has {', '.join(self.names)}; give it, with a weight of 0, to "
                "look back"
            )
        return self.names.index(name)

    def begin_next_epoch(
        self,
        begin: LoaderState,  # noqa: ARG002 - datasets begin theirs at their own time
        position: int,  # noqa: ARG002
        end: int | None,  # noqa: ARG002
    ) -> Iterator[None]:
        """Do nothing: every dataset begins its epochs when its lanes reach them."""
        yield from ()

    @property
    def is_scattered(self) -> bool:
        """Whether a page's sequences are anywhere: it is read for each of them."""
        return any(orders.is_scattered for orders in self.orders(0))

    def document_sequences(self, file: str, row: int) -> Held:
        """Return the sequences with tokens of a document, in each dataset."""
        holding = [n for n, data in enumerate(self.datasets) if _holds(data, file)]
        if not holding:
            number_of_row(self.datasets[0].spans, file, row)  # Says what there is.
        held = []
        for ours in holding:
            place = number_of_row(self.datasets[ours].spans, file, row)
            if place is not None:
                held.append((ours, self.sequences_of[ours].sequences_of_row(place)))
        return held

    def damaged_sequences(self, error: PagefeedError) -> Held:
        """Return the sequences with tokens of what an error about data names."""
        return [
            (number, sequences_of_damage(dataset, sequences, error))
            for number, (dataset, sequences) in enumerate(
                zip(self.datasets, self.sequences_of, strict=True)
            )
        ]

    def positions(
        self, begin: LoaderState, now: LoaderState, end: int | None, held: Held
    ) -> Int64Array:
        """Return the positions of sequences in the current epoch: int64.

        Without an end, those up to the end of the next epoch of their dataset.
        """
        course, schedule = self.course(begin), _schedule(begin)
        counts = course.counts(now.position if end is None else end)
        found = [np.empty(0, dtype=np.int64)]
        for ours, sequences in held:
            number = schedule.names.index(self.names[ours])
            num_sequences = self.sequences_of[ours].num_sequences
            for epoch in range(int(counts[number]) // num_sequences + 2):
                order = self.orders(begin.epoch)[ours].of(epoch, begin.num_lanes)
                places = epoch * num_sequences + order.positions(sequences)
                found.append(course.positions(number, places))
        positions = np.concatenate(found)
        return positions[positions >= 0]

    def origins(self, sequence: int) -> list[Origin]:
        """Return where the tokens of a sequence come from."""
        number = int(self.cut.dataset_of(np.array([sequence]))[0])
        local = sequence - int(self.cut.first_sequence[number])
        index, sequences = self.datasets[number].index, self.sequences_of[number]
        return [
            replace(source, dataset=self.names[number])
            for source in origins_of_sequence(index, sequences, local)
        ]

    def accept(
        self, state: LoaderState, begin: LoaderState, step_sequences: int
    ) -> LoaderState:
        """Return a saved state as this run continues it, see :func:`adopt`."""
        state.check_plan(begin)
        state.check_lanes(max(len(dataset.index) for dataset in self.datasets))
        anchor = Anchor(
            position=state.position, step=state.step, step_sequences=step_sequences
        )
        schedule = adopt(_schedule(state), self.mixture, self.parts, anchor)
        return self._checked(replace(state, mixture=schedule))

    def reweighted(
        self, state: LoaderState, weights: Mapping[str, float], anneal: int
    ) -> LoaderState:
        """Return a state with new weights from its position on.

        Args:
            state: The state.
            weights: Weights by name, as the mixture counts them.
            anneal: Positions over which the weights turn into these.

        Raises:
            InvalidArgumentError: If the weights cannot be right, or the state would
                grow too long.
        """
        check_weights(weights, self.mixture.datasets)
        schedule = _schedule(state)
        if state.position > self.course(state).end_of_changes:
            raise InvalidArgumentError(
                "the mixture has run out, but for its last sequences: weights cannot "
                "change any more; set them earlier, or raise max_epochs"
            )
        by_sequence = sequence_weights(self.mixture, schedule.parts, weights)
        changed = schedule.changed(state.position, anneal, by_sequence)
        return self._checked(replace(state, mixture=changed))

    def _checked(self, state: LoaderState) -> LoaderState:
        """Refuse a schedule that cannot be followed, before anything moves."""
        self.course(state)
        _check_size(state)
        return state

    def horizon_sequences(
        self, begin: LoaderState, memory: int, world_size: int
    ) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well."""
        schedule = _schedule(begin)
        shares = dict(zip(schedule.names, _largest_shares(schedule), strict=True))
        horizons = [0.0]
        for name, orders, sequences in zip(
            self.names, self.orders(begin.epoch), self.sequences_of, strict=True
        ):
            if orders.is_scattered:
                held = int(memory / max(1.0, orders.page_bytes))
                window = min(held, sequences.num_sequences) * world_size
            else:
                window = orders.window(begin.num_lanes) * begin.num_lanes
            horizons.append(2 * window / max(RARE, shares[name]))
        return min(int(max(horizons)) // world_size, 2 * MAX_HORIZON)

    def stats(self, state: LoaderState) -> dict[str, float]:
        """Return sequences, and tokens by mean tokens of a sequence, before a state."""
        course, found = self.course(state), {}
        counts = course.counts(state.position)
        for begin, end in state.skipped:
            if begin < state.position:
                skipped = course.counts(min(end, state.position))
                counts -= skipped - course.counts(begin)
        for part, count in zip(course.schedule.parts, counts.tolist(), strict=True):
            found[f"{part.name}/sequences"] = count
            if part.num_tokens:
                found[f"{part.name}/tokens"] = round(count * part.sequence_tokens)
        return found


def _schedule(state: LoaderState) -> Schedule:
    if state.mixture is None:
        raise StateMismatchError(
            "the state is of a mixture, but holds no datasets and weights; expected "
            "what state_dict() returned"
        )
    return state.mixture


def _end_of_steps(begin: LoaderState, max_steps: int, step_sequences: int) -> int:
    """One past the last position of the steps with smaller numbers.

    Skips of other sizes leave steps that are not whole: the last one is filled up.
    """
    endless = Route(
        start=begin.position,
        end=None,
        batch_size=step_sequences,
        rank=0,
        world_size=1,
        drop_last=True,
        first_step=begin.step,
        skipped=begin.skipped,
    )
    if max_steps <= begin.step:
        return begin.position + (max_steps - begin.step) * step_sequences
    return endless.span(0, endless.index_of(max_steps))[1]


def _largest_shares(schedule: Schedule) -> list[float]:
    shares = np.array([span.weights for span in schedule.changes])
    largest: list[float] = (shares / shares.sum(axis=1, keepdims=True)).max(axis=0)
    return list(largest)


def _holds(dataset: Dataset, file: str) -> bool:
    return dataset.index.find_file(file) is not None


def _check_size(state: LoaderState) -> None:
    size = len(json.dumps(state.to_dict()))
    if size > MAX_STATE_BYTES:
        schedule = _schedule(state)
        raise InvalidArgumentError(
            f"{len(schedule.parts)} datasets and {len(schedule.changes)} changes of "
            f"their weights make a state of {size} bytes; at most {MAX_STATE_BYTES} "
            "are kept: change weights less often, or join datasets"
        )
