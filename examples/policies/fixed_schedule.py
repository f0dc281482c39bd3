"""Weights by step, independent of the losses: a baseline for other policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FixedSchedule"]

Weights = Mapping[str, float]


class FixedSchedule:
    """Weights by step. A :class:`pagefeed.Stage` sets such weights before a run.

    Args:
        weights: ``{step: {name: weight}}``. Weights apply from the first update at or
            after their step.
    """

    def __init__(self, weights: Mapping[int, Weights]) -> None:
        self._weights = dict(sorted(weights.items()))
        self._last = -1

    @property
    def names(self) -> set[str]:
        """The datasets that are given weights."""
        return {name for weights in self._weights.values() for name in weights}

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the policy."""
        return {
            "weights": {str(step): shares for step, shares in self._weights.items()}
        }

    def update(self, step: int, losses: Mapping[str, float]) -> Weights | None:
        """Return the weights of the last step of the schedule that was reached."""
        del losses
        reached = max((start for start in self._weights if start <= step), default=-1)
        if reached == self._last:
            return None
        self._last = reached
        return self._weights.get(reached)

    def state_dict(self) -> dict[str, Any]:
        """Return the step whose weights hold."""
        return {"last": self._last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._last = int(state["last"])
