"""What steps cost, by the lengths of documents: the slowest rank, and step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pagefeed.batches import make_run
from pagefeed.loader import Loader, session_of
from pagefeed.order import Balance, BalanceLike, Costs
from pagefeed.run import Run

__all__ = ["StepCosts", "step_costs"]

MOST_SEQUENCES = 1 << 17
"""Sequences looked at, from the begin of an epoch on."""


@dataclass(frozen=True, kw_only=True)
class StepCosts:
    """What the steps of a run cost, with a balance and without."""

    slowest: float
    """Cost of a step's slowest rank over the mean of all ranks; the mean of steps."""
    spread: float
    """How much the cost of steps varies: standard deviation over the mean."""
    slowest_unbalanced: float
    """``slowest`` without the balance."""
    spread_unbalanced: float
    """``spread`` without the balance."""


def step_costs(loader: Loader, balance: BalanceLike = None) -> StepCosts:
    """Return what steps will cost, by the order and the lengths of documents alone.

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
    settings = session_of(loader).settings
    chosen = Balance.parse(balance) or settings.balance or Balance(attention=1)
    balanced = make_run(replace(settings, balance=chosen))
    plain = make_run(replace(settings, balance=None))
    costs = balanced.costs
    with_it, without = (_figures(_sequences(run), costs) for run in (balanced, plain))
    return StepCosts(
        slowest=with_it[0],
        spread=with_it[1],
        slowest_unbalanced=without[0],
        spread_unbalanced=without[1],
    )


def _sequences(run: Run) -> npt.NDArray[np.int64]:
    """Sequences of the first steps of an epoch: [steps, batch_size, ranks]."""
    track, size = run.at(run.beginning(0)), run.step_sequences
    count = max(1, MOST_SEQUENCES // size) * size
    if track.end is not None:
        count = min(count, (track.end - track.start) // size * size)
    found = track.at(range(track.start, track.start + count))
    parts = [part for part in found if part is not None]
    joined = np.concatenate([np.empty(0, dtype=np.int64), *parts])
    return joined.reshape(-1, run.batch_size, run.world_size)


def _figures(sequences: npt.NDArray[np.int64], costs: Costs) -> tuple[float, float]:
    """The slowest rank and the spread of some steps; 1 and 0 of none."""
    if not sequences.size:
        return 1.0, 0.0
    of_ranks = costs(sequences.ravel()).reshape(sequences.shape).sum(axis=1)
    means = np.maximum(of_ranks.mean(axis=1), np.finfo(np.float64).tiny)
    slowest = float((of_ranks.max(axis=1) / means).mean())
    return slowest, float(means.std() / means.mean())
