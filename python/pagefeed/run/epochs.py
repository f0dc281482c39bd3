"""What a run delivers: one dataset, epoch after epoch, or a mixture of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset
from pagefeed.errors import InvalidArgumentError, PagefeedError, StateMismatchError
from pagefeed.order import EpochOrder, Shuffle, SmallOrder
from pagefeed.run.damage import sequences_of_damage
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.provenance import Origin, number_of_row, origins_of_sequence
from pagefeed.run.state import LoaderState
from pagefeed.sequences import Documents, SequenceIndex, Sequences, SequenceSetting

__all__ = ["EpochSupply", "Held", "Supply", "bind_checked", "check_metadata"]

Held: TypeAlias = Sequence[tuple[int, Int64Array]]
"""Sequences of datasets: the number of each dataset, and those of its sequences."""

MAX_HORIZON = 1 << 17
"""Sequences planned ahead at most where there are no blocks."""


class Supply(Protocol):
    """Positions of an iteration to sequences, the same at any number of ranks.

    Positions are counted as the supply likes; where an iteration begins and ends is
    told by the state from which it iterates: its ``begin``.
    """

    @property
    def cut(self) -> Sequences:
        """What the sequences are."""

    @property
    def datasets(self) -> Sequence[Dataset]:
        """What they are cut from, in the order in which pages are numbered through."""

    @property
    def plan(self) -> LoaderState:
        """The beginning of epoch 0."""

    def start(self, begin: LoaderState) -> int:
        """Return the position of ``begin``."""

    def end(
        self, begin: LoaderState, epochs: int | None, step_sequences: int
    ) -> int | None:
        """Return one past the last position; None: without end."""

    def state_at(self, begin: LoaderState, position: int) -> LoaderState:
        """Return the state at a position."""

    def deliver(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[Int64Array | None]:
        """Yield the sequences at rising positions, in parts, and None after other work.

        No step takes more than a few milliseconds.
        """

    def begin_next_epoch(
        self, begin: LoaderState, position: int, end: int | None
    ) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""

    @property
    def is_scattered(self) -> bool:
        """Whether a page's sequences are anywhere: it is read for each of them."""

    def document_sequences(self, file: str, row: int) -> Held:
        """Return the sequences with tokens of a document."""

    def damaged_sequences(self, error: PagefeedError) -> Held:
        """Return the sequences with tokens of what an error about data names."""

    def positions(
        self, begin: LoaderState, now: LoaderState, end: int | None, held: Held
    ) -> Int64Array:
        """Return the positions of sequences in the epoch of ``now``: int64."""

    def origins(self, sequence: int) -> list[Origin]:
        """Return where the tokens of a sequence come from."""

    def accept(
        self, state: LoaderState, begin: LoaderState, step_sequences: int
    ) -> LoaderState:
        """Return a saved state as this run continues it.

        Raises:
            StateMismatchError: If it belongs to another run than that of ``begin``.
        """

    def horizon_sequences(
        self, begin: LoaderState, memory: int, world_size: int
    ) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well."""

    def stats(self, state: LoaderState) -> dict[str, float]:
        """Return counters of what was delivered before a state."""


class EpochSupply:
    """One dataset: position p is place ``p % n`` of epoch ``p // n``, n sequences each.

    Args:
        dataset: The dataset.
        sequences: How to cut it.
        seed: Seed of the run.
        shuffle: How to shuffle it.
        world_size: Number of ranks.
        memory: Bytes that its orders may hold of what they read ahead.

    Raises:
        InvalidArgumentError: If it holds no sequence.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        sequences: SequenceSetting,
        seed: int,
        shuffle: Shuffle,
        world_size: int,
        memory: int,
    ) -> None:
        self.dataset = dataset
        self.cut: SequenceIndex = bind_checked(sequences, dataset, repr(dataset))
        self.orders = DatasetOrder(
            dataset,
            fingerprint=f"{dataset.fingerprint} {sequences.identity}",
            index=self.cut,
            seed=seed,
            shuffle=shuffle,
            world_size=world_size,
            memory=memory,
        )
        self.plan = LoaderState(
            num_lanes=self.orders.num_lanes,
            seed=seed,
            dataset=dataset.fingerprint,
            sequences=sequences.identity,
            shuffle=shuffle.identity,
        )

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The dataset alone."""
        return [self.dataset]

    @property
    def num_sequences(self) -> int:
        """Sequences of an epoch."""
        return self.cut.num_sequences

    def start(self, begin: LoaderState) -> int:
        """Return the position of ``begin``, counted through all epochs."""
        return begin.epoch * self.num_sequences + begin.position

    def end(
        self,
        begin: LoaderState,
        epochs: int | None,
        step_sequences: int,  # noqa: ARG002 - an epoch does not count steps
    ) -> int | None:
        """Return one past the last position; None: without end."""
        if epochs is None:
            return None
        return (begin.first_epoch + epochs) * self.num_sequences

    def state_at(self, begin: LoaderState, position: int) -> LoaderState:
        """Return the state at a position."""
        epoch, within = divmod(position, self.num_sequences)
        lanes = self.num_lanes(begin, epoch)
        # Beyond its epoch the lanes of a state are forgotten: all must be as usual.
        is_usual = epoch == begin.epoch or begin.num_lanes == lanes
        return replace(
            begin,
            epoch=epoch,
            position=within,
            num_lanes=lanes,
            sizes=begin.sizes if is_usual else None,
        )

    def deliver(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[Int64Array | None]:
        """Yield the sequences at rising positions, in parts; None after other work."""
        # Epoch after epoch: of short ones only two orders are kept.
        for order, places in self._by_epoch(begin, positions):
            sequences = yield from order.reading(places)
            yield sequences

    def begin_next_epoch(
        self, begin: LoaderState, position: int, end: int | None
    ) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""
        epoch = position // self.num_sequences + 1
        if end is None or epoch * self.num_sequences < end:
            yield from self.orders.of(epoch, self.num_lanes(begin, epoch)).begin()

    @property
    def is_scattered(self) -> bool:
        """Whether a page's sequences are anywhere: it is read for each of them."""
        return self.orders.is_scattered

    def _by_epoch(
        self, begin: LoaderState, positions: Int64Array
    ) -> Iterator[tuple[EpochOrder | SmallOrder, Int64Array]]:
        """The order of each epoch, and the places in it that positions are."""
        done = 0
        while done < len(positions):
            epoch = int(positions[done]) // self.num_sequences
            first = epoch * self.num_sequences
            stop = int(np.searchsorted(positions, first + self.num_sequences))
            order = self.orders.of(epoch, self.num_lanes(begin, epoch))
            yield order, positions[done:stop] - first
            done = stop

    def num_lanes(self, begin: LoaderState, epoch: int) -> int:
        """Lanes of an epoch: those the state names, chosen anew for other epochs."""
        return begin.num_lanes if epoch == begin.epoch else self.orders.num_lanes

    def document_sequences(self, file: str, row: int) -> Held:
        """Return the sequences with tokens of a document."""
        number = number_of_row(self.dataset.spans, file, row)
        return [] if number is None else [(0, self.cut.sequences_of_row(number))]

    def damaged_sequences(self, error: PagefeedError) -> Held:
        """Return the sequences with tokens of what an error about data names."""
        return [(0, sequences_of_damage(self.dataset, self.cut, error))]

    def positions(
        self,
        begin: LoaderState,
        now: LoaderState,
        end: int | None,  # noqa: ARG002 - an epoch has one
        held: Held,
    ) -> Int64Array:
        """Return the positions of sequences in the epoch of ``now``: int64."""
        found, epoch = [np.empty(0, dtype=np.int64)], now.epoch
        for _, sequences in held:
            order = self.orders.of(epoch, self.num_lanes(begin, epoch))
            found.append(epoch * self.num_sequences + order.positions(sequences))
        return np.concatenate(found)

    def origins(self, sequence: int) -> list[Origin]:
        """Return where the tokens of a sequence come from."""
        return origins_of_sequence(self.dataset.index, self.cut, sequence)

    def accept(
        self,
        state: LoaderState,
        begin: LoaderState,
        step_sequences: int,  # noqa: ARG002 - nothing hangs on steps
    ) -> LoaderState:
        """Return a saved state as this run continues it."""
        state.check_plan(begin)
        state.check_lanes(len(self.dataset.index))
        if state.position >= self.num_sequences:
            raise StateMismatchError(
                f"the state has position={state.position}, an epoch has "
                f"{self.num_sequences} sequences"
            )
        return state

    def horizon_sequences(
        self, begin: LoaderState, memory: int, world_size: int
    ) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well.

        With blocks that is from the first to the last use of a page. Without them the
        uses of a page are anywhere: then it pays to know those of twice as many pages
        as fit into ``memory`` bytes.
        """
        if self.orders.is_scattered:
            held = int(memory / max(1.0, self.orders.page_bytes))
            return min(2 * held, self.num_sequences // world_size, MAX_HORIZON)
        window = self.orders.window(begin.num_lanes)
        return 2 * window * begin.num_lanes // world_size

    def stats(
        self,
        state: LoaderState,  # noqa: ARG002 - it is all one dataset
    ) -> dict[str, float]:
        """Return nothing: there are no parts to tell apart."""
        return {}


def check_metadata(dataset: Dataset, sequences: SequenceSetting) -> None:
    """Refuse metadata that would be left out without a word.

    Raises:
        InvalidArgumentError: Then.
    """
    if dataset.metadata and not isinstance(sequences, Documents):
        raise InvalidArgumentError(
            f"metadata={list(dataset.metadata)} of {dataset!r} would not arrive: "
            f"sequences of {sequences!r} carry tokens only; leave metadata out, or "
            "take rows with Documents, whose batches have these columns"
        )


def bind_checked(
    sequences: SequenceSetting, dataset: Dataset, name: str
) -> SequenceIndex:
    """Sequences a dataset.

    Args:
        sequences: How.
        dataset: What.
        name: What to call it in an error.

    Raises:
        InvalidArgumentError: If it holds no sequence, or metadata that no batch would
            hold.
    """
    check_metadata(dataset, sequences)
    index = sequences.bind(dataset.spans)
    if index.num_sequences == 0:
        dataset.check_not_empty()
        raise InvalidArgumentError(
            f"{name} holds no sequence of {sequences!r}: it has "
            f"{dataset.spans.num_values} tokens in {dataset.spans.num_rows} rows"
        )
    return index
