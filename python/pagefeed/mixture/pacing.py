"""A curriculum: rows from easy to hard, by a column that says how hard each one is."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import check_choice, check_number, check_positive, check_whole
from pagefeed.errors import InvalidArgumentError
from pagefeed.mixture.mixture import Mixture, Stage
from pagefeed.mixture.mixture import mix as make_mixture

Pace: TypeAlias = Literal["linear", "sqrt", "step"]
"""Growth of the open share of the data with the steps."""
MOST_TIERS = 64
EMPTY = 1e-300
"""No division by zero where all is open at once."""


def curriculum(
    dataset: Any,
    *,
    by: str,
    steps: int,
    tiers: int = 16,
    pace: Pace = "sqrt",
    start: float = 0.2,
    mix: float = 0.1,
    easy: Literal["low", "high"] = "low",
    unit: Literal["tokens", "sequences"] = "tokens",
    max_steps: int | None = None,
) -> Mixture:
    """Return a mixture that goes from easy rows to hard ones.

    At a share t of the steps, the easiest share c(t) of the data is open. Each step
    takes from what is open, and a share ``mix`` of it from all of the data. Rows are
    divided into tiers by the column; the mixture has stages at which each tier opens.

    Args:
        dataset: A dataset such as :func:`pagefeed.parquet` returns.
        by: A column of numbers that say how hard a row is, such as ``"perplexity"``.
        steps: Steps after which all data are open.
        tiers: Number of tiers of equally many rows, 64 at most. Rows without a number
            are one more tier, the hardest.
        pace: ``"linear"``: c grows evenly from ``start`` to 1. ``"sqrt"``: the square
            of c does, so that new rows come at a rate that falls as more are open.
            ``"step"``: tiers open at once, one after another at equal times.
        start: Share that is open at first.
        mix: Share of each step that comes from all of the data, open or not.
        easy: ``"low"`` if low numbers are easy, ``"high"`` if high ones are.
        unit: What shares count: ``"tokens"``, or ``"sequences"`` for rows as
            :class:`Documents`.
        max_steps: Steps of the mixture. By default it ends when all data are open.

    Raises:
        InvalidArgumentError: If an argument cannot be right, or the column has too few
            different values for the tiers.
        ColumnNotFoundError: If there is no such column.

    Example:
        >>> curriculum(web, by="perplexity", steps=10_000)  # doctest: +SKIP
        Mixture(tier 00: 0.2875, tier 01: 0.2875, ...)
    """
    steps = check_positive(steps, "steps")
    check_whole(tiers, "tiers", least=2, most=MOST_TIERS)
    check_choice(pace, get_args(Pace), "pace")
    start = check_number(start, "start", "a share", above=0, most=1)
    mixed = check_number(mix, "mix", "a share", least=0, most=1)
    check_choice(easy, ("low", "high"), "easy")
    check_choice(unit, ("tokens", "sequences"), "unit")
    try:
        divide = dataset.tiers
    except AttributeError:
        raise InvalidArgumentError(
            f"dataset={dataset!r:.60} has no tiers: give pagefeed.parquet(...)"
        ) from None
    found = list(divide(by, quantiles=tiers).values())
    parts = found[:tiers] if easy == "low" else found[:tiers][::-1]
    parts += found[tiers:]
    ends = np.array([len(part) for part in parts])
    sizes = [
        float(part.spans.values_of_rows(ends[n : n + 1])[0])
        if unit == "tokens"
        else len(part)
        for n, part in enumerate(parts)
    ]
    shares = np.array(sizes) / math.fsum(sizes)
    names = [f"tier {n:0{len(str(len(parts)))}}" for n in range(len(parts))]

    def weights(opened: float) -> dict[str, float]:
        before = np.cumsum(shares) - shares
        own = np.clip(opened - before, 0, shares) / opened
        both = (1 - mixed) * own + mixed * shares
        return dict(zip(names, both.tolist(), strict=True))

    times, opened = _schedule(np.cumsum(shares), pace, start)
    starts = [round(time * steps) for time in times]
    stages = [
        Stage(start_step=begin, weights=weights(share), anneal=end - begin)
        for begin, end, share in zip(starts, starts[1:], opened[1:], strict=False)
        if end > begin
    ]
    if pace == "step":
        stages = [
            Stage(start_step=begin, weights=weights(share))
            for begin, share in zip(starts[1:], opened[1:], strict=True)
        ]
    first = weights(opened[0])
    return make_mixture(
        {name: (part, first[name]) for name, part in zip(names, parts, strict=True)},
        unit=unit,
        stages=stages,
        max_steps=max_steps or steps,
    )


def _schedule(
    borders: npt.NDArray[np.float64], pace: Pace, start: float
) -> tuple[list[float], list[float]]:
    """Return shares of the steps, and the share of the data that is open there.

    Args:
        borders: Share of the data up to the end of each tier.
        pace: How the open share grows.
        start: Share that is open at first.
    """
    later = [share for share in borders[:-1].tolist() if share > start]
    opened = [start, *later, *[1.0] * (start < 1)]
    if pace == "step":
        return np.linspace(0, 1, len(opened) + 1)[:-1].tolist(), opened
    power = 1 if pace == "linear" else 2
    growth = np.array(opened) ** power - start**power
    return (growth / max(growth[-1], EMPTY)).tolist(), opened
