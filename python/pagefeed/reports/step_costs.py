"""Cost of steps, by the lengths of documents: the slowest rank, and step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pagefeed.balance import Balance, BalanceLike, SequenceCosts
from pagefeed.core._base import Int64Array, finished
from pagefeed.core.batches import make_run
from pagefeed.core.loader import Loader
from pagefeed.core.order import Costs
from pagefeed.core.run import Run, gathered
from pagefeed.core.sequences import Cut
from pagefeed.documents import Documents
from pagefeed.reports.sampling import check_counted

Float64Array: TypeAlias = npt.NDArray[np.float64]

MOST_SEQUENCES = 1 << 17
"""Sequences looked at, from the begin of an epoch on."""


@dataclass(frozen=True, kw_only=True)
class StepCosts:
    """Costs of the steps of a run, with balance and without."""

    slowest: float
    """Cost of a step's slowest rank over the mean of all ranks; the mean of steps."""
    spread: float
    """Variation of the cost of steps: standard deviation over the mean."""
    slowest_unbalanced: float
    """``slowest`` without the balance."""
    spread_unbalanced: float
    """``spread`` without the balance."""
    padding: float | None
    """Share of the places in batches of padded documents that hold no token; None of
    other sequences, whose padding does not depend on the order."""
    padding_unbalanced: float | None
    """``padding`` without the balance."""


@dataclass(frozen=True)
class _FirstSteps:
    """The first steps of an epoch: sequences and costs [steps, batch_size, ranks]."""

    sequences: Int64Array
    costs: Float64Array

    @property
    def slowest(self) -> Float64Array:
        """Cost of the slowest rank over the mean of all: [steps]."""
        of_ranks = self.costs.sum(axis=1)
        means = np.maximum(of_ranks.mean(axis=1), np.finfo(np.float64).tiny)
        return of_ranks.max(axis=1) / means

    @property
    def figures(self) -> tuple[float, float]:
        """The slowest rank and the spread; 1 and 0 of no steps."""
        if not self.costs.size:
            return 1.0, 0.0
        means = np.maximum(self.costs.mean(axis=(1, 2)), np.finfo(np.float64).tiny)
        return float(self.slowest.mean()), float(means.std() / means.mean())


def step_costs(loader: Loader, balance: BalanceLike = None) -> StepCosts:
    """Return what steps will cost, from the order and the lengths of documents alone.

    Args:
        loader: The run, of one dataset or a mixture.
        balance: What sequences cost, and how they are dealt; by default as the loader
            has it, or ``"attention"``.

    Raises:
        InvalidArgumentError: If its sequences have no documents, or no tokens.

    Example:
        >>> step_costs(loader, Balance(tokens=1, attention=1e-3))  # doctest: +SKIP
        StepCosts(slowest=1.0, ...)
    """
    check_counted(loader, "step_costs")
    run, with_it, without = _both(loader, balance)
    both = [_padding(loader.sequences, run, steps) for steps in (with_it, without)]
    return StepCosts(
        slowest=with_it.figures[0],
        spread=with_it.figures[1],
        slowest_unbalanced=without.figures[0],
        spread_unbalanced=without.figures[1],
        padding=both[0],
        padding_unbalanced=both[1],
    )


def slowest_ranks(loader: Loader) -> tuple[Float64Array, Float64Array]:
    """Return the cost of each step's slowest rank, divided by the mean of all ranks.

    Returns:
        With the loader's balance and without: float64 [steps] each.
    """
    _, with_it, without = _both(loader, None)
    return with_it.slowest, without.slowest


def _padding(sequences: Cut, run: Run, steps: _FirstSteps) -> float | None:
    """Return the share of padding in batches of documents."""
    is_padded = isinstance(sequences, Documents) and sequences.pad is not None
    if not is_padded or not run.index.tokens_differ or not steps.costs.size:
        return None
    tokens = SequenceCosts(run.index).tokens(steps.sequences.ravel())
    lengths = tokens.reshape(steps.sequences.shape)
    longest = np.maximum(lengths.max(axis=1), 1)
    if sequences.has_one_length:
        longest = np.full_like(longest, run.index.length)
    return float(1 - lengths.sum() / (longest.sum() * run.batch_size))


def _both(loader: Loader, balance: BalanceLike) -> tuple[Run, _FirstSteps, _FirstSteps]:
    """Return the run with a balance, and its first steps with it and without."""
    settings = loader.view().settings
    chosen = Balance.parse(balance) or settings.balance or Balance(attention=1)
    balanced = make_run(replace(settings, balance=chosen))
    plain = make_run(replace(settings, balance=None))
    costs = balanced.costs
    return balanced, _steps(balanced, costs), _steps(plain, costs)


def _steps(run: Run, costs: Costs) -> _FirstSteps:
    """Look at the first steps of an epoch."""
    track, size = run.at(run.beginning(0)), run.step_sequences
    count = max(1, MOST_SEQUENCES // size) * size
    if track.end is not None:
        count = min(count, (track.end - track.start) // size * size)
    sequences_at = track.at(range(track.start, track.start + count))
    numbers = finished(gathered(sequences_at)).numbers
    sequences = numbers.reshape(-1, run.batch_size, run.world_size)
    return _FirstSteps(sequences, costs(numbers).reshape(sequences.shape))
