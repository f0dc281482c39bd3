"""First sentences of a report: how it is mixed, how long it is, what is left."""

from __future__ import annotations

import math
import statistics

from pagefeed.core.loader import Loader
from pagefeed.reports.forecasts import Forecast
from pagefeed.reports.page.recorded import RATE, Recorded

__all__ = ["verdict"]

MOST_EXCESS = 0.05
"""Share of pairs of a batch that may be of one page or file beyond a random order."""


def verdict(
    loader: Loader, plan: Forecast, recorded: Recorded | None, num_damaged: int
) -> str:
    """Return a sentence about damage, order, length and what is left of the run."""
    said = [_mixed(loader.batch_size or 2, plan)]
    if num_damaged:
        said.insert(0, f"{num_damaged:,} places cannot be read.")
    if plan.steps is None:
        return " ".join([*said, "The run has no end."])
    what = "run" if plan.datasets else "epoch"
    said.append(f"The {what} has {plan.steps:,} steps, {plan.sequences:,} sequences.")
    if recorded is not None and recorded.steps[-1] <= plan.steps:
        said.append(_left(loader, plan.steps - int(recorded.steps[-1]), recorded))
    return " ".join(said)


def _mixed(rows: int, plan: Forecast) -> str:
    if rows == 1:
        return "A batch has one row, so that no pair of its rows shows the order."
    pairs = rows * (rows - 1) / 2
    excesses = {
        "page": plan.same_page_pairs - plan.same_page_pairs_random,
        "file": plan.same_file_pairs - plan.same_file_pairs_random,
    }
    name = max(excesses, key=excesses.__getitem__)
    excess = max(0.0, excesses[name]) / pairs
    if excess <= MOST_EXCESS:
        return "The data is mixed well: batches are like those drawn at random."
    return (
        f"The data is not mixed well: {excess:.0%} of the pairs of a batch are of one "
        f"{name} beyond those of a random order. Take a larger window."
    )


def _left(loader: Loader, steps: int, recorded: Recorded) -> str:
    said = f"{steps:,} steps are left"
    rates = [rate for rate in recorded.values.get(RATE, []) if not math.isnan(rate)]
    tokens = (loader.batch_size or 0) * loader.view().run.index.length
    if not rates or not tokens or statistics.median(rates) <= 0:
        return f"{said}."
    seconds = steps * tokens / statistics.median(rates)
    return f"{said}, {seconds / 3600:,.1f} hours at the median rate so far."
