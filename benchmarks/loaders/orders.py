"""Orders of loaders, under some seeds each, held against random ones."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LENGTH", "SEEDS", "SHOWN", "TOKENS", "statistics_of"]

SEEDS = 24
"""Orders of a loader: each under another seed, as not all have a second epoch."""
TOKENS, LENGTH = 1 << 19, 64
"""Of small data: 8,192 samples in 8 files, so that whole epochs are soon delivered."""
SHOWN = {
    "first batch again": "first step",
    "place again": "parts",
    "mates again": "mates",
    "one file": "sources",
}
"""Columns, and the tests whose findings they show, over what is random."""


def statistics_of(numbers: Path, groups: dict[str, Any]) -> dict[str, Any]:
    """Hold what was delivered against random orders.

    Args:
        numbers: The samples of each order, int64 [seeds, batches, batch_size], with -1
            where fewer came.
        groups: The page and the file of every sample.
    """
    from order_statistics import Units, order_statistics  # No loader waits for it.

    seen, page = np.load(numbers), groups["same_page"]
    units = Units(num_units=len(page), page=page, source=groups["same_file"])
    found = order_statistics(
        # Two epochs of a seed are two seeds here.
        lambda seed, epoch: seen[2 * seed + epoch],
        units,
        seeds=len(seen) // 2,
    )
    by_name = {each.test: each for each in found.findings}
    return {
        "fails": [each.test for each in found.findings if not each.ok],
        **{
            column: by_name[test].measured / by_name[test].random
            for column, test in SHOWN.items()
        },
    }
