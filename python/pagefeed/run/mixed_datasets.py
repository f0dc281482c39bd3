"""The datasets of a mixture: cut, shuffled, and as its schedule knows them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pagefeed.dataset import Dataset, identity_of_data
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture import LEAST_LANES, Component, Mixture, check_recorded
from pagefeed.order import Balance, Shuffle, derive_key
from pagefeed.run.dataset_order import DatasetOrder
from pagefeed.run.epochs import check_bound
from pagefeed.sequences import (
    DocumentIndex,
    JoinedIndex,
    SequenceCosts,
    SequenceIndex,
    SequenceSetting,
)

__all__ = ["MixedDatasets", "make_parts"]


class MixedDatasets:
    """The datasets of a mixture by number: in the order of their names.

    Args:
        mixture: The datasets.
        sequences: How to cut them.
        seed: Seed of the run.
        shuffle: How to shuffle each.
        world_size: Number of ranks.
        memory: Bytes that the orders may hold of what they read ahead.
        balance: How ranks are balanced.

    Raises:
        InvalidArgumentError: If a dataset with a weight holds no sequence.
    """

    def __init__(
        self,
        mixture: Mixture,
        *,
        sequences: SequenceSetting,
        seed: int,
        shuffle: Shuffle,
        world_size: int,
        memory: int,
        balance: Balance | None,
    ) -> None:
        bound = {
            name: sequences.bind(mixture.datasets[name].spans)
            for name in sorted(mixture.datasets)
        }
        self.names = [name for name, index in bound.items() if index.num_sequences]
        """Their names, without those that hold no sequence and have no weight."""
        for name, index in bound.items():
            if mixture.needs(name) or not self.names:
                dataset = mixture.datasets[name]
                check_bound(index, dataset, f"dataset {name!r}", sequences)
        self.datasets: Sequence[Dataset] = [
            mixture.datasets[name] for name in self.names
        ]
        """Themselves."""
        self.indexes: Sequence[SequenceIndex] = [bound[name] for name in self.names]
        """Their sequences."""
        if len(self.names) > 1:
            check_recorded(mixture.datasets)
        self.index = JoinedIndex(self.indexes, [len(d.index) for d in self.datasets])
        """The sequences of all, numbered through."""
        self.balance = balance
        """How ranks are balanced."""
        if balance is not None:
            self.costs = balance.costs(SequenceCosts(self.index))
            """Gives what sequences cost, where ranks are balanced."""
        self.stretch = 0 if balance is None else balance.stretch
        """Sequences of a lane that are dealt by cost together, about."""
        self.in_order = shuffle.in_order
        """Whether each is delivered in file order."""
        self._sequences = sequences
        self._seed = seed
        self._shuffle = shuffle
        self._world_size = world_size
        self._memory = memory // len(self.datasets)
        self.orders = lru_cache(maxsize=2)(self._make_orders)
        """The orders of each in an epoch of the run."""

    def _make_orders(self, epoch: int) -> list[DatasetOrder]:
        return [
            DatasetOrder(
                dataset,
                fingerprint=f"{dataset.fingerprint} {self._sequences.identity}",
                index=index,
                seed=self._seed
                if epoch == 0
                else derive_key(self._seed, "pass", epoch),
                shuffle=self._shuffle,
                world_size=self._world_size,
                least_lanes=LEAST_LANES,
                memory=self._memory,
                name=name,
                balance=self.balance,
            )
            for name, dataset, index in zip(
                self.names, self.datasets, self.indexes, strict=True
            )
        ]


def make_parts(mixture: Mixture, data: MixedDatasets) -> list[Component]:
    """Return the datasets with their sequences and the tokens these deliver.

    Raises:
        InvalidArgumentError: If something counts tokens and a dataset has none.
    """
    tokens = _num_tokens(mixture, data.names, data.indexes)
    usual = 1 if mixture.stop == "first_exhausted" else None
    return [
        Component(
            name=name,
            data=identity_of_data(dataset),
            num_sequences=sequences.num_sequences,
            num_tokens=num_tokens,
            max_epochs=mixture.max_epochs.get(name, usual),
        )
        for name, dataset, sequences, num_tokens in zip(
            data.names, data.datasets, data.indexes, tokens, strict=True
        )
    ]


def _num_tokens(
    mixture: Mixture, names: Sequence[str], sequences_of: Sequence[SequenceIndex]
) -> list[int]:
    """Tokens of each dataset; 0 where they are not counted, and nobody needs them."""
    documents = [
        sequences for sequences in sequences_of if isinstance(sequences, DocumentIndex)
    ]
    ends = [
        f"{name}={value}"
        for name, value in (
            ("max_tokens", mixture.max_tokens),
            *(("start_tokens", stage.start_tokens) for stage in mixture.stages),
        )
        if value is not None
    ]
    if (
        documents
        and not any(sequences.has_tokens for sequences in documents)
        and not ends
    ):
        return [0] * len(sequences_of)  # Text and the like: rows are what counts.
    if not ends and mixture.unit == "sequences":
        # What the index knows; lengths are not read for it.
        is_read = [
            isinstance(u, DocumentIndex) and u.reads_lengths for u in sequences_of
        ]
        return [
            0 if skipped else sequences.num_delivered_tokens
            for sequences, skipped in zip(sequences_of, is_read, strict=True)
        ]
    for name, sequences in zip(names, sequences_of, strict=True):
        is_bare = isinstance(sequences, DocumentIndex) and not sequences.has_tokens
        if is_bare or sequences.num_delivered_tokens == 0:
            what = "a column without tokens" if is_bare else "no token in any row"
            instead = "use max_steps" if ends else "give pagefeed.mix unit='sequences'"
            raise InvalidArgumentError(
                f"dataset {name!r} has {what}, and "
                f"{' and '.join(ends) or 'the weights of the mixture'} count tokens: "
                f"{instead}"
            )
    return [sequences.num_delivered_tokens for sequences in sequences_of]
