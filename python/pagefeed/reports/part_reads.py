"""What is read of flat files: parts of pages, as sequences need them.

Tokens that lie as they are delivered are read without the rest of their page, those of
a batch that lie near each other at one time. Pages are loaded where a plan needs many
parts of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset import Dataset, FlatDataset, PageIndex
from pagefeed.sequences import AnyIndex, DocumentIndex, JoinedIndex, Segments

__all__ = ["PartReads", "are_parts", "part_reads"]

MOST_PARTS = 48
"""Sequences in a page up to which each is read by itself."""

PLANNED_SEQUENCES = 1 << 15
"""Sequences that are planned at a time."""

GAP = 4096
"""Bytes between two parts up to which they are read at one time."""

TOKENS_AT_ONCE = 1 << 18
"""Tokens of a batch that are read at a time."""

SAMPLED_PARTS = 1 << 15


class PartReads(NamedTuple):
    """Reads of parts of pages, and their bytes, for each sequence."""

    reads: float
    bytes: float


def are_parts(
    datasets: Sequence[Dataset], index: AnyIndex, segments: Segments
) -> npt.NDArray[np.bool_]:
    """Return which segments are read by themselves, and not with their page.

    Args:
        datasets: Their pages are numbered through.
        index: Their sequences.
        segments: Of those of some steps, in their order.
    """
    found = np.zeros(len(segments.page), dtype=np.bool_)
    own = index.parts[0] if isinstance(index, JoinedIndex) else index
    if own.layout.packing is not None or isinstance(own, DocumentIndex):
        return found
    page = segments.page.astype(np.int64)
    first = np.cumsum([0, *(len(data.index) for data in datasets)])
    plan = segments.sequence // PLANNED_SEQUENCES
    for number, data in enumerate(datasets):
        mine = np.flatnonzero((page >= first[number]) & (page < first[number + 1]))
        if not isinstance(data, FlatDataset) or not len(mine):
            continue
        local = page[mine] - first[number]
        tokens = data.index.first_values(local + 1) - data.index.first_values(local)
        key = plan[mine] * len(data.index) + local
        _, inverse, uses = np.unique(key, return_inverse=True, return_counts=True)
        found[mine] = (tokens <= index.length * MOST_PARTS) | (uses[inverse] == 1)
    return found


def part_reads(
    index: PageIndex, segments: Segments, batch_size: int, per_row: int
) -> PartReads:
    """Return what reading segments by themselves comes to, by those of some batches.

    Args:
        index: Of their pages.
        segments: Of whole batches of one rank, in their order.
        batch_size: Sequences of a batch.
        per_row: Separators of every row.
    """
    batch = segments.sequence // batch_size
    last = batch[min(SAMPLED_PARTS, len(batch)) - 1] if len(batch) else -1
    count = int(np.searchsorted(batch, last, side="right"))
    some, batch = Segments._make(each[:count] for each in segments), batch[:count]
    num_sequences = len(np.unique(some.sequence))
    if not num_sequences:
        return PartReads(0.0, 0.0)
    page = some.page.astype(np.int64)
    begin, end = _places(index, some, per_row)
    # As they are read, some tokens of a batch at a time.
    first = np.cumsum(some.num_tokens.astype(np.int64)) - some.num_tokens
    is_new = np.diff(batch, prepend=-1) != 0
    turn = (first - np.maximum.accumulate(np.where(is_new, first, 0))) // TOKENS_AT_ONCE
    file = np.searchsorted(index.file_first_page, page, side="right")
    order = np.lexsort((begin, file, turn, batch))
    together = np.stack([batch, turn, file])[:, order]
    begin, end = begin[order], end[order]
    is_first = (np.diff(together, axis=1, prepend=-1) != 0).any(axis=0)
    is_first[1:] |= begin[1:] > end[:-1] + GAP
    ends = end[np.append(np.flatnonzero(is_first)[1:], len(end)) - 1]
    num_bytes = float((ends - begin[is_first]).sum())
    return PartReads(float(is_first.sum()) / num_sequences, num_bytes / num_sequences)


def _places(
    index: PageIndex, segments: Segments, per_row: int
) -> tuple[Int64Array, Int64Array]:
    """Bytes of their files at which segments begin and end: int64 [segments] each."""
    begin = np.zeros(len(segments.page), dtype=np.int64)
    end = np.zeros_like(begin)
    order = np.argsort(segments.page, kind="stable")
    borders = np.flatnonzero(np.diff(segments.page[order])) + 1
    for own in np.split(order, borders):
        page = int(segments.page[own[0]])
        offsets = index.row_offsets(page)
        line = offsets + per_row * np.arange(len(offsets))
        first = line[segments.row[own]] + segments.first_token[own].astype(np.int64)
        where = index.locate(page)
        scale = where.compressed_size / max(1, int(offsets[-1]))
        for place, target in ((first, begin), (first + segments.num_tokens[own], end)):
            row = np.clip(np.searchsorted(line, place, side="right") - 1, 0, None)
            row = np.minimum(row, len(offsets) - 2)
            token = np.minimum(offsets[row] + place - line[row], offsets[row + 1])
            target[own] = where.offset + (token * scale).astype(np.int64)
    return begin, end
