"""Settings of balance: sequences of similar cost get the same position on every rank.

Inside a stretch, every rank reorders its sequences by cost. The k-th sequence of a rank
is at a quantile of its costs: the k-th number of a keyed, evenly spread sequence that
all ranks share. So the ranks of a step cost about the same, and a few consecutive
sequences of a rank span all costs.

Every epoch is dealt differently. Costs that are nearly equal count as equal, so the
sequences that share a step change. A keyed hash draws the quantiles, the batches of a
bucket, and which rank takes which of the sequences that share a quantile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.balance.costs import SequenceCosts, learned_tokens
from pagefeed.core._base import (
    Int64Array,
    check_flag,
    check_number,
    check_whole,
)
from pagefeed.core.dataset import Dataset
from pagefeed.core.order import Costs, Ordered, expand_key
from pagefeed.core.sequences import Cut, JoinedIndex
from pagefeed.errors import InvalidArgumentError

Float64Array: TypeAlias = npt.NDArray[np.float64]

KINDS = ("attention", "tokens")
COSTS = ("tokens", "attention", "images", "labels")
MOST = 1 << 16
MOST_TOGETHER = 1 << 18
"""About how many sequences of all ranks are dealt together: with very many ranks,
stretches are shorter."""
LEAST_BUCKETS = 4
"""Least number of buckets in a stretch."""
SLOT_BYTES = 80
"""Most bytes for a sequence of the longest stretch, as measured while it is dealt."""


@dataclass(frozen=True)
class Balance:
    """Settings of balancing: the cost of a sequence, and how far sequences may move.

    A sequence costs ``tokens * (its tokens) + attention * (sum of the squared lengths
    of its documents) + images * (what its images cost) + labels * (its tokens with a
    label)``. Only their ratio counts.

    Args:
        tokens: Cost of a token.
        attention: Cost of each pair of a query and a key token of one document.
        images: Factor of the cost that an image causes in its encoder: its number of
            tokens, or the result of ``cost=`` of :func:`with_images`.
        labels: Cost of a token that has a label, in the column ``labels`` or of an
            answer in a chat. Without labels all tokens but padding have one. One pass
            over the data counts them, and the counts are stored with the index.
        stretch: Sequences of a rank that are dealt by cost together, 2 to 65,536.
            Longer stretches balance better, but keep pages in memory longer.
        bucket: Consecutive sequences of a rank with similar cost, 1 to half a stretch.
            The default 1 makes neighbours as different as possible, so that steps cost
            about the same. 64 makes batches of documents of similar length, with little
            padding.
        equal: Costs count as equal if they differ by less than this share of themselves
            and of the mean cost, 0 to 1. With a larger share, sequences of a batch meet
            more rarely in the next epoch, but balance is worse, or padding is more. By
            default 0.02 if ``exact``, and 0.05 in buckets, divided by the number of
            stretches of an epoch; otherwise 0, as each rank draws its own sequences.
        exact: Deal the sequences of all ranks together. Ranks then cost about the same
            wherever long documents are stored, even with little data from few sources,
            but each rank reads pages of all ranks. With one rank the order is the same
            either way.

    Raises:
        InvalidArgumentError: If a cost is negative or not finite, none is positive,
            ``equal`` is not from 0 to 1, or a stretch has fewer than two buckets.

    Example:
        >>> Balance.parse("attention")  # doctest: +NORMALIZE_WHITESPACE
        Balance(tokens=0.0, attention=1.0, stretch=1024, bucket=1, equal=None,
                exact=False, images=0.0, labels=0.0)
        >>> Balance(tokens=12.0 * 4096, attention=2.0).attention
        2.0
    """

    tokens: float = 0.0
    attention: float = 0.0
    stretch: int = 1024
    bucket: int = 1
    equal: float | None = None
    exact: bool = False
    images: float = 0.0
    labels: float = 0.0

    def __post_init__(self) -> None:
        for kind in COSTS:
            cost = check_number(getattr(self, kind), kind, least=0, below=math.inf)
            object.__setattr__(self, kind, cost)
        if not any(getattr(self, kind) for kind in COSTS):
            raise InvalidArgumentError(
                f"Balance() balances nothing: give a cost of {' or '.join(COSTS)}"
            )
        if self.equal is not None:
            equal = check_number(self.equal, "equal", least=0, most=1)
            object.__setattr__(self, "equal", equal)
        object.__setattr__(self, "exact", check_flag(self.exact, "exact"))
        for name, least in (("stretch", 2), ("bucket", 1)):
            size = check_whole(getattr(self, name), name, least=least, most=MOST)
            object.__setattr__(self, name, size)
        if self.stretch < 2 * self.bucket:
            raise InvalidArgumentError(
                f"bucket={self.bucket} is more than half of stretch={self.stretch}: "
                "each stretch would be delivered from cheap to dear. Give "
                f"bucket={self.stretch // 2} or less, or a longer stretch"
            )

    @classmethod
    def parse(cls, value: BalanceLike) -> Balance | None:
        """Return a :class:`Balance` from itself or its short name, and None for None.

        ``"tokens"`` is ``Balance(tokens=1, bucket=64, stretch=2048)``.

        Raises:
            InvalidArgumentError: If it is something else.
        """
        if value is None or isinstance(value, Balance):
            return value
        if not isinstance(value, str) or value not in KINDS:
            raise InvalidArgumentError(
                f"balance={value!r:.60} must be None, 'attention', 'tokens' or a "
                "Balance(tokens=..., attention=...)"
            )
        if value == "attention":
            return cls(attention=1)
        return cls(tokens=1, bucket=64, stretch=2048)

    def order(self, order: Ordered, **dealing: Any) -> Ordered:
        """Return an order, rearranged so that ranks cost about the same."""
        from pagefeed.balance.balanced_order import BalancedOrder

        return BalancedOrder(order, balance=self, **dealing)

    def costs(self, index: JoinedIndex, datasets: Sequence[Dataset], cut: Cut) -> Costs:
        """Return a function from numbers of sequences to costs, float64 [sequences].

        Args:
            index: The sequences of all datasets.
            datasets: The datasets; read if labels count.
            cut: The cut of the datasets into these sequences.

        Raises:
            InvalidArgumentError: If all sequences cost the same, or their costs are not
                known.
        """
        of_token, of_pair, of_image, of_label = self._ratio
        if not (of_pair or of_image or of_label or index.tokens_differ):
            raise InvalidArgumentError(
                f"balance=Balance(tokens={self.tokens:g}) balances nothing: all of "
                f"these sequences have {index.length} tokens, padding included. Give "
                "balance='attention' for what documents of unlike length cost, "
                "Documents(max_length=...) with a batch_size, or leave balance out"
            )
        per_sequence = SequenceCosts(index)
        labels = learned_tokens(index, datasets, cut) if of_label else None

        def costs(sequences: Int64Array) -> Float64Array:
            # Lengths that do not count are not read.
            cost = of_token * per_sequence.tokens(sequences) if of_token else 0.0
            if of_pair:
                cost = cost + of_pair * per_sequence.squares(sequences)
            if of_image:
                cost = cost + of_image * per_sequence.beside("images", sequences)
            if labels is not None:
                cost = cost + of_label * labels(sequences)
            return np.asarray(cost)

        costs(np.zeros(0, dtype=np.int64))  # So that it is refused here.
        return costs

    def slots_of(self, ranks: int) -> int:
        """Return how many sequences of each rank are dealt together."""
        if not self.exact:
            return self.stretch
        shorter = max(MOST_TOGETHER // ranks, LEAST_BUCKETS * self.bucket)
        return min(self.stretch, shorter)

    def dealing_bytes(self, ranks: int, num_sequences: int | None) -> int:
        """Return the bytes of memory that dealing needs.

        Args:
            ranks: Ranks that are balanced.
            num_sequences: Sequences of an epoch; None if stretches are not limited by
                it.
        """
        # The last stretch is up to twice as long as the others.
        sequences = 2 * self.slots_of(ranks) * ranks
        if num_sequences is not None:
            sequences = min(sequences, num_sequences)
        return SLOT_BYTES * (sequences if self.exact else -(-sequences // ranks))

    def equal_of(self, num_stretches: int) -> float:
        """Return the relative difference up to which costs count as equal."""
        if self.equal is not None:
            return self.equal
        if self.bucket > 1:  # Each epoch puts other sequences into a stretch.
            return 0.05 / num_stretches
        return 0.02 if self.exact else 0.0

    @property
    def _ratio(self) -> list[float]:
        """The costs in the order of :data:`COSTS`; the largest is 1."""
        costs = [getattr(self, kind) for kind in COSTS]
        return [cost / max(costs) for cost in costs]

    @property
    def identity(self) -> str:
        """Text that identifies the balance in states."""
        ratio: dict[str, Any] = dict(zip(COSTS, self._ratio, strict=True))
        text = repr(replace(self, **ratio))
        return text.replace(", images=0.0", "").replace(", labels=0.0", "")


BalanceLike: TypeAlias = Balance | str | None
"""A balance as a user writes it."""


@lru_cache(maxsize=16)
def _keys(key: bytes) -> list[tuple[int, int]]:
    """Return the keys of quantiles, buckets, ranks and costs of an epoch."""
    numbers = iter(map(int, expand_key(key, 8)))
    return list(zip(numbers, numbers, strict=True))


def deal(
    sequences: Int64Array,
    costs: Float64Array,
    stays: npt.NDArray[np.bool_] | None,
    *,
    first: Int64Array,
    ranks: int,
    key: bytes,
    balance: Balance,
    equal: float,
) -> tuple[npt.NDArray[np.int32], Int64Array]:
    """Return the new slot of each sequence of some ranks, and what is in each slot.

    Those of a rank are sorted by cost. Each cost is moved up or down by less than the
    part ``equal`` of itself and of the rank's mean, by a hash of its position, so that
    those which differ little come in a keyed order. The k-th sequence of every rank
    gets the quantile that is the k-th number of the second of Sobol's sequences,
    scrambled as Owen does it: each bit is turned by a hash of the bits before it. Any
    2**n consecutive numbers that begin at a multiple of 2**n: each 2**-n of the range
    gets one. Which numbers stand together is drawn by the key.

    With ``bucket=2**n``, each aligned run of 2**n slots of a rank takes sequences of
    similar cost, and these runs come in a keyed order. Ranks that share a quantile draw
    lots. All steps are exact or rounded as IEEE 754 says:
    every machine finds the same.

    Args:
        sequences: Turn after turn of these ranks: int64 [sequences].
        costs: What each costs, at least 0: float64 [sequences].
        stays: Which ones stay where they are: bool [sequences]; None if none do.
        first: First position of each of these ranks, rising, within a turn of all.
        ranks: How many ranks are balanced.
        key: Key of the epoch.
        balance: How long buckets are, and whether all ranks are dealt together.
        equal: What part of costs counts as equal.

    Returns:
        The slot of each after, int32, and what stands in each slot, int64, both
        [ranks, slots]. After the last slot of a rank stand its number, and 0.

    Example:
        >>> settings = dict(first=np.array([0]), ranks=1, key=b"key",
        ...                 balance=Balance(tokens=1), equal=0)
        >>> put, dealt = deal(np.array([7, 8, 9]), np.array([5.0, 1.0, 3.0]), None,
        ...                   **settings)
        >>> dealt[0, put[0]].tolist()
        [7, 8, 9]
    """
    put, dealt = _core.deal(
        sequences,
        costs,
        None if stays is None else stays.view(np.uint8),
        first=first.tolist(),
        keys=_keys(key),
        num_ranks=ranks,
        exact=balance.exact,
        bucket=balance.bucket,
        equal=equal,
    )
    shape = len(first), -1
    return (
        np.frombuffer(put, dtype=np.int32).reshape(shape),
        np.frombuffer(dealt, dtype=np.int64).reshape(shape),
    )
