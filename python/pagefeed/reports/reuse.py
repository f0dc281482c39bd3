"""How often pages are read when only so much of them can be held."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset, FolderColumn

__all__ = ["needed_bytes", "share_with_columns", "simulate_loads"]


def share_with_columns(
    datasets: Iterable[Dataset], *, tells_metadata: bool = False
) -> float:
    """Return what pages take with the columns that come with them, for one of tokens.

    Args:
        datasets: Of several, the largest is returned.
        tells_metadata: Whether these are aligned columns alone, or metadata too, of
            which the size is about so.
    """
    shares = [1.0]
    for dataset in datasets:
        index = dataset.index
        beside = float(sum(each.value_bytes for each in dataset.aligned_sources))
        if tells_metadata:
            beside += _row_bytes(dataset) * index.num_rows / max(1, index.num_values)
        shares.append(1 + beside / max(1, index.value_bytes))
    return max(shares)


def _row_bytes(dataset: Dataset) -> int:
    """Bytes of the metadata of a row, about."""
    names = (*dataset.metadata, *dataset.span_columns)
    sources = (dataset.source_of(name) for name in names)
    return sum(
        source.mean_row_bytes
        for source in sources
        if not isinstance(source, FolderColumn)
    )


def needed_bytes(uses: Int64Array, sizes: Int64Array) -> int:
    """Return what must be held so that no page is read twice.

    Args:
        uses: Page of each use, in order: int64 [uses].
        sizes: Bytes of that page: int64 [uses].
    """
    _, first, inverse = np.unique(uses, return_index=True, return_inverse=True)
    last = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(last, inverse, np.arange(len(uses)))
    change = np.zeros(len(uses) + 1, dtype=np.int64)
    np.add.at(change, first, sizes[first])
    np.add.at(change, last + 1, -sizes[first])
    return int(np.cumsum(change).max(initial=0))


def simulate_loads(
    uses: Int64Array,
    sizes: Int64Array,
    capacity: int,
    *,
    places: Int64Array | None = None,
    horizon: int = 0,
) -> npt.NDArray[np.bool_]:
    """Return which uses have to read their page: bool [uses].

    When room is needed the page whose next use is farthest goes first, which is the
    best there is (Belady, "A study of replacement algorithms", 1966), and what the
    engine does, since it knows the plan.

    Args:
        uses: Page of each use, in order: int64 [uses].
        sizes: Bytes of that page: int64 [uses].
        capacity: Bytes that can be held.
        places: Number of the sequence of each use, in order: int64 [uses].
        horizon: Sequences that are planned ahead, where ``places`` are given: a page
            of which no use is planned is given up.
    """
    end = len(uses)
    order = np.argsort(uses, kind="stable")
    following = np.full(end, end)
    same = uses[order[1:]] == uses[order[:-1]]
    following[order[:-1][same]] = order[1:][same]
    if places is not None:
        distance = np.append(places, 0)[following] - places
        following[(following < end) & (distance > horizon)] = end

    loads = np.zeros(end, dtype=bool)
    held: dict[int, int] = {}  # Page -> its next use.
    by_next_use: list[tuple[int, int]] = []
    free = capacity
    size_of = dict(zip(uses.tolist(), sizes.tolist(), strict=True))
    for use, (page, after) in enumerate(
        zip(uses.tolist(), following.tolist(), strict=True)
    ):
        if page not in held:
            loads[use] = True
            free -= size_of[page]
        held[page] = after
        heapq.heappush(by_next_use, (-after, page))
        while free < 0 and by_next_use:
            negated, victim = heapq.heappop(by_next_use)
            # An entry that is older than the page's last use says nothing.
            if held.get(victim) == -negated:
                del held[victim]
                free += size_of[victim]
        if after == end and held.get(page) == end:
            del held[page]
            free += size_of[page]
    return loads
