"""First sentences of a report: how it is mixed, how long it is."""

from __future__ import annotations

from pagefeed.core.loader import Loader
from pagefeed.reports.forecasts import Forecast

MOST_EXCESS = 0.05
"""Share of pairs of a batch that may be of one page or file beyond a random order."""


def verdict(loader: Loader, plan: Forecast, num_damaged: int) -> str:
    """Return sentences about damage, order and length of the run."""
    said = [_mixed(loader.batch_size or 2, plan)]
    if num_damaged:
        said.insert(0, f"{num_damaged:,} places cannot be read.")
    if plan.steps is None:
        return " ".join([*said, "The run has no end."])
    what = "run" if plan.datasets else "epoch"
    said.append(f"The {what} has {plan.steps:,} steps, {plan.sequences:,} sequences.")
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
