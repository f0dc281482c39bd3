"""Functions that draw random numbers, which a spawned process can import."""

from typing import Any

import numpy as np


def roll(value: Any, rng: np.random.Generator) -> tuple[int, int]:
    """The number that a value is, and one that is drawn."""
    return int(bytes(value)), draw_one(value, rng)


def draw_one(_: Any, rng: np.random.Generator) -> int:
    """A number that is drawn."""
    return int(rng.integers(0, 1 << 40))
