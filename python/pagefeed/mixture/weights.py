"""Weights of datasets from a position on, in the form of states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.errors import InvalidArgumentError

__all__ = ["CODE_BITS", "WeightChange", "codes_of", "rounded", "weights_of"]

DIGITS = 9
"""Significant digits of a recorded weight."""
FRACTION_BITS = 6
CODE_BITS = 11
"""Bits of a coarse weight: 0, or an exponent of 2 and a fraction."""
LARGEST = (1 << CODE_BITS) - 1


class WeightChange(NamedTuple):
    """Weights from a position on, until the next change."""

    start: int
    """First position."""
    anneal: int
    """Positions over which the earlier weights change into these."""
    weights: tuple[float, ...]
    """Weight of a sequence of each dataset."""


def rounded(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights rounded as states record them, so that runs and states agree.

    Raises:
        InvalidArgumentError: If all are 0.
    """
    total = math.fsum(weights)
    if not total > 0:
        raise InvalidArgumentError(f"no weight is above 0: {list(weights)!r}")
    return tuple(float(f"{weight / total:.{DIGITS}g}") for weight in weights)


def codes_of(weights: Sequence[float]) -> npt.NDArray[np.uint16]:
    """Return codes of 11 bits that are within 0.8 % of weights: uint16 [weights].

    A code is 0 for no weight, else one plus 5 bits of an exponent and 6 of a fraction:
    a floating-point number, relative to the largest weight. What is smaller than 2**-31
    of the largest becomes the least that there is: no dataset vanishes.

    Example:
        >>> weights_of(codes_of([4, 2, 0, 1e-12]))
        (0.666666667, 0.333333333, 0.0, 1.60071067e-10)
    """
    values = np.array(weights, dtype=np.float64)
    fraction, exponent = np.frexp(values / values.max())  # fraction in 0.5..1
    # The largest is 0.5 * 2**1: the number of its code is the largest one.
    steps = np.rint((fraction - 0.5) * (2 << FRACTION_BITS)).astype(np.int64)
    codes = LARGEST + ((exponent.astype(np.int64) - 1) << FRACTION_BITS) + steps
    clipped = np.clip(codes, 1, LARGEST)
    return np.where(values > 0, clipped, 0).astype(np.uint16)


def weights_of(codes: npt.NDArray[np.uint16]) -> tuple[float, ...]:
    """Return the weights of codes; the largest is LARGEST."""
    below = codes.astype(np.int64) - LARGEST
    exponent, steps = below >> FRACTION_BITS, below & ((1 << FRACTION_BITS) - 1)
    fraction = 0.5 + steps / (2 << FRACTION_BITS)
    values = np.ldexp(fraction, (exponent + 1).astype(np.int32))
    return rounded(np.where(codes > 0, values, 0.0).tolist())
