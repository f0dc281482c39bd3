"""Weights that grow where a model is worse than a reference model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pagefeed.core._base import check_number
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixing.policy import (
    LARGEST_LOSS,
    Weights,
    shares_of,
    usable_losses,
)
from pagefeed.mixture import check_weights

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
        InvalidArgumentError: If an argument cannot be right.

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
        if not isinstance(reference, Mapping) or not reference:
            raise InvalidArgumentError(
                f"reference={reference!r:.60} must be a dict of losses by dataset"
            )
        self._reference = {
            name: check_number(
                loss, f"reference[{name!r}]", least=-LARGEST_LOSS, most=LARGEST_LOSS
            )
            for name, loss in reference.items()
        }
        self._rate = check_number(rate, "rate", least=0, most=LARGEST_LOSS)
        self._smoothing = check_number(smoothing, "smoothing", least=0, most=1)
        equal = dict.fromkeys(self._reference, 1.0)
        self._weights = shares_of(equal if prior is None else prior, "prior")
        if set(self._weights) != set(self._reference):
            raise InvalidArgumentError(
                f"prior names {sorted(self._weights)}, reference "
                f"{sorted(self._reference)}: give both the same datasets"
            )
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
        losses, names = usable_losses(step, losses), self._weights
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
        loaded = {name: state["weights"].get(name, equal) for name in self._weights}
        self._weights = check_weights(loaded, self._weights)
        self._sums = {name: state["sums"].get(name, 0.0) for name in self._sums}
        self._num_updates = int(state["num_updates"])
