"""Which block ``shuffle="auto"`` moves: what one request is best spent on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pagefeed.core.batches.settings import LoaderSettings
from pagefeed.core.dataset import PageIndex

__all__ = ["block_for", "with_chosen_block"]

SMALL = 256 << 10
"""Stored bytes for which a request takes longer than its bytes, as requests are joined
across gaps of this size."""
LARGE = 8 << 20
"""Stored bytes of the longest request: a larger block is several of them."""
FEWEST = 96
"""Blocks that mix: two for each of the usual 48 lanes."""
_SAMPLED = 1 << 12


def block_for(indexes: Sequence[PageIndex]) -> Literal["page", "row_group"]:
    """Return the block whose requests suit a storage with latency, and which mixes.

    Row groups, if pages are small, and row groups are many and one request each. It
    depends on the indexes alone, not on where the files lie or how fast that is: all
    ranks choose alike, a resumed run chooses again what it had, and a copy of the data
    on a local disk has the same order.

    Args:
        indexes: The indexes of all datasets of a run.
    """
    pages = row_groups = 0
    size = 0.0
    for index in indexes:
        pages += _count(index, "page")
        row_groups += _count(index, "row_group")
        size += _mean_bytes(index) * len(index)
    is_small = size < SMALL * pages
    suits = row_groups >= FEWEST and size <= LARGE * row_groups
    return "row_group" if is_small and suits else "page"


def _count(index: PageIndex, kind: Literal["page", "row_group"]) -> int:
    runs = index.runs(kind)
    return len(index) if runs is None else len(runs)


def _mean_bytes(index: PageIndex) -> float:
    """Return the mean stored bytes of a page, of some from all over the files."""
    if not len(index):
        return 0.0
    some = np.linspace(0, len(index) - 1, min(len(index), _SAMPLED)).astype(np.int64)
    return float(index.stored_bytes(some).mean())


def with_chosen_block(settings: LoaderSettings) -> LoaderSettings:
    """Return settings whose shuffle names the block that ``"auto"`` comes to."""
    if settings.shuffle.block != "auto":
        return settings
    parts = settings.dataset.parts.values()
    block = block_for([part.index for part in parts])
    return replace(settings, shuffle=replace(settings.shuffle, block=block))
