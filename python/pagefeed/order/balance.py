"""Balance: sequences of like cost stand at the same place of every rank.

Inside a stretch every rank deals its sequences by cost. Its k-th one stands at the
quantile of cost that is the k-th number of a keyed sequence which spreads evenly, the
same for all ranks. So the ranks of a step cost about the same, and a few consecutive
sequences of a rank span all costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array, UInt64Array, check_flag, check_whole
from pagefeed.errors import InvalidArgumentError
from pagefeed.order.keys import expand_key
from pagefeed.sequences import JoinedIndex, SequenceCosts

__all__ = ["Balance", "BalanceLike", "Costs", "deal", "quantiles"]

Float64Array: TypeAlias = npt.NDArray[np.float64]
Costs: TypeAlias = Callable[[Int64Array], Float64Array]
"""Gives what each of some sequences costs."""

KINDS = ("attention", "tokens")
MOST = 1 << 16
LOW = np.uint64(MOST - 1)
NEVER = np.uint64(2**64 - 1)
"""Behind every quantile."""


@dataclass(frozen=True)
class Balance:
    """What a sequence costs, and how far sequences are moved to balance ranks.

    A sequence costs ``tokens * (its tokens) + attention * (sum of the squared lengths
    of its documents)``. Only the ratio of both counts.

    Args:
        tokens: Cost of a token.
        attention: Cost of a token that another one of its document looks at.
        stretch: Sequences of a rank that are dealt by cost together, 2 to 65,536. Long
            ones balance better, and hold pages for longer.
        bucket: Sequences of a rank in a row that are of like cost, 1 to half a stretch.
            By default they are as unlike as they can be, so that steps cost alike; 64
            make batches of documents of like length, so that little is padded.
        exact: Deal the sequences of all ranks together. Ranks cost alike whatever lies
            where, also of little data by few sources, and each reads pages of all. One
            rank has the same order either way.

    Raises:
        InvalidArgumentError: If a cost is negative or not finite, none is positive, or
            a stretch has fewer than two buckets.

    Example:
        >>> Balance.parse("attention")
        Balance(tokens=0.0, attention=1.0, stretch=1024, bucket=1, exact=False)
        >>> Balance(tokens=12.0 * 4096, attention=2.0)
        Balance(tokens=49152.0, attention=2.0, stretch=1024, bucket=1, exact=False)
    """

    tokens: float = 0.0
    attention: float = 0.0
    stretch: int = 1024
    bucket: int = 1
    exact: bool = False

    def __post_init__(self) -> None:
        for name in KINDS:
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            try:
                cost = float(value) if is_number else math.nan
            except OverflowError:
                cost = math.inf
            if not 0 <= cost < math.inf:
                raise InvalidArgumentError(
                    f"{name}={value!r:.60} must be a cost: a number, at least 0"
                )
            object.__setattr__(self, name, cost)
        if self.tokens == self.attention == 0:
            raise InvalidArgumentError(
                "Balance() balances nothing: give a cost of tokens, of attention, or "
                "of both"
            )
        check_flag(self.exact, "exact")
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
        """Take a :class:`Balance`, ``"attention"``, ``"tokens"``, or None for none.

        ``"tokens"`` is ``Balance(tokens=1, bucket=64, stretch=2048)``.

        Raises:
            InvalidArgumentError: If it is something else.
        """
        if value is None or isinstance(value, Balance):
            return value
        if value not in KINDS:
            raise InvalidArgumentError(
                f"balance={value!r:.60} must be None, 'attention', 'tokens' or a "
                "Balance(tokens=..., attention=...)"
            )
        if value == "attention":
            return cls(attention=1)
        return cls(tokens=1, bucket=64, stretch=2048)

    def costs(self, index: JoinedIndex) -> Costs:
        """Return what gives the costs of sequences, float64 [sequences], by these.

        Raises:
            InvalidArgumentError: If all cost the same, or their costs are not known.
        """
        if not (self.attention or index.tokens_differ):
            raise InvalidArgumentError(
                f"balance=Balance(tokens={self.tokens:g}) balances nothing: all of "
                f"these sequences have {index.length} tokens, padding included. Give "
                "balance='attention' for what documents of unlike length cost, "
                "Documents(max_length=...) with a batch_size, or leave balance out"
            )
        known = SequenceCosts(index)

        def costs(sequences: Int64Array) -> Float64Array:
            # What does not count is not read.
            cost = self.tokens * known.tokens(sequences) if self.tokens else 0.0
            if self.attention:
                cost = cost + self.attention * known.squares(sequences)
            return np.asarray(cost)

        return costs

    @property
    def identity(self) -> str:
        """What tells this order from others."""
        return repr(self)


BalanceLike: TypeAlias = Balance | str | None
"""A balance as a user writes it."""

_STEPS = (1, 2, 4, 8, 16, 32)
_UNSET = [
    np.uint64(sum(1 << bit for bit in range(64) if not bit & step)) for step in _STEPS
]
"""By step: the bits whose number has not this bit."""


@lru_cache(maxsize=16)
def _shift(key: bytes) -> np.uint64:
    """Return the digital shift of an epoch."""
    return expand_key(key, 1)[0]


def quantiles(counts: Int64Array, key: bytes, bucket: int = 1) -> UInt64Array:
    """Return the quantile of cost of the k-th sequence of every rank, in 2**-64.

    It is the second of Sobol's sequences with a keyed digital shift. Of any 2**n
    consecutive numbers that begin at a multiple of 2**n each 2**-n of the range gets
    one.

    Args:
        counts: k, at least 0.
        key: Key of the shift.
        bucket: How many in a row have about the same.

    Example:
        >>> first = quantiles(np.arange(8), b"key") >> np.uint64(61)
        >>> sorted(first.tolist())
        [0, 1, 2, 3, 4, 5, 6, 7]
    """
    number, within = np.divmod(counts.astype(np.uint64), np.uint64(bucket))
    bits = number
    for step, unset in zip(_STEPS, _UNSET, strict=True):
        bits ^= (bits >> np.uint64(step)) & unset
    # The bits are turned round: those of a byte, then the bytes.
    for step, unset in zip(_STEPS[:3], _UNSET[:3], strict=True):
        bits = (bits >> np.uint64(step)) & unset | (bits & unset) << np.uint64(step)
    bits = bits.byteswap() ^ _shift(key)
    return bits if bucket == 1 else bits & ~LOW | within


def deal(costs: Float64Array, wanted: UInt64Array, lengths: Int64Array) -> Int64Array:
    """Return where each sequence of some ranks is put: in the order that is wanted.

    Args:
        costs: Cost of each sequence, by its place before: [ranks, places].
        wanted: Quantile of cost at each place: [ranks, places].
        lengths: Places of each rank; what is behind stays where it is: [ranks].

    Returns:
        The place of each after: int64 [ranks, places], a permutation of each row.

    Example:
        >>> costs, wanted = np.array([[5.0, 1.0, 9.0]]), np.array([[7, 8, 6]], "u8")
        >>> deal(costs, wanted, np.array([3])).tolist()
        [[0, 2, 1]]
    """
    behind = np.arange(costs.shape[1]) >= lengths[:, None]
    ranked = np.argsort(np.where(behind, np.inf, costs), axis=1, kind="stable")
    places = np.argsort(np.where(behind, NEVER, wanted), axis=1, kind="stable")
    put = np.empty_like(places)
    np.put_along_axis(put, ranked, places, axis=1)
    return put
