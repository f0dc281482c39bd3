"""What a run of a mixture delivers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pagefeed.dataset import Dataset
from pagefeed.errors import InvalidArgumentError, PagefeedError
from pagefeed.mixture import (
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
from pagefeed.order import Balance, Costs, Shuffle
from pagefeed.run.damage import sequences_of_damage
from pagefeed.run.mixed_datasets import MixedDatasets, make_parts
from pagefeed.run.mixed_track import MixtureTrack, schedule_of
from pagefeed.run.provenance import Origin, number_of_row, origins_of_sequence
from pagefeed.run.source import Held
from pagefeed.run.state import LoaderState
from pagefeed.sequences import JoinedIndex, SequenceSetting

__all__ = ["MAX_STATE_BYTES", "MixtureSource"]

MAX_STATE_BYTES = 128 << 10
"""Room for some 2,000 datasets; a state with more of them and stages is refused."""


class MixtureSource:
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
        balance: How ranks are balanced.

    Raises:
        InvalidArgumentError: If a dataset with a weight holds no sequence, or the
            stages do not begin one after another.
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
        balance: Balance | None = None,
    ) -> None:
        self.mixture = mixture
        self.world_size = world_size
        self.step_sequences = step_sequences
        self._seed = seed
        self.data = MixedDatasets(
            mixture,
            sequences=sequences,
            seed=seed,
            shuffle=shuffle,
            world_size=world_size,
            memory=memory,
            balance=balance,
        )
        """The datasets, cut and shuffled."""
        self._course = lru_cache(maxsize=4)(self._make_course)
        self.parts = make_parts(mixture, self.data)
        """The datasets as a schedule knows them."""
        sizes = [(part.num_tokens, part.num_sequences) for part in self.parts]
        largest = sizes.index(max(sizes))
        orders = self.data.orders(0)[largest]
        if self.parts[largest].num_sequences > orders.num_lanes:
            orders.check_window()
        self.plan = LoaderState(
            num_lanes=orders.num_lanes,
            seed=seed,
            dataset="mixture",
            sequences=sequences.identity,
            shuffle=shuffle.identity,
            balance=None if balance is None else balance.identity,
            ranks=None if balance is None else world_size,
            mixture=resolve(mixture, self.parts, Anchor(step_sequences=step_sequences)),
        )
        # Its course is not looked at yet: a state may bring another.
        _check_size(self.plan)

    @property
    def index(self) -> JoinedIndex:
        """The sequences of all datasets, numbered through."""
        return self.data.index

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The datasets, by number."""
        return self.data.datasets

    def at(self, begin: LoaderState) -> MixtureTrack:
        """Return the way on from a state."""
        return MixtureTrack(
            begin=begin,
            course=self.course(begin),
            mixture=self.mixture,
            data=self.data,
            world_size=self.world_size,
            step_sequences=self.step_sequences,
        )

    def course(self, begin: LoaderState) -> Course:
        """Return the course of positions from the state of an iteration."""
        return self._course(schedule_of(begin), begin.num_lanes)

    def _make_course(self, schedule: Schedule, num_lanes: int) -> Course:
        make = CourseInOrder if self.data.in_order else Course
        return make(schedule, num_lanes=num_lanes, seed=self._seed)

    @property
    def costs(self) -> Costs:
        """Gives what sequences cost, where ranks are balanced."""
        return self.data.costs

    @property
    def is_scattered(self) -> bool:
        """Whether a page's sequences are anywhere: it is read for each of them."""
        return any(orders.is_scattered for orders in self.data.orders(0))

    def document_sequences(self, file: str, row: int) -> Held:
        """Return the sequences with tokens of a document, in each dataset."""
        holding = [n for n, data in enumerate(self.datasets) if _holds(data, file)]
        if not holding:
            number_of_row(self.datasets[0].spans, file, row)  # Says what there is.
        held = []
        for ours in holding:
            place = number_of_row(self.datasets[ours].spans, file, row)
            if place is not None:
                held.append((ours, self.data.indexes[ours].sequences_of_row(place)))
        return held

    def damaged_sequences(self, error: PagefeedError) -> Held:
        """Return the sequences with tokens of what an error about data names."""
        return [
            (number, sequences_of_damage(dataset, sequences, error))
            for number, (dataset, sequences) in enumerate(
                zip(self.datasets, self.data.indexes, strict=True)
            )
        ]

    def origins(self, sequence: int) -> list[Origin]:
        """Return where the tokens of a sequence come from."""
        number = int(self.index.dataset_of(np.array([sequence]))[0])
        local = sequence - int(self.index.first_sequence[number])
        index, sequences = self.datasets[number].index, self.data.indexes[number]
        return [
            replace(source, dataset=self.data.names[number])
            for source in origins_of_sequence(index, sequences, local)
        ]

    def accept(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it, see :func:`adopt`."""
        state.check_plan(self.plan)
        state.check_lanes(max(len(dataset.index) for dataset in self.datasets))
        anchor = Anchor(
            position=state.position,
            step=state.step,
            step_sequences=self.step_sequences,
        )
        schedule = adopt(
            schedule_of(state), self.mixture, self.parts, anchor, self._border(state)
        )
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
        empty = [
            n for n, weight in weights.items() if weight and n not in self.data.names
        ]
        if empty:
            raise InvalidArgumentError(
                f"{', '.join(map(repr, empty))}: no sequence to give a weight to"
            )
        schedule, position = schedule_of(state), self._border(state)
        if position > self.course(state).end_of_changes:
            raise InvalidArgumentError(
                "the mixture has run out, but for its last sequences: weights cannot "
                "change any more; set them earlier, or raise max_epochs"
            )
        by_sequence = sequence_weights(self.mixture, schedule.parts, weights)
        changed = schedule.changed(position, anneal, by_sequence)
        return self._checked(replace(state, mixture=changed))

    def _border(self, state: LoaderState) -> int:
        """Return the first position from which on weights may change.

        Where ranks are balanced it is the end of a stretch: its sequences, of which
        some were delivered before their turn, all come as they would have.
        """
        balanced = self.at(state).balanced
        return (
            state.position if balanced is None else balanced.next_border(state.position)
        )

    def _checked(self, state: LoaderState) -> LoaderState:
        """Refuse a schedule that cannot be followed, before anything moves."""
        self.course(state)
        _check_size(state)
        return state


def _holds(dataset: Dataset, file: str) -> bool:
    return dataset.index.find_file(file) is not None


def _check_size(state: LoaderState) -> None:
    size = len(json.dumps(state.to_dict()))
    if size > MAX_STATE_BYTES:
        schedule = schedule_of(state)
        raise InvalidArgumentError(
            f"{len(schedule.parts)} datasets and {len(schedule.changes)} changes of "
            f"their weights make a state of {size} bytes; at most {MAX_STATE_BYTES} "
            "are kept: change weights less often, or join datasets"
        )
