"""Curricula: how often a prompt is taken, by the score of its last answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, check_number
from pagefeed.errors import InvalidArgumentError, StateMismatchError
from pagefeed.prompts.packed import packed, unpacked

STEPS = 55_440
"""Steps in which scores are kept. A multiple of 1 to 12, 14, 15 and 16, so that most
means of answers are kept exactly."""
UNSEEN = 0
"""Code of a prompt without a score; others have 1 + their steps."""
LEAST = 0.001
"""Least weight of a tier that is not left out."""


@dataclass(frozen=True)
class Curriculum:
    """Shares of passes in which prompts are taken, by their score.

    In each pass a prompt of a tier with weight w is taken with probability w, and else
    passed over. So solved prompts rest, are tried again now and then, and come back
    when their score falls. A prompt without a score is always taken.

    Args:
        edges: Scores between tiers, rising, in 0..1. A score equal to an edge belongs
            to the tier above it.
        weights: Weights of the tiers in 0..1, one more than there are edges; at least
            0.001 or 0, which leaves its prompts out.
        smoothing: Share of the score before that stays when a new one arrives, below 1:
            0 keeps the last score alone.

    Raises:
        InvalidArgumentError: If an argument cannot be right.

    Example:
        >>> Curriculum(edges=[0.125, 0.875], weights=[0.2, 1.0, 0.1]).weights
        (0.2, 1.0, 0.1)
    """

    edges: Iterable[float]
    weights: Iterable[float]
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        edges = _numbers(self.edges, "edges")
        weights = _numbers(self.weights, "weights")
        check_number(self.smoothing, "smoothing", "a number", least=0, most=0.999)
        if sorted(set(edges)) != list(edges) or len(weights) != len(edges) + 1:
            raise InvalidArgumentError(
                f"edges={edges} must rise, and weights={weights} be one more"
            )
        if any(0 < weight < LEAST for weight in weights):
            raise InvalidArgumentError(
                f"weights={weights} must be 0, or {LEAST} and more: smaller ones take "
                "hardly a prompt in a thousand passes"
            )
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "weights", weights)


def _numbers(values: Any, name: str) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{name}={values!r:.60} must be a list of numbers")
    found = [check_number(v, name, "a number", least=0, most=1) for v in values]
    return tuple(map(float, found))


class Scores:
    """The scores of the prompts of a dataset, and what a curriculum makes of them.

    Args:
        num_rows: Prompts of the dataset.
        curriculum: The settings.
    """

    def __init__(self, num_rows: int, curriculum: Curriculum) -> None:
        self._codes = np.zeros(num_rows, dtype=np.uint16)
        self.follow(curriculum)

    def follow(self, curriculum: Curriculum) -> None:
        """Take on other settings; scores stay as they are."""
        self._curriculum = curriculum
        self._edges = [UNSEEN + 1, *map(_code, curriculum.edges)]
        self.weights = np.array([1.0, *curriculum.weights])
        """Weights of prompts without a score, and of each tier."""
        self.counts = [len(self._codes), *[0] * (len(self.weights) - 1)]
        """Prompts without a score, and of each tier."""
        if self._codes.any():
            tiers = np.searchsorted(self._edges, self._codes, side="right")
            self.counts = np.bincount(tiers, minlength=len(self.weights)).tolist()

    def weights_of(self, rows: Int64Array) -> npt.NDArray[np.float64]:
        """Return the weight of each row now: float64 [rows]."""
        tiers = np.searchsorted(self._edges, self._codes[rows], side="right")
        return np.take(self.weights, tiers)

    def add(self, row: int, score: float) -> None:
        """Record the score of the last answers to a prompt."""
        before, code = int(self._codes[row]), _code(score)
        if before != UNSEEN:
            code = before + round((code - before) * (1 - self._curriculum.smoothing))
        self._codes[row] = code
        self.counts[bisect_right(self._edges, before)] -= 1
        self.counts[bisect_right(self._edges, code)] += 1

    def to_text(self) -> str | None:
        """Return all scores as text for a state; None if there are none."""
        return packed(self._codes) if self._codes.any() else None

    def load(self, text: Any) -> None:
        """Load the scores of a state."""
        self._codes = np.zeros_like(self._codes)
        if text is not None:
            self._codes = unpacked(text, np.uint16, len(self._codes), "scores")
        if self._codes.max(initial=0) > STEPS + 1:
            raise StateMismatchError("scores in the state lie above 1")
        self.follow(self._curriculum)


def _code(score: float) -> int:
    return UNSEEN + 1 + round(score * STEPS)
