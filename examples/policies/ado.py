"""Adaptive data optimization: weights from how fast the loss of each dataset falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ADO"]

EXPONENTS = np.geomspace(0.02, 0.8, 48)
"""Exponents that a scaling law may have."""
MOST_POINTS = 48
"""Points of a dataset's loss curve; beyond it, neighbours are merged."""
LEAST_POINTS = 6
"""Points that a scaling law is fitted to."""
DIGITS = 6
"""Significant digits of a remembered number."""

Floats = npt.NDArray[np.float64]
Weights = Mapping[str, float]


class ADO:
    """Adaptive Data Optimization: more data from datasets that are learned fastest.

    After Jiang et al., 2024 ("Adaptive Data Optimization: Dynamic Sample Selection with
    Scaling Laws", arXiv 2410.11820). Each dataset's loss is fitted by a scaling law
    ``floor + scale * n ** -exponent`` of what was delivered of it. Its weight is the
    prior, times the speed at which that law falls, times a credit for how much of the
    recent data was its own, smoothed over time. No proxy model is needed.

    The law is fitted by least squares for each of 48 exponents, where the paper
    minimizes a Huber loss by L-BFGS: here each point is a mean over many tokens.

    Args:
        prior: Weights at the beginning. Later weights are multiples of them.
        warmup: First steps, during which weights stay and losses are not fitted.
        credit: Exponent of a dataset's share of the recent data.
        memory: Share of the current weights in the average of recent weights, at each
            update.
        smoothing: Share of the mean weights so far in new weights.
        least: Smallest weight of a dataset, as a share of 1.

    Raises:
        ValueError: If an argument cannot be right.

    Example:
        >>> policy = ADO({"web": 0.7, "code": 0.3}, warmup=0)
        >>> for step in range(100, 2000, 100):
        ...     weights = policy.update(step, {"web": 3, "code": 2 + 900 / step})
        >>> weights["code"] > 0.9  # The loss of the web does not fall.
        True
    """

    def __init__(
        self,
        prior: Weights,
        *,
        warmup: int = 1000,
        credit: float = 0.5,
        memory: float = 0.1,
        smoothing: float = 0.1,
        least: float = 0.01,
    ) -> None:
        if not prior or min(prior.values()) <= 0:
            raise ValueError(f"prior={prior} must give each dataset a weight above 0")
        fractions = {"credit": credit, "memory": memory, "smoothing": smoothing}
        for name, value in fractions.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name}={value} must be between 0 and 1")
        if not 0 <= least <= 1 / len(prior):
            raise ValueError(f"least={least} of {len(prior)} datasets is more than all")
        total = sum(prior.values())
        self._prior = {name: weight / total for name, weight in prior.items()}
        self._warmup, self._least = warmup, least
        self._credit, self._memory, self._smoothing = credit, memory, smoothing
        self._settings: dict[str, Any] = {
            **fractions,
            "prior": dict(prior),
            "warmup": warmup,
            "least": least,
        }
        self._num_updates = 0
        self._last_step = 0
        self._curves: dict[str, _Curve] = {name: _Curve() for name in self._prior}
        shares = np.array([*self._prior.values()])
        self._numbers = _rounded([shares, shares, shares, np.zeros(len(shares))])
        """Weights, recent shares, mean weights, and tokens delivered: [4, datasets].

        They are kept as a state says them: a resumed run goes on with these numbers.
        """

    @property
    def names(self) -> list[str]:
        """The datasets that are given weights."""
        return [*self._prior]

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the policy."""
        return self._settings

    def update(self, step: int, losses: Mapping[str, float]) -> Weights | None:
        """Return new weights; None in the warm-up, and before laws can be fitted."""
        passed, self._last_step = max(0, step - self._last_step), step
        weights, recent, mean, delivered = self._numbers
        delivered = delivered + passed * weights
        self._numbers = _rounded([weights, recent, mean, delivered])
        if step <= self._warmup:
            return None
        weights, recent, mean, delivered = self._numbers
        speeds: list[float | None] = []
        for (name, curve), count in zip(
            self._curves.items(), delivered.tolist(), strict=True
        ):
            if count > 0 and name in losses:
                curve.add(count, losses[name])
            speeds.append(curve.speed(count))
        potential = np.array(speeds, dtype=np.float64)
        if np.isnan(potential).all() or not np.nansum(potential) > 0:
            return None
        # What has no law yet counts as the mean of the others.
        potential = np.where(np.isnan(potential), np.nanmean(potential), potential)
        prior = np.array([*self._prior.values()])
        wanted = prior * recent**self._credit * potential
        wanted = wanted / wanted.sum()
        mixed = self._smoothing * mean + (1 - self._smoothing) * wanted
        weights = _at_least(mixed, self._least)
        recent = (1 - self._memory) * recent + self._memory * weights
        self._num_updates += 1
        mean = mean + (weights - mean) / (self._num_updates + 1)
        self._numbers = _rounded([weights, recent, mean, delivered])
        return dict(zip(self._prior, self._numbers[0].tolist(), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return weights and loss curves, about 60 numbers for each dataset."""
        return {
            "num_updates": self._num_updates,
            "last_step": self._last_step,
            "datasets": {
                name: [*numbers, curve.points]
                for (name, curve), numbers in zip(
                    self._curves.items(), self._numbers.T.tolist(), strict=True
                )
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state. Datasets added since begin with their prior."""
        self._num_updates = int(state["num_updates"])
        self._last_step = int(state["last_step"])
        saved = state["datasets"]
        rows = [
            saved[name][:4] if name in saved else [share, share, share, 0.0]
            for name, share in self._prior.items()
        ]
        self._numbers = np.array(rows, dtype=np.float64).T
        self._curves = {
            name: _Curve(saved[name][4] if name in saved else ())
            for name in self._prior
        }


class _Curve:
    """Loss curve of a dataset: losses by the tokens delivered of it."""

    def __init__(self, points: Sequence[Sequence[float]] = ()) -> None:
        self.points = [[float(value) for value in point] for point in points]
        """Delivered, mean loss and number of losses in it, by rising first."""

    def add(self, count: float, loss: float) -> None:
        """Add a loss; of too many points two neighbours become one."""
        self.points.append(_short([count, loss, 1.0]))
        if len(self.points) <= MOST_POINTS:
            return
        # Those that are nearest in proportion: a law is a line in logarithms.
        counts = np.array([point[0] for point in self.points])
        nearest = int(np.argmin(counts[1:] / counts[:-1]))
        pair = self.points[nearest : nearest + 2]
        self.points[nearest : nearest + 2] = [_short(_mean(*pair))]

    def speed(self, count: float) -> float | None:
        """Return how fast the loss falls at a count of tokens; None if unknown."""
        if len(self.points) < LEAST_POINTS or count <= 0:
            return None
        delivered, losses, numbers = np.array(self.points).T
        first = delivered[0]
        powers = (delivered / first)[:, None] ** -EXPONENTS
        floor, scale = _lines(powers, losses, numbers)
        error = (
            numbers[:, None] * (floor + scale * powers - losses[:, None]) ** 2
        ).sum(axis=0)
        best = int(np.argmin(error))
        exponent = float(EXPONENTS[best])
        falling = float(scale[best]) * (count / float(first)) ** -exponent
        return float(exponent * falling / count)


def _lines(powers: Floats, losses: Floats, numbers: Floats) -> tuple[Floats, Floats]:
    """Fit ``floor + scale * power``, both 0 or more, for each column of powers."""
    share = (numbers / numbers.sum())[:, None]
    mean = (share * powers).sum(axis=0)
    mean_loss = float((share[:, 0] * losses).sum())
    spread = (share * (powers - mean) ** 2).sum(axis=0)
    both = (share * (powers - mean) * (losses[:, None] - mean_loss)).sum(axis=0)
    scale = np.maximum(0.0, both / np.maximum(spread, 1e-300))
    floor = mean_loss - scale * mean
    # Where the floor would be below 0: through the origin.
    through = (share * powers * losses[:, None]).sum(axis=0)
    through = np.maximum(0.0, through / (share * powers**2).sum(axis=0))
    return np.maximum(floor, 0.0), np.where(floor < 0, through, scale)


def _mean(first: Sequence[float], second: Sequence[float]) -> list[float]:
    total = first[2] + second[2]
    means = [
        (a * first[2] + b * second[2]) / total
        for a, b in zip(first[:2], second, strict=False)
    ]
    return [*means, total]


def _at_least(shares: Floats, least: float) -> Floats:
    """Return shares of which none is smaller; the others pay in proportion."""
    small = np.zeros(len(shares), dtype=bool)
    while True:
        rest = 1 - least * small.sum()
        scaled = np.where(small, least, 0.0)
        large = shares[~small]
        if len(large):
            scaled[~small] = large / large.sum() * rest
        below = (scaled < least) & ~small
        if not below.any():
            return scaled
        small |= below


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _rounded(rows: Sequence[Floats]) -> Floats:
    return np.array([_short(row.tolist()) for row in rows])
