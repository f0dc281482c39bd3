"""A rehearsal of a run: the engine's own schedule, which reads nothing.

The loader's cursor, feed and iteration plan as usual. The engine decides what it would
load, keep and give up, and counts that. Pages are empty memory of the size that they
would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.batches import Iteration, feed_of_cut, steps_ahead
from pagefeed.core.dataset import Dataset, FolderColumn, PageIndex, Spans
from pagefeed.core.loader import Loader
from pagefeed.core.run import Cursor
from pagefeed.core.sequences import (
    JoinedIndex,
    Segments,
    SequenceIndex,
    are_bundles,
    page_numbers,
)
from pagefeed.documents import DocumentIndex
from pagefeed.errors import InvalidArgumentError
from pagefeed.flat import FlatDataset, RecordColumn

LEAST_SEQUENCES, MOST_SEQUENCES = 1 << 17, 1 << 19
"""Sequences of a rank that are rehearsed. More are not, however far plans reach: then
pages that are used again later than that count as read again."""
MOST_SLICES = 48
"""Most sequences of a page of a flat file that is read in slices."""
GAP, TOKENS_AT_ONCE = 4096, 1 << 18
"""Parts are read together if at most this many bytes are between them, for groups of
this many tokens of a batch."""
GROWTH, MOST_TRIES, HALVINGS = 1.5, 8, 3
"""Memory is made larger by this factor, so often at most, until no page is read twice;
then the gap to what is too little is halved so often."""
SPARE_SHARE = 8
"""One part in this many comes on top: pages of a run are larger or smaller than those
of which a rehearsal knows the sizes."""


@dataclass(frozen=True, kw_only=True)
class ColumnReads:
    """Reads of a column other than the tokens, over all ranks."""

    bytes: int
    """Stored bytes read; estimated from some pages if there are many."""
    reads: int
    """Pages read. Columns in the records of tokens take none; spans of streams take two
    for each read of tokens: their payloads, and where these lie."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Account of some steps of one rank, in which nothing was read."""

    loaded: Int64Array
    """Page of each load, in order: int64 [loads]."""
    num_before: int
    """Loads in the first steps, which only bring pages into memory."""
    num_reloaded: int
    """Loads of pages that had been given up for lack of memory."""
    peak_bytes: int
    """Most bytes held at one time."""
    resident_bytes: int
    """Most bytes of the pages between their first and last use."""
    sources: Sequence[Any]
    """The columns of the pages, which are numbered consecutively over all columns."""


def rehearse(loader: Loader, cursor: Cursor, steps: range, memory: int) -> Rehearsal:
    """Take some steps of a route without reading anything.

    Args:
        loader: The loader.
        cursor: Its cursor at the begin of the route.
        steps: The steps, as their places in the route.
        memory: Bytes that the loader would have.

    Raises:
        InvalidArgumentError: If these do not hold one batch.
    """
    settings = replace(
        loader.view().settings, memory=memory, rehearses=True, decode=None
    )
    run = loader.view().run
    cursor = replace(cursor, num_taken=steps.start)
    if run.fleet is not None:
        cursor = replace(cursor, rank=loader.rank, world_size=loader.world_size)
    feed: Any = feed_of_cut(settings, run)
    iteration = Iteration(cursor, feed, settings.memory, settings.plan_bytes)
    engine, before, held = feed.engine(), 0, None
    for number in range(len(steps)):
        if number == _warm(steps):
            before = int(engine.stats()["pages_loaded"])
        held = iteration.take()  # As a consumer does, while it asks for the next.
        iteration.count()
    loaded, uses, sizes = engine.take_rehearsed()
    stats = engine.stats()
    del held
    feed.close()
    return Rehearsal(
        loaded=np.array(loaded, dtype=np.uint64).astype(np.int64),
        num_before=before,
        num_reloaded=int(stats["pages_reloaded"]),
        peak_bytes=int(stats["peak_bytes"]),
        resident_bytes=_resident(np.array(uses, np.uint64), np.array(sizes, np.int64)),
        sources=feed.sources,
    )


def _warm(steps: range) -> int:
    """Return after how many steps the counting of reads begins."""
    return 2 * len(steps) // 3


def _resident(uses: npt.NDArray[Any], sizes: Int64Array) -> int:
    """Return the most bytes of pages between their first and last use."""
    _, first, inverse = np.unique(uses, return_index=True, return_inverse=True)
    last = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(last, inverse, np.arange(len(uses)))
    change = np.zeros(len(uses) + 1, dtype=np.int64)
    np.add.at(change, first, sizes[first])
    np.add.at(change, last + 1, -sizes[first])
    return int(np.cumsum(change).max(initial=0))


def _needed(loader: Loader, cursor: Cursor, steps: range, found: Rehearsal) -> int:
    """Return the memory with which no page is read twice, and some for other sizes."""

    def is_enough(memory: int) -> bool:
        if memory >= loader.memory and not found.num_reloaded:
            return True
        try:
            return not rehearse(loader, cursor, steps, memory).num_reloaded
        except InvalidArgumentError:  # It does not hold a batch.
            return False

    too_little, memory = found.resident_bytes, int(GROWTH * found.resident_bytes)
    for _ in range(MOST_TRIES):
        if is_enough(memory):
            break
        too_little, memory = memory, max(int(GROWTH * memory), 1 << 18)
    for _ in range(HALVINGS):
        between = (too_little + memory) // 2
        if is_enough(between):
            memory = between
        else:
            too_little = between
    memory += memory // SPARE_SHARE
    return memory if found.num_reloaded else min(memory, loader.memory)


def simulate(loader: Loader, cursor: Cursor) -> dict[str, Any]:
    """Rehearse a stretch from the middle of a route, and scale it to the whole.

    The first steps of the stretch only bring pages into memory. Reads are counted in
    the others, or everywhere if the stretch is the whole route.

    Returns:
        What all ranks read together, by the names that forecasts have for it.
    """
    route, run = cursor.route, loader.view().run
    index, steps = run.index, _stretch(cursor, loader.memory)
    is_whole = len(steps) == (route.num_steps or 0)
    found = rehearse(loader, cursor, steps, loader.memory)
    first = 0 if is_whole else found.num_before
    counted = steps if is_whole else steps[_warm(steps) :]
    pieces = cursor.pieces(counted.start, len(counted))
    rows = [p.numbers[p.numbers >= 0] for p in pieces if p is not None]
    sequences = np.concatenate([np.empty(0, dtype=np.int64), *rows])
    piece = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    # A step of the route may be the share of a rank, or of all.
    scale = (route.num_sequences or 0) / max(1, len(sequences))
    is_counted = np.arange(len(found.loaded)) >= first
    pages, num_bytes = _pages_read(found, index, is_counted)
    slices = _slices(loader, sequences, piece)
    columns = _beside(loader, found, is_counted, slices, num_bytes)
    all_slices, slice_bytes = slices.sum(axis=0).tolist()
    loads = int(is_counted.sum()) * scale
    each = len(found.sources) // len(run.datasets)
    spans = [data.spans for data in run.datasets for _ in range(each)]
    both = zip(spans, found.sources, strict=True)
    # Columns of folders have values, and no pages.
    num_pages = sum(_held(own, c) for own, c in both if isinstance(c, PageIndex))
    return {
        "needed_bytes": _needed(loader, cursor, steps, found),
        "peak_bytes": found.peak_bytes,
        "loads_per_page": pages * scale / max(1, num_pages),
        "slice_reads": round(all_slices * scale),
        "reads": round(loads) + round(all_slices * scale),
        "bytes_read": round((num_bytes.sum() + slice_bytes) * scale),
        "columns": {
            name: ColumnReads(reads=round(reads * scale), bytes=round(size * scale))
            for name, (reads, size) in columns.items()
        },
    }


def _stretch(cursor: Cursor, memory: int) -> range:
    """Return the steps of a stretch in the middle of a route."""
    num_steps, batch_size = cursor.route.num_steps or 0, cursor.route.batch_size
    ahead = batch_size * steps_ahead(cursor.horizon(memory), batch_size)
    wanted = min(max(LEAST_SEQUENCES, 4 * ahead), MOST_SEQUENCES) // batch_size + 1
    # Most of the route would count pages that the rest of the route had read.
    count = num_steps if 2 * wanted >= num_steps else wanted
    first = (num_steps - count) // 2
    return range(first, first + count)


def _held(spans: Spans, column: PageIndex) -> int:
    """Return the pages of a column that hold rows of spans."""
    if type(spans) is Spans:
        return len(column)
    first, last = column.pages_of_rows(spans.row_runs - [0, 1]).T
    # A run of rows may begin in the last page of the run before.
    return int((last - first + 1).sum() - (first[1:] == last[:-1]).sum())


def _pages_read(
    found: Rehearsal, index: JoinedIndex, is_counted: npt.NDArray[np.bool_]
) -> tuple[int, npt.NDArray[np.float64]]:
    """Return the pages of counted loads, and the stored bytes of each column."""
    pages, times = np.unique(found.loaded[is_counted], return_counts=True)
    if are_bundles(pages).any():
        bundles = index.bundles(pages)
        bundle = np.repeat(np.arange(len(pages)), np.diff(bundles.slice_offsets))
        both = np.unique(np.stack([bundle, bundles.slice_page]), axis=1)
        pages, times = both[1], times[both[0]]
    sizes = [len(c) if isinstance(c, PageIndex) else 1 for c in found.sources]
    borders = np.cumsum([0, *sizes])
    source = np.searchsorted(borders, pages, side="right") - 1
    num_bytes = np.zeros(len(found.sources))
    for n, column in enumerate(found.sources):
        if isinstance(column, PageIndex) and (mine := source == n).any():
            stored = column.stored_bytes(pages[mine] - borders[n])
            num_bytes[n] = (stored * times[mine]).sum()
    return int(times.sum()), num_bytes


def _slices(
    loader: Loader, sequences: Int64Array, piece: Int64Array
) -> npt.NDArray[np.float64]:
    """Return reads of slices of pages, and their bytes: [datasets, 2]."""
    run = loader.view().run
    index, datasets = run.index, run.datasets
    slices = np.zeros((len(datasets), 2))
    if not any(isinstance(data, FlatDataset) for data in datasets):
        return slices
    segments = index.segments(sequences)
    dataset = index.dataset_of(sequences)[segments.sequence]
    is_slice = _are_slices(datasets, index, segments, dataset, piece[segments.sequence])
    for member, data in enumerate(datasets):
        chosen = is_slice & (dataset == member)
        some = Segments._make(values[chosen] for values in segments)
        some = some._replace(page=some.page - index.first_page[member])
        slices[member] = _slice_reads(
            data.index, some, run.batch_size, index.layout.per_row
        )
    return slices


def _beside(
    loader: Loader,
    found: Rehearsal,
    is_counted: npt.NDArray[np.bool_],
    slices: npt.NDArray[np.float64],
    num_bytes: npt.NDArray[np.float64],
) -> dict[str, npt.NDArray[np.float64]]:
    """Return reads and bytes of the columns that come with tokens, by name."""
    run, columns = loader.view().run, dict[str, npt.NDArray[np.float64]]()
    index, shows_metadata = run.index, "metadata" in loader.fields.names
    pages = page_numbers(found.loaded)
    dataset = np.searchsorted(index.first_page, pages, side="right") - 1
    for member, data in enumerate(run.datasets):
        beside = _columns(data, shows_metadata=shows_metadata)
        is_ours = dataset == member
        loaded, counted = found.loaded[is_ours], is_counted[is_ours]
        # Columns of other kinds are read with the tokens.
        paged = {n: c for n, c in beside.items() if isinstance(c, PageIndex)}
        local = loaded - index.first_page[member]
        own = index.parts[member]
        added = _page_reads(own, data.index, paged, local[counted])
        for name, column in beside.items():
            reads, size = added.get(name, (0.0, 0.0))
            if isinstance(column, RecordColumn) and column.shards is not None:
                # Payloads lie in the order of their tokens.
                files = [file for shard in column.shards for file in shard]
                whole = sum(data.index.storage.size(file) for file in files)
                every = data.index.stored_bytes(np.arange(len(data.index))).sum()
                size = whole * (num_bytes[member] + slices[member, 1]) / max(1, every)
                reads = 2 * (counted.sum() + slices[member, 0])
            columns[name] = columns.get(name, np.zeros(2)) + np.array([reads, size])
    return columns


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


def _page_reads(
    sequences: SequenceIndex,
    index: PageIndex,
    columns: dict[str, PageIndex],
    loaded: Int64Array,
) -> dict[str, tuple[float, float]]:
    """Return reads and bytes of the pages of columns that loads of tokens bring along.

    A page that several pages of tokens need stays in memory as long as these do.
    """
    if are_bundles(loaded).any():
        keys, which = np.unique(loaded, return_inverse=True)
        bundles = sequences.bundles(keys)
        slices = np.split(bundles.slice_page, bundles.slice_offsets[1:-1])
        loaded = np.concatenate([slices[key] for key in which])
    pages, times = np.unique(loaded, return_counts=True)
    first, end = index.first_rows(pages), index.first_rows(pages + 1)
    has_rows, found = first < end, dict[str, tuple[float, float]]()
    for name, column in columns.items():
        borders = (column.pages_of_rows(at[has_rows]) for at in (first, end - 1))
        reads = np.zeros(len(column))
        for begin, last, count in zip(*borders, times[has_rows], strict=True):
            np.maximum(reads[begin : last + 1], count, out=reads[begin : last + 1])
        stored = column.stored_bytes(np.arange(len(column)))
        found[name] = float(reads.sum()), float((reads * stored).sum())
    return found


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
    """Return the number of reads, and their bytes, of segments read without pages."""
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
