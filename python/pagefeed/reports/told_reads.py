"""What is read for the field ``metadata``: columns that tell of documents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset import (
    Dataset,
    FolderColumn,
    PageIndex,
    RecordColumn,
)
from pagefeed.run import EpochSource
from pagefeed.sequences import are_bundles

__all__ = ["ColumnReads", "told_reads"]

CACHE_SHARE = 8
"""Pages that several of tokens share are kept in this part of the memory."""


@dataclass(frozen=True, kw_only=True)
class ColumnReads:
    """What a column beside the tokens adds to an epoch, over all ranks."""

    bytes: int
    """Bytes read, as stored; estimated from some pages if there are many."""
    reads: int
    """Pages read: none of numbers in the records of tokens; of spans of streams reads
    of their payloads, and of where these lie."""


def told_reads(
    source: EpochSource,
    loaded: Int64Array,
    is_counted: npt.NDArray[np.bool_],
    *,
    part_reads: float,
    memory: int,
    scale: float,
) -> dict[str, ColumnReads]:
    """Return what each column of metadata adds.

    Args:
        source: Of the epoch.
        loaded: Pages of tokens, or bundles of them, in the order in which they are
            loaded by one rank in a stretch: int64 [loads].
        is_counted: Which of these count: bool [loads].
        part_reads: Reads of tokens without their pages, in the epoch.
        memory: Bytes the loader may hold.
        scale: How much larger the epoch is than what counts.
    """
    data = source.dataset
    names = (*data.metadata, *data.span_columns)
    columns: dict[str, PageIndex] = {}
    for name in names:
        column = data.source_of(name)
        if not isinstance(column, FolderColumn):
            columns[name] = column
    if not columns:
        return {}
    spans = {n: c for n, c in columns.items() if isinstance(c, RecordColumn)}
    num_reads = part_reads + float(is_counted.sum()) * scale
    found = {name: _span_reads(data, each, num_reads) for name, each in spans.items()}
    others = {name: each for name, each in columns.items() if name not in spans}
    if others:
        found |= _page_reads(source, others, loaded, is_counted, memory, scale)
    return {name: found[name] for name in names if name in found}


def _span_reads(data: Dataset, column: RecordColumn, num_reads: float) -> ColumnReads:
    """Payloads lie side by side as their tokens do: two reads for one of tokens."""
    whole = sum(8 * (count + 1) + size for _, _, count, size in column.shards or ())
    size = whole * data.spans.num_values / max(1, data.index.num_values)
    return ColumnReads(bytes=round(size), reads=round(2 * num_reads))


def _page_reads(
    source: EpochSource,
    columns: dict[str, PageIndex],
    loaded: Int64Array,
    is_counted: npt.NDArray[np.bool_],
    memory: int,
    scale: float,
) -> dict[str, ColumnReads]:
    """Reads of pages, of which those that others need too are kept for a while."""
    kept: OrderedDict[tuple[str, int], int] = OrderedDict()
    free = memory // CACHE_SHARE
    reads, num_bytes = dict.fromkeys(columns, 0), dict.fromkeys(columns, 0)
    sizes: dict[tuple[str, int], tuple[int, int]] = {}
    for pages, counts in zip(_pages(source, loaded), is_counted.tolist(), strict=True):
        rows = _rows(source.dataset.index, pages)
        for name, column in columns.items():
            for page, is_whole in _parts(column, rows):
                key = name, page
                if key in kept:
                    kept.move_to_end(key)
                    continue
                if key not in sizes:
                    sizes[key] = _sizes(column, page)
                stored, held = sizes[key]
                if counts:
                    reads[name] += 1
                    num_bytes[name] += stored
                if is_whole:  # Nobody else needs it now.
                    continue
                kept[key] = held
                free -= held
                while free < 0 and len(kept) > 1:
                    free += kept.popitem(last=False)[1]
    return {
        name: ColumnReads(
            bytes=round(num_bytes[name] * scale), reads=round(reads[name] * scale)
        )
        for name in columns
    }


def _pages(source: EpochSource, loaded: Int64Array) -> Iterator[Int64Array]:
    """Pages of the dataset that each load reads."""
    if not are_bundles(loaded).any():
        yield from loaded.astype(np.int64).reshape(-1, 1)
        return
    for key in loaded:
        bundle = source.index.bundles(np.array([key]))
        yield bundle.part_page.astype(np.int64)


def _rows(index: PageIndex, pages: Int64Array) -> list[tuple[int, int]]:
    """First row, and end, of each page."""
    first, end = index.first_rows(pages), index.first_rows(pages + 1)
    return list(zip(first.tolist(), end.tolist(), strict=True))


def _parts(
    column: PageIndex, rows: list[tuple[int, int]]
) -> Iterator[tuple[int, bool]]:
    """Pages of a column with some of these rows; and whether with no others."""
    for first, end in rows:
        if first == end:
            continue
        begin, last = column.pages_of_rows([first, end - 1]).tolist()
        borders = column.first_rows(np.arange(begin, last + 2)).tolist()
        for number, page in enumerate(range(begin, last + 1)):
            yield page, first <= borders[number] and borders[number + 1] <= end


def _sizes(column: PageIndex, page: int) -> tuple[int, int]:
    """Bytes of a page as stored, and as it is kept, about."""
    stored = column.locate(page).compressed_size
    first, end = column.first_rows([page, page + 1]).tolist()
    return stored, column.mean_row_bytes * (end - first)
