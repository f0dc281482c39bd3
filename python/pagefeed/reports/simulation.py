"""Simulate the reads of the engine on planned segments.

The simulation does what the engine does with a plan: it reads a page at its first
planned use, keeps it until the last one, and evicts the page whose next use is farthest
when memory is short. It takes the segments of the same cursor that a loader uses.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.batches import steps_ahead
from pagefeed.core.dataset import Dataset, FolderColumn, PageIndex
from pagefeed.core.loader import Loader
from pagefeed.core.run import Cursor
from pagefeed.core.sequences import (
    JoinedIndex,
    Segments,
    SequenceIndex,
    are_bundles,
)
from pagefeed.documents import DocumentIndex
from pagefeed.flat import FlatDataset, RecordColumn
from pagefeed.reports.sampling import evenly

LEAST_SEQUENCES, MOST_SEQUENCES = 1 << 16, 1 << 20
"""Sequences of a rank that are simulated. More are not, however far plans reach: then
pages that are used again later than that count as read again."""
SAMPLED_PAGES = 1024
CACHE_SHARE = 8
"""Pages of columns other than tokens may take one part in this many of the memory."""
MOST_SLICES = 48
"""Most sequences of a page of a flat file that is read in slices."""
PLAN_BYTES = 64
"""Memory of a planned sequence, about."""
FREE_SHARE = 32
"""One part in this many of the memory for pages holds none, as measured: pages are
being loaded, and threads keep what they decode with."""
READY_BYTES = 24 << 20
"""Memory of finished batches at most, unless a few batches are larger."""
GAP, TOKENS_AT_ONCE = 4096, 1 << 18
"""Parts are read together if at most this many bytes are between them, for groups of
this many tokens of a batch."""


@dataclass(frozen=True, kw_only=True)
class ColumnReads:
    """Reads of a column other than the tokens, over all ranks."""

    bytes: int
    """Stored bytes read; estimated from some pages if there are many."""
    reads: int
    """Pages read. Columns in the records of tokens take none; spans of streams take two
    for each read of tokens: their payloads, and where these lie."""


def simulate(loader: Loader, cursor: Cursor) -> dict[str, Any]:
    """Simulate a stretch from the middle of a route, and scale it to the whole.

    The first half of the stretch only brings pages into memory. Reads are counted in
    the second half, or everywhere if the stretch is the whole route.

    Returns:
        What all ranks read together, by the names that forecasts have for it.
    """
    route, datasets = cursor.route, loader.view().run.datasets
    sequences, piece, ahead, is_whole = _stretch(cursor, loader.memory)
    plan_bytes = loader.view().settings.plan_bytes
    horizon = min(ahead // 2, plan_bytes // PLAN_BYTES)
    index = loader.view().run.index
    shows_metadata = "metadata" in loader.fields.names
    segments = index.segments(sequences)
    pages, dataset = segments.page, index.dataset_of(sequences)[segments.sequence]
    is_slice = _are_slices(datasets, index, segments, dataset, piece[segments.sequence])
    beside = [_columns(data, shows_metadata=shows_metadata) for data in datasets]
    share = np.array([_share(*values) for values in zip(datasets, beside, strict=True)])
    sizes = index.loaded_bytes(pages[~is_slice]) * share[dataset[~is_slice]]
    sizes = sizes.astype(np.int64)
    is_load = np.zeros(len(pages), dtype=np.bool_)
    room = _page_bytes(loader) - min(plan_bytes, ahead * PLAN_BYTES)
    # Batches are made ahead up to where as much again is planned.
    is_load[~is_slice] = simulate_loads(
        pages[~is_slice],
        sizes,
        room - room // FREE_SHARE,
        places=segments.sequence[~is_slice],
        horizon=horizon,
    )
    first = 0 if is_whole else len(pages) // 2
    is_counted = np.arange(len(pages)) >= first
    counted = len(np.unique(segments.sequence[first:]))
    scale = (route.num_sequences or 0) / max(1, counted)
    all_loads = all_pages = all_slices = all_bytes = 0.0
    columns = defaultdict[str, npt.NDArray[np.float64]](lambda: np.zeros(2))
    for member, data in enumerate(datasets):
        is_ours = dataset == member
        chosen = is_slice & is_ours & is_counted
        some = Segments._make(values[chosen] for values in segments)
        some = some._replace(page=some.page - index.first_page[member])
        per_row = index.layout.per_row
        slices, slice_bytes = _slice_reads(data.index, some, route.batch_size, per_row)
        own, loads = index.parts[member], int((is_load & is_ours & is_counted).sum())
        loaded = pages[is_load & is_ours] - index.first_page[member]
        is_bundled = own.layout.packing is not None
        units = len(own.blocks("page")) if is_bundled else data.spans.num_pages
        per_load = data.spans.num_pages / max(1, units)
        stored = _mean_stored_bytes(data.index)
        num_bytes = loads * per_load * stored + slice_bytes
        all_loads += loads * scale
        all_pages += loads * per_load * scale
        all_slices += slices * scale
        all_bytes += num_bytes * scale
        # Columns of other kinds are read with the tokens.
        paged = {n: c for n, c in beside[member].items() if type(c) is PageIndex}
        added = _page_reads(
            own, data.index, paged, loaded, is_counted[is_load & is_ours], loader.memory
        )
        for name, column in beside[member].items():
            reads, size = added.get(name, (0.0, 0.0))
            if isinstance(column, RecordColumn) and column.shards is not None:
                # Payloads lie side by side as their tokens do.
                files = [file for shard in column.shards for file in shard]
                whole = sum(data.index.storage.size(file) for file in files)
                size = whole * num_bytes / max(1.0, stored * len(data.index))
                reads = 2 * (loads + slices)
            columns[name] += reads * scale, size * scale
    return {
        "needed_bytes": needed_bytes(pages[~is_slice], sizes),
        "loads_per_page": all_pages / max(1, sum(d.spans.num_pages for d in datasets)),
        "slice_reads": round(all_slices),
        "reads": round(all_loads) + round(all_slices),
        "bytes_read": round(all_bytes),
        "columns": {
            name: ColumnReads(reads=round(reads), bytes=round(size))
            for name, (reads, size) in columns.items()
        },
    }


def _page_bytes(loader: Loader) -> int:
    """Return the memory for pages, without that for plans."""
    token_fields = max(1, len(loader.fields.made))
    batch = loader.batch_size * loader.view().run.index.length * 8 * token_fields
    batches = max(
        batch * (loader.num_threads + 4), min(READY_BYTES, loader.memory // 8)
    )
    return loader.memory - max(batch, min(batches, loader.memory // 2))


def _stretch(cursor: Cursor, memory: int) -> tuple[Int64Array, Int64Array, int, bool]:
    """Return the sequences of a stretch in the middle of a route.

    Returns:
        The sequences, without padding; the piece of the plan of each; how many are
        planned ahead; and whether the stretch is the whole route.
    """
    num_steps, batch_size = cursor.route.num_steps or 0, cursor.route.batch_size
    ahead = batch_size * steps_ahead(cursor.horizon(memory), batch_size)
    wanted = min(max(LEAST_SEQUENCES, 2 * ahead), MOST_SEQUENCES) // batch_size + 1
    # A stretch that is most of the route would count what the other half brought.
    count = num_steps if 2 * wanted >= num_steps else wanted
    pieces = cursor.pieces((num_steps - count) // 2, count)
    numbers = [piece.numbers for piece in pieces if piece is not None]
    rows = [own[own >= 0] for own in numbers]
    sequences = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    piece = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return sequences, piece, ahead, count == num_steps


def _columns(data: Dataset, *, shows_metadata: bool) -> dict[str, object]:
    """Return the index of each column other than the tokens, by name."""
    columns: dict[str, object] = dict(
        zip((a.column for a in data.aligned), data.aligned_sources, strict=True)
    )
    if shows_metadata:
        names = (*data.metadata, *data.span_columns)
        columns |= {name: data.source_of(name) for name in names}
    # Folders say the values of their columns: nothing is read for them.
    return {n: c for n, c in columns.items() if not isinstance(c, FolderColumn)}


def _share(data: Dataset, columns: dict[str, object]) -> float:
    """Return the bytes of tokens with all other columns, over those without."""
    index = data.index
    aligned = {column.column for column in data.aligned}
    both = zip(data.aligned, data.aligned_sources, strict=True)
    beside = float(sum(column.token_bytes(source, index) for column, source in both))
    beside += sum(
        getattr(column, "mean_row_bytes", 0) * index.num_rows / max(1, index.num_values)
        for name, column in columns.items()
        if name not in aligned
    )
    return 1 + beside / max(1, index.value_bytes)


def _mean_stored_bytes(index: PageIndex) -> float:
    """Return the mean stored bytes of a page, from some of the pages."""
    pages = evenly(len(index), SAMPLED_PAGES).tolist()
    sizes = [index.locate(page).compressed_size for page in pages]
    return float(np.mean(sizes)) if sizes else 0.0


def _page_reads(
    sequences: SequenceIndex,
    index: PageIndex,
    columns: dict[str, PageIndex],
    loaded: Int64Array,
    is_counted: npt.NDArray[np.bool_],
    memory: int,
) -> dict[str, tuple[float, float]]:
    """Return reads and bytes of the pages of columns that loads of tokens bring along.

    A page that several pages of tokens need stays in memory for a while.
    """
    if not columns:
        return {}
    if are_bundles(loaded).any():
        keys, which = np.unique(loaded, return_inverse=True)
        bundles = sequences.bundles(keys)
        slices = np.split(bundles.slice_page, bundles.slice_offsets[1:-1])
        is_counted = np.repeat(is_counted, [len(slices[key]) for key in which])
        loaded = np.concatenate([slices[key] for key in which])
    first, end = index.first_rows(loaded), index.first_rows(loaded + 1)
    pages = {
        name: np.stack([column.pages_of_rows(first), column.pages_of_rows(end - 1)])
        for name, column in columns.items()
    }
    shared, reads, stored = _Shared(memory), Counter[str](), Counter[str]()
    for load in np.flatnonzero(first < end).tolist():
        for name, column in columns.items():
            begin, last = pages[name][:, load].tolist()
            borders = column.first_rows(np.arange(begin, last + 2))
            # No other page of tokens needs a page whose rows are all of this one.
            is_own = (first[load] <= borders[:-1]) & (borders[1:] <= end[load])
            sizes = np.where(is_own, 0, np.diff(borders) * column.mean_row_bytes)
            for page, size in enumerate(sizes.tolist(), start=begin):
                if not shared.has(name, page, size) and is_counted[load]:
                    reads[name] += 1
                    stored[name] += column.locate(page).compressed_size
    return {name: (reads[name], stored[name]) for name in columns}


class _Shared:
    """Pages of columns that several pages of tokens need; the latest used stay."""

    def __init__(self, memory: int) -> None:
        self._held: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._free = memory // CACHE_SHARE

    def has(self, name: str, page: int, size: int) -> bool:
        """Return whether a page is in memory, and keep it from now on."""
        was_held = (name, page) in self._held
        if size:
            self._free += self._held.pop((name, page), 0) - size
            self._held[name, page] = size
            while self._free < 0 and len(self._held) > 1:
                self._free += self._held.popitem(last=False)[1]
        return was_held


def _are_slices(
    datasets: Sequence[Dataset],
    index: JoinedIndex,
    segments: Segments,
    dataset: Int64Array,
    piece: Int64Array,
) -> npt.NDArray[np.bool_]:
    """Return which segments of flat files are read alone, and not with their page."""
    are_slices = np.zeros(len(segments.page), dtype=np.bool_)
    own = index.parts[0]
    if own.layout.packing is not None or isinstance(own, DocumentIndex):
        return are_slices
    for member, data in enumerate(datasets):
        mine = np.flatnonzero(dataset == member)
        if not isinstance(data, FlatDataset) or not len(mine):
            continue
        page = segments.page[mine] - index.first_page[member]
        tokens = data.index.first_values(page + 1) - data.index.first_values(page)
        key = piece[mine] * len(data.index) + page
        _, inverse, uses = np.unique(key, return_inverse=True, return_counts=True)
        are_slices[mine] = (tokens <= index.length * MOST_SLICES) | (uses[inverse] == 1)
    return are_slices


def _slice_reads(
    index: PageIndex, segments: Segments, batch_size: int, per_row: int
) -> tuple[int, float]:
    """Return the reads, and their bytes, of segments that are read alone."""
    if not len(segments.page):
        return 0, 0.0
    begin, size = np.zeros((2, len(segments.page)), dtype=np.int64)
    order = np.argsort(segments.page, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(segments.page[order])) + 1):
        page = int(segments.page[own[0]])
        where, offsets = index.locate(page), index.row_offsets(page)
        scale = where.compressed_size / max(1, int(offsets[-1]))
        # Tokens without the separators of rows.
        share = offsets[-1] / max(1, offsets[-1] + per_row * (len(offsets) - 1))
        first = offsets[segments.row[own]] + segments.first_token[own] * share
        begin[own] = where.offset + first * scale
        size[own] = segments.num_tokens[own] * share * scale
    batch = segments.sequence // batch_size
    first = np.cumsum(segments.num_tokens.astype(np.int64)) - segments.num_tokens
    is_new = np.diff(batch, prepend=-1) != 0
    group = (first - np.maximum.accumulate(first * is_new)) // TOKENS_AT_ONCE
    file = np.searchsorted(index.file_first_page, segments.page, side="right")
    order = np.lexsort((begin, file, group, batch))
    together = np.stack([batch, group, file])[:, order]
    begin, end = begin[order], (begin + size)[order]
    is_first = (np.diff(together, axis=1, prepend=-1) != 0).any(axis=0)
    is_first[1:] |= begin[1:] > end[:-1] + GAP
    ends = end[np.append(np.flatnonzero(is_first)[1:], len(end)) - 1]
    return int(is_first.sum()), float((ends - begin[is_first]).sum())


def needed_bytes(uses: Int64Array, sizes: Int64Array) -> int:
    """Return the bytes of memory with which no page is read twice.

    Args:
        uses: Page of each use, in order: int64 [uses].
        sizes: Bytes of the page of each use: int64 [uses].
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

    When memory is short, the page whose next use is farthest is given up first. No
    order is better (Belady, "A study of replacement algorithms", 1966), and the engine
    does the same, since it knows the plan.

    Args:
        uses: Page of each use, in order: int64 [uses].
        sizes: Bytes of the page of each use: int64 [uses].
        capacity: Bytes that can be held.
        places: Number of the sequence of each use, in order: int64 [uses].
        horizon: Number of sequences that are planned ahead, if ``places`` are given. A
            page without a planned use is given up.
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
    next_use: dict[int, int] = {}  # Page -> its next use.
    by_next_use: list[tuple[int, int]] = []
    free = capacity
    size_of = dict(zip(uses.tolist(), sizes.tolist(), strict=True))
    for use, (page, after) in enumerate(
        zip(uses.tolist(), following.tolist(), strict=True)
    ):
        if page not in next_use:
            loads[use] = True
            free -= size_of[page]
        next_use[page] = after
        heapq.heappush(by_next_use, (-after, page))
        while free < 0 and by_next_use:
            negated, victim = heapq.heappop(by_next_use)
            # An entry that is older than the page's last use says nothing.
            if next_use.get(victim) == -negated:
                del next_use[victim]
                free += size_of[victim]
        if after == end and next_use.get(page) == end:
            del next_use[page]
            free += size_of[page]
    return loads
