"""Where tokens came from: file, row group, page, row, token range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pagefeed.index import PageIndex
from pagefeed.sequences import Segments, Units

__all__ = ["Source", "sources_of_unit"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A run of tokens of one row, and its place in a sequence."""

    file: str
    """Path of the file."""
    row_group: int
    """Row group in the file."""
    page: int
    """Data page within its column chunk."""
    row: int
    """Row, counted within the file."""
    first_token: int
    """First token, counted within the row."""
    num_tokens: int
    """Number of tokens."""
    offset: int
    """Place of the first token in the sequence."""


def sources_of_unit(index: PageIndex, units: Units, unit: int) -> list[Source]:
    """Return the sources of a unit, in the order of its tokens.

    Reads the unit's pages, to learn how long their rows are.
    """
    segments = units.segments(np.array([unit]))
    return [
        source
        for number in range(len(segments.page))
        for source in _rows(index, Segments(*(part[number:] for part in segments)))
    ]


def _rows(index: PageIndex, segments: Segments) -> Iterator[Source]:
    """Split the first segment, a token range of a page, at its row borders."""
    page, count, offset = (
        int(part[0]) for part in (segments.page, segments.num_tokens, segments.offset)
    )
    where = index.locate(page)
    starts = index.row_offsets(page)
    begin = int(starts[segments.row[0]] + segments.first_token[0])
    while count:
        row = int(np.searchsorted(starts, begin, side="right")) - 1
        taken = min(count, int(starts[row + 1]) - begin)
        yield Source(
            file=where.file,
            row_group=where.row_group,
            page=where.page,
            row=where.first_row + row,
            first_token=begin - int(starts[row]),
            num_tokens=taken,
            offset=offset,
        )
        begin, offset, count = begin + taken, offset + taken, count - taken
