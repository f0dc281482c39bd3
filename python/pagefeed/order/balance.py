"""Balance: sequences of like cost stand at the same place of every rank.

Inside a stretch of a lane sequences are dealt by cost. Let k count the sequences of one
rank: the k-th of every rank stands at the same quantile of cost, the k-th number of a
keyed sequence that spreads evenly. So the ranks of a step cost about the same, and a
few consecutive sequences of a rank span all costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from pagefeed._base import Int64Array, UInt64Array, check_whole
from pagefeed.errors import InvalidArgumentError
from pagefeed.order.keys import expand_key
from pagefeed.order.window import NEVER

__all__ = ["Balance", "BalanceLike", "deal", "quantiles"]

KINDS = ("attention", "tokens")
MAX_STRETCH = 1 << 16


@dataclass(frozen=True)
class Balance:
    """What a sequence costs, and how far sequences are moved to balance ranks.

    A sequence costs ``tokens * (its tokens) + attention * (sum of the squared lengths
    of its documents)``. Only the ratio of both counts.

    Args:
        tokens: Cost of a token.
        attention: Cost of a token that another one of its document looks at.
        stretch: Sequences of a lane that are dealt by cost together, 2 to 65,536. Long
            ones balance better, and hold pages for longer.

    Raises:
        InvalidArgumentError: If a cost is negative or not finite, or none is positive.

    Example:
        >>> Balance.parse("attention")
        Balance(tokens=0.0, attention=1.0, stretch=512)
        >>> Balance(tokens=12.0 * 4096, attention=2.0)
        Balance(tokens=49152.0, attention=2.0, stretch=512)
    """

    tokens: float = 0.0
    attention: float = 0.0
    stretch: int = 512

    def __post_init__(self) -> None:
        for name in KINDS:
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidArgumentError(
                    f"{name}={value!r:.60} must be a cost: a number, at least 0"
                )
            object.__setattr__(self, name, float(value))
        if self.tokens == self.attention == 0:
            raise InvalidArgumentError(
                "Balance() balances nothing: give a cost of tokens, of attention, or "
                "of both"
            )
        stretch = check_whole(self.stretch, "stretch", least=2, most=MAX_STRETCH)
        object.__setattr__(self, "stretch", stretch)

    @classmethod
    def parse(cls, value: BalanceLike) -> Balance | None:
        """Take a :class:`Balance`, ``"attention"``, ``"tokens"``, or None for none.

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
        return cls(tokens=value == "tokens", attention=value == "attention")

    @property
    def identity(self) -> str:
        """What tells this order from others."""
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
        return f"Balance({', '.join(shown)})"


BalanceLike: TypeAlias = Balance | str | None
"""A balance as a user writes it."""

_STEPS = (1, 2, 4, 8, 16, 32)
_UNSET = [
    np.uint64(sum(1 << bit for bit in range(64) if not bit & step)) for step in _STEPS
]
"""By step: the bits whose number has not this bit."""


def quantiles(counts: Int64Array, key: bytes) -> UInt64Array:
    """Return the quantile of cost of the k-th sequence of every rank, in 2**-64.

    It is the second of Sobol's sequences with a keyed digital shift. Of any 2**n
    consecutive numbers that begin at a multiple of 2**n each 2**-n of the range gets
    one; and so it is for every 2**m-th number, which are those of a lane.

    Args:
        counts: k, at least 0.
        key: Key of the shift.

    Example:
        >>> first = quantiles(np.arange(8), b"key") >> np.uint64(61)
        >>> sorted(first.tolist())
        [0, 1, 2, 3, 4, 5, 6, 7]
    """
    bits = counts.astype(np.uint64)
    for step, unset in zip(_STEPS, _UNSET, strict=True):
        bits ^= (bits >> np.uint64(step)) & unset
    # The bits are turned round: those of a byte, then the bytes.
    for step, unset in zip(_STEPS[:3], _UNSET[:3], strict=True):
        bits = (bits >> np.uint64(step)) & unset | (bits & unset) << np.uint64(step)
    (shift,) = expand_key(key, 1)
    return bits.byteswap() ^ shift


def deal(
    costs: np.typing.NDArray[np.float64], wanted: UInt64Array, lengths: Int64Array
) -> Int64Array:
    """Return where each sequence of some lanes is put: the cost rank that is wanted.

    Args:
        costs: Cost of each sequence, by its place before: [lanes, places].
        wanted: Quantile of cost at each place: [lanes, places].
        lengths: Places of each lane; what is behind stays where it is: [lanes].

    Returns:
        The place of each after: int64 [lanes, places], a permutation of each row.

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
