"""Choice of the next dataset: the one whose share would first fall short."""

from __future__ import annotations

from collections.abc import Iterable


class Shares:
    """Deals turns to datasets, so that each has its share at every turn.

    After any number of turns since the last change, the turns of a dataset differ from
    its share by less than one (Tijdeman, "The chairman assignment problem", 1980).

    Args:
        weights: Weights by name, at least one above 0.

    Example:
        >>> shares = Shares({"code": 0.25, "math": 0.75})
        >>> for turn in range(8):
        ...     shares.count(shares.next(["code", "math"]))
        >>> shares.turns
        {'code': 2, 'math': 6}
    """

    def __init__(self, weights: dict[str, float]) -> None:
        self.weights = weights
        """Weights, which need not sum to 1."""
        self.turns = dict.fromkeys(weights, 0)
        """Turns since weights, or the datasets that take part, changed."""

    def next(self, names: Iterable[str]) -> str | None:
        """Return whose turn it is among ``names``; None if none has a weight."""
        parts = [(n, w) for n in names if (w := self.weights[n]) > 0]
        if len(parts) < 2:
            return parts[0][0] if parts else None
        total = sum(weight for _, weight in parts)
        num_turns = 1 + sum(self.turns[name] for name, _ in parts)
        slack = 1 / (2 * len(parts) - 2)
        late = []
        for name, weight in parts:
            share, has = weight / total, self.turns[name]
            # The margin is for rounding alone: one of them is always due.
            if share * num_turns - has >= slack - 1e-6:
                late.append(((has + 1 - slack) / share, name))
        return min(late)[1]

    def count(self, name: str) -> None:
        """Count a turn of a dataset."""
        self.turns[name] += 1

    def restart(self) -> None:
        """Count turns from 0 after weights, or the datasets that take part, changed."""
        self.turns = dict.fromkeys(self.weights, 0)
