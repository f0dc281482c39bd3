"""Makes the run and the feed of a loader from its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np

from pagefeed.core.batches.feeds import Feed, TokenFeed
from pagefeed.core.batches.settings import LoaderSettings
from pagefeed.core.dataset import BlockKind, Dataset, PageIndex
from pagefeed.core.run import DatasetRun, Run
from pagefeed.errors import InvalidArgumentError


def make_run(settings: LoaderSettings) -> Run:
    """Return the run of a loader on this rank.

    Raises:
        InvalidArgumentError: If the run has no sequence.
    """
    names = [f.name for f in fields(Run) if f.init and f.name != "memory"]
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    options["memory"] = settings.order_bytes
    if settings.fleet is not None:
        # Order and states count whole steps; the fleet assigns their rows to ranks.
        fleet = settings.fleet.placed(settings.rank, settings.world_size)
        size = fleet.stages[0][1]
        options |= {"fleet": fleet, "batch_size": size, "rank": 0, "world_size": 1}
    run: Run | None = settings.dataset.make_run(options)
    if run is not None:
        return run
    return DatasetRun(dataset=cast("Dataset", settings.dataset), **options)


def make_feed(settings: LoaderSettings, run: Run) -> Feed:
    """Return the feed that makes batches of the sequences of a run.

    Raises:
        InvalidArgumentError: If batches cannot hold the requested fields, or ``memory``
            is too small to balance ranks.
    """
    settings = replace(settings, dealing_bytes=_dealing_bytes(settings, run))
    for dataset in run.datasets:
        feed: Feed | None = dataset.feed(settings, run, feed_of_cut)
        if feed is not None:
            return feed
    return feed_of_cut(settings, run)


def _dealing_bytes(settings: LoaderSettings, run: Run) -> int:
    """Return the bytes in which sequences are dealt, if these leave enough."""
    if run.balance is None:
        return 0
    bound = run.num_sequences if isinstance(run, DatasetRun) else None
    needed = run.balance.dealing_bytes(run.world_size, bound)
    if 2 * needed > settings.memory:
        raise InvalidArgumentError(
            f"balance={run.balance!r} deals the sequences of {run.world_size} ranks in "
            f"{needed} bytes, and memory={settings.memory} is less than twice as much: "
            f"give memory={2 * needed} or more, or a shorter stretch"
        )
    return needed


def feed_of_cut(settings: LoaderSettings, run: Run) -> Feed:
    """Return the feed of the sequences, without what datasets add to it."""
    feed: Feed | None = settings.sequences.feed(settings, run)
    return TokenFeed(settings, run) if feed is None else feed


SMALL = 256 << 10
"""Stored bytes below which a request costs more time than the transfer of the bytes:
requests are joined across gaps of this size."""
LARGE = 8 << 20
"""Bytes of the longest request; larger blocks are read in several."""
FEWEST = 96
"""Blocks that are mixed at least: two for each of the usual 48 lanes."""
_SAMPLED = 1 << 12


def block_for(indexes: Sequence[PageIndex]) -> BlockKind:
    """Return the block of ``shuffle="auto"``: large requests that still mix well.

    It is ``"row_group"`` if pages are small, and there are many row groups that can be
    read with one request each. The choice depends on the indexes alone, not on where
    the files are stored or how fast storage is. So all ranks make the same choice, a
    resumed run makes it again, and a copy of the data on a local disk has the same
    order.

    Args:
        indexes: The indexes of all datasets of a run.
    """
    pages = row_groups = 0
    size = 0.0
    for index in filter(len, indexes):
        in_pages, in_groups = index.runs("page"), index.runs("row_group")
        pages += len(index if in_pages is None else in_pages)
        row_groups += len(index if in_groups is None else in_groups)
        # The mean of some pages from all over the files.
        some = np.linspace(0, len(index) - 1, min(len(index), _SAMPLED))
        size += float(index.stored_bytes(some.astype(np.int64)).mean()) * len(index)
    is_small = size < SMALL * pages
    suits = row_groups >= FEWEST and size <= LARGE * row_groups
    return "row_group" if is_small and suits else "page"


def with_chosen_block(settings: LoaderSettings) -> LoaderSettings:
    """Return settings with ``block="auto"`` replaced by the block it means here."""
    if settings.shuffle.block != "auto":
        return settings
    parts = settings.dataset.parts.values()
    block = block_for([dataset.index for dataset in parts])
    return replace(settings, shuffle=replace(settings.shuffle, block=block))
