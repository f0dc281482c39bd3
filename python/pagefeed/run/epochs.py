"""One dataset, epoch after epoch, as what a run delivers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset, identity_of_data
from pagefeed.errors import InvalidArgumentError, PagefeedError, StateMismatchError
from pagefeed.order import Balance, Ordered, Shuffle
from pagefeed.run.damage import sequences_of_damage
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.provenance import Origin, number_of_row, origins_of_sequence
from pagefeed.run.source import MAX_HORIZON, Held, Positions
from pagefeed.run.state import LoaderState
from pagefeed.sequences import SequenceCosts, SequenceIndex, SequenceSetting

__all__ = ["EpochSource", "check_bound"]


class EpochSource:
    """One dataset: position p is place ``p % n`` of epoch ``p // n``, n sequences each.

    Args:
        dataset: The dataset.
        sequences: How to cut it.
        seed: Seed of the run.
        shuffle: How to shuffle it.
        epochs: Epochs of an iteration; None never ends.
        world_size: Number of ranks.
        memory: Bytes that its orders may hold of what they read ahead.
        balance: How ranks are balanced.

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
        epochs: int | None,
        world_size: int,
        memory: int,
        balance: Balance | None = None,
    ) -> None:
        self.dataset = dataset
        self.epochs = epochs
        self.world_size = world_size
        self.index: SequenceIndex = sequences.bind(dataset.spans)
        check_bound(self.index, dataset, repr(dataset), sequences)
        if balance is not None:
            self.costs = balance.costs(SequenceCosts(self.index))
            """Gives what sequences cost, where ranks are balanced."""
        self.orders = DatasetOrder(
            dataset,
            fingerprint=f"{dataset.fingerprint} {sequences.identity}",
            index=self.index,
            seed=seed,
            shuffle=shuffle,
            world_size=world_size,
            memory=memory,
            balance=balance,
            costs=None if balance is None else self.costs,
        )
        self.orders.check_window()
        self.plan = LoaderState(
            num_lanes=self.orders.num_lanes,
            seed=seed,
            dataset=identity_of_data(dataset),
            sequences=sequences.identity,
            shuffle=shuffle.identity,
            balance=None if balance is None else balance.identity,
            ranks=None if balance is None else world_size,
        )

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The dataset alone."""
        return [self.dataset]

    @property
    def num_sequences(self) -> int:
        """Sequences of an epoch."""
        return self.index.num_sequences

    @property
    def is_scattered(self) -> bool:
        """Whether a page's sequences are anywhere: it is read for each of them."""
        return self.orders.is_scattered

    def at(self, begin: LoaderState) -> EpochTrack:
        """Return the way on from a state."""
        return EpochTrack(self, begin)

    def document_sequences(self, file: str, row: int) -> Held:
        """Return the sequences with tokens of a document."""
        number = number_of_row(self.dataset.spans, file, row)
        return [] if number is None else [(0, self.index.sequences_of_row(number))]

    def damaged_sequences(self, error: PagefeedError) -> Held:
        """Return the sequences with tokens of what an error about data names."""
        return [(0, sequences_of_damage(self.dataset, self.index, error))]

    def origins(self, sequence: int) -> list[Origin]:
        """Return where the tokens of a sequence come from."""
        return origins_of_sequence(self.dataset.index, self.index, sequence)

    def accept(self, state: LoaderState) -> LoaderState:
        """Return a saved state as this run continues it."""
        state.check_plan(self.plan)
        state.check_lanes(len(self.dataset.index))
        if state.position >= self.num_sequences:
            raise StateMismatchError(
                f"the state has position={state.position}, an epoch has "
                f"{self.num_sequences} sequences"
            )
        return state


@dataclass(frozen=True)
class EpochTrack:
    """The epochs of a dataset from a state on; positions count through all of them."""

    source: EpochSource
    begin: LoaderState

    @property
    def start(self) -> int:
        """The position of the begin."""
        return self.begin.epoch * self.source.num_sequences + self.begin.position

    @property
    def end(self) -> int | None:
        """One past the last position; None: without end."""
        if self.source.epochs is None:
            return None
        epochs = self.begin.first_epoch + self.source.epochs
        return epochs * self.source.num_sequences

    def state_at(self, position: int) -> LoaderState:
        """Return the state at a position."""
        begin = self.begin
        epoch, within = divmod(position, self.source.num_sequences)
        lanes, ranks = self._lanes(epoch)
        # Beyond its epoch the lanes of a state are forgotten: all must be as usual.
        is_usual = (begin.num_lanes, begin.ranks) == (lanes, ranks)
        return replace(
            begin,
            epoch=epoch,
            position=within,
            num_lanes=lanes,
            ranks=ranks,
            sizes=begin.sizes if is_usual else None,
        )

    def sequences(self, positions: Positions) -> Iterator[Int64Array | None]:
        """Yield the sequences at rising positions, in parts; None after other work."""
        # Epoch after epoch: of short ones only two orders are kept.
        while len(positions):
            epoch = int(positions[0]) // self.source.num_sequences
            first = epoch * self.source.num_sequences
            now, positions = _split(positions, first + self.source.num_sequences)
            yield (yield from self._order(epoch).reading(_shifted(now, -first)))

    def begin_next_epoch(self, position: int) -> Iterator[None]:
        """Prepare the epoch after that of a position, unless the end comes first."""
        epoch, end = position // self.source.num_sequences + 1, self.end
        if end is None or epoch * self.source.num_sequences < end:
            yield from self._order(epoch).begin()

    def positions(self, held: Held, now: int) -> Int64Array:
        """Return the positions of sequences in the epoch of position ``now``: int64."""
        epoch = now // self.source.num_sequences
        found = [np.empty(0, dtype=np.int64)]
        found += [self._order(epoch).positions(sequences) for _, sequences in held]
        return epoch * self.source.num_sequences + np.concatenate(found)

    def horizon(self, memory: int) -> int:
        """Return how many sequences of a rank to plan ahead, to use each page well.

        With blocks that is from the first to the last use of a page. Without them the
        uses of a page are anywhere: then it pays to know those of twice as many pages
        as fit into ``memory`` bytes.
        """
        orders, world_size = self.source.orders, self.source.world_size
        if orders.is_scattered:
            most = 2 * int(memory / max(1.0, orders.page_bytes))
            return min(most, self.source.num_sequences // world_size, MAX_HORIZON)
        num_lanes, ranks = self.begin.num_lanes, self.begin.ranks or 0
        delayed = orders.window(num_lanes) * num_lanes + orders.stretch * ranks
        return 2 * delayed // world_size

    @property
    def epoch_positions(self) -> float:
        """Sequences of an epoch."""
        return self.source.num_sequences

    @property
    def num_tokens_before(self) -> int:
        """Tokens of the epochs and sequences that lie before its begin, by the mean."""
        index, begin = self.source.index, self.begin
        sequences = begin.epoch * self.source.num_sequences + begin.position
        return sequences * index.num_delivered_tokens // max(1, index.num_sequences)

    def stats(self) -> dict[str, float]:
        """Return nothing: there are no parts to tell apart."""
        return {}

    def _order(self, epoch: int) -> Ordered:
        return self.source.orders.of(epoch, *self._lanes(epoch))

    def _lanes(self, epoch: int) -> tuple[int, int | None]:
        """Lanes of an epoch, and the ranks balanced; of the state, or chosen anew."""
        plan = self.begin if epoch == self.begin.epoch else self.source.plan
        return plan.num_lanes, plan.ranks


def _split(positions: Positions, border: int) -> tuple[Positions, Positions]:
    """Rising positions below a border, and the others."""
    if isinstance(positions, range):
        below = len(range(positions.start, border, positions.step))
    else:
        below = int(np.searchsorted(positions, border))
    return positions[:below], positions[below:]


def _shifted(positions: Positions, by: int) -> Positions:
    if isinstance(positions, range):
        return range(positions.start + by, positions.stop + by, positions.step)
    return positions + by


def check_bound(
    index: SequenceIndex, dataset: Dataset, name: str, sequences: SequenceSetting
) -> None:
    """Refuse a dataset without a sequence.

    Args:
        index: Its sequences.
        dataset: The dataset.
        name: What to call it in an error.
        sequences: How it was cut.

    Raises:
        InvalidArgumentError: If it holds none.
    """
    if index.num_sequences == 0:
        dataset.check_not_empty()
        raise InvalidArgumentError(
            f"{name} holds no sequence of {sequences!r}: it has "
            f"{dataset.spans.num_values} tokens in {dataset.spans.num_rows} rows"
        )
