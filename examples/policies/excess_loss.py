"""Weights that grow where a model is worse than a reference model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Weights = Mapping[str, float]

__all__ = ["ExcessLoss"]


class ExcessLoss:
    """Multiplies weights by the exponential of the excess over reference losses.

    The inner loop of DoReMi (Xie et al., 2023, arXiv 2305.10429): exponentiated
    gradient ascent on the excess losses, smoothed by a share of equal weights. DoReMi
    takes the mean of these weights over the training of a small model, :attr:`mean`, as
    the weights of a large one.

    Args:
        reference: Loss of each dataset under a reference model.
        prior: Weights at the beginning; equal ones if None.
        rate: Factor of the excess losses, as a learning rate.
        smoothing: Share of equal weights.

    Raises:
        ValueError: If an argument cannot be right.

    Example:
        >>> policy = ExcessLoss({"web": 2.0, "code": 1.0}, smoothing=0)
        >>> weights = policy.update(100, {"web": 2.0, "code": 1.5})
        >>> {name: round(weight, 3) for name, weight in weights.items()}
        {'web': 0.378, 'code': 0.622}
    """

    def __init__(
        self,
        reference: Mapping[str, float],
        *,
        prior: Weights | None = None,
        rate: float = 1.0,
        smoothing: float = 1e-3,
    ) -> None:
        given = dict.fromkeys(reference, 1.0) if prior is None else prior
        if not reference or given.keys() != reference.keys():
            raise ValueError(
                f"prior names {sorted(given)}, reference {sorted(reference)}: give "
                "both the same datasets"
            )
        if min(given.values()) <= 0 or rate < 0 or not 0 <= smoothing <= 1:
            raise ValueError(
                f"prior={given} must be above 0, rate={rate} 0 or more, and "
                f"smoothing={smoothing} between 0 and 1"
            )
        self._reference, self._rate = dict(reference), rate
        self._smoothing, total = smoothing, math.fsum(given.values())
        self._weights = {name: weight / total for name, weight in given.items()}
        self._settings = {
            "reference": self._reference,
            "prior": dict(prior or {}),
            "rate": self._rate,
            "smoothing": self._smoothing,
        }
        self._sums = dict.fromkeys(self._weights, 0.0)
        self._num_updates = 0

    @property
    def names(self) -> list[str]:
        """The datasets that are given weights."""
        return [*self._weights]

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the policy."""
        return self._settings

    @property
    def mean(self) -> dict[str, float]:
        """Mean of all weights so far; each update counts once."""
        count = self._num_updates
        return {n: s / count for n, s in self._sums.items()} if count else {}

    def update(self, step: int, losses: Mapping[str, float]) -> Weights | None:
        """Return new weights.

        A dataset without a loss keeps its unnormalised weight.
        """
        del step
        names = self._weights
        excess = [
            max(0.0, losses[name] - self._reference[name]) if name in losses else 0.0
            for name in names
        ]
        # In logarithms: exponentials of large excesses may be beyond all numbers.
        logs = np.log([*names.values()]) + self._rate * np.array(excess)
        grown = np.exp(logs - logs.max())
        shares = (1 - self._smoothing) * grown / math.fsum(grown)
        shares = np.maximum(shares + self._smoothing / len(names), 1e-300)
        self._weights = dict(zip(names, shares.tolist(), strict=True))
        self._sums = {n: total + self._weights[n] for n, total in self._sums.items()}
        self._num_updates += 1
        return dict(self._weights)

    def state_dict(self) -> dict[str, Any]:
        """Return the weights and their sums."""
        return {
            "weights": self._weights,
            "sums": self._sums,
            "num_updates": self._num_updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state. Datasets added since begin with equal weights."""
        equal = 1 / len(self._weights)
        saved = state["weights"]
        self._weights = {name: saved.get(name, equal) for name in self._weights}
        self._sums = {name: state["sums"].get(name, 0.0) for name in self._sums}
        self._num_updates = int(state["num_updates"])
