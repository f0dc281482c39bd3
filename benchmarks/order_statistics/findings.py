"""Results of tests of an order, with their probability under a correct order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ALPHA", "Finding", "OrderStatistics", "exceeds"]

Float64Array: TypeAlias = npt.NDArray[np.float64]

ALPHA = 1e-7
"""A test fails below this: of a thousand batteries of right orders hardly one does."""
ROUNDING = 1e-12
ANGLES = 4097


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one test of an order."""

    test: str
    """Name of the test."""
    what: str
    """Name of the measured quantity."""
    measured: float
    """Mean of the quantity over the seeds."""
    random: float
    """The quantity in a random order."""
    allowed: float | None
    """The mean up to which an order keeps its promise; None: nothing is promised."""
    p: float
    """Probability of the result if the order is as allowed."""

    @property
    def ok(self) -> bool:
        """Whether the promise is kept, as far as these seeds show."""
        return self.p >= ALPHA

    def __str__(self) -> str:
        """Return the result and that of a random order, in one line."""
        allowed = "" if self.allowed is None else f", allowed is {self.allowed:.3g}"
        return (
            f"{self.test}: {self.measured:.3g} {self.what}; a random order gives "
            f"{self.random:.3g}{allowed} (p = {self.p:.1g})"
        )


@dataclass(frozen=True, kw_only=True)
class OrderStatistics:
    """Results of all tests of an order."""

    num_units: int
    """Units of an epoch."""
    num_seeds: int
    """Seeds drawn, with two epochs each."""
    findings: list[Finding] = field(default_factory=list)
    """Result of each test."""

    @property
    def problems(self) -> list[str]:
        """Messages of failed tests; empty if all passed."""
        return [str(finding) for finding in self.findings if not finding.ok]

    @property
    def ok(self) -> bool:
        """Whether every test is passed."""
        return not self.problems


def exceeds(values: Float64Array, floor: float | Float64Array = 0.0) -> Float64Array:
    """Return the probability of values whose mean is zero or less: a t-test.

    Args:
        values: How much more than allowed was found: [draws, cells].
        floor: Standard deviation of a draw at least, where a random order's is known.

    Example:
        >>> exceeds(np.array([[1.0, -1.0], [1.1, 1.0], [0.9, 0.1]])).round(3).tolist()
        [0.002, 0.48]
    """
    draws = len(values)
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1)
    error = np.maximum(spread, floor) / math.sqrt(draws)
    mean = np.where(np.abs(mean) < ROUNDING, 0.0, mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean / error)
    return _tail(t, draws - 1)


def _tail(t: Float64Array, freedom: int) -> Float64Array:
    """Chance of at least ``t`` under Student's distribution, by its integral.

    As t = sqrt(freedom) tan(angle) the density is a power of the cosine.
    """
    begin = np.arctan(t / math.sqrt(freedom))
    steps = np.linspace(0, 1, ANGLES)[:, None]

    def integral(start: Float64Array) -> Float64Array:
        angles = start + (np.pi / 2 - start) * steps
        density = np.abs(np.cos(angles)) ** (freedom - 1)
        return np.asarray(np.trapezoid(density, angles, axis=0))

    whole = integral(np.array([-np.pi / 2]))
    return np.minimum(integral(np.atleast_1d(begin)) / whole, 1.0)
