"""Where tokens came from: file, row group, page, row, token range."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pagefeed.errors import InvalidArgumentError
from pagefeed.index import PageIndex
from pagefeed.sequences import Segments, Units
from pagefeed.spans import Spans

__all__ = ["Source", "sources_of_unit", "tokens_of_row"]


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


def tokens_of_row(spans: Spans, file: str, row: int) -> tuple[int, int]:
    """Return the first token of a row of a file and one past its last.

    Tokens are numbered through the spans; a row that is in none has no tokens. Reads
    the row's page.

    Raises:
        InvalidArgumentError: If there is no such file or row.
    """
    path, index = os.path.abspath(file), spans.index
    if path not in index.files:
        raise InvalidArgumentError(
            f"{file!r} is not a file of the dataset: it has {len(index.files)} files, "
            f"such as {index.files[0]!r}"
        )
    number = index.files.index(path)
    first, end = index.file_first_row[number : number + 2].tolist()
    if not 0 <= row < end - first:
        raise InvalidArgumentError(
            f"row {row} is out of range: {file} has {end - first} rows"
        )
    page = index.pages_of_rows([first + row])
    place = first + row - index.first_rows(page)
    span = spans.spans_at(page, place)
    if span[0] < 0:
        return 0, 0
    begin = int(spans.places(span)[1][0])
    offsets = index.row_offsets(int(page[0]))
    offsets += spans.first_values(span) - offsets[begin]
    return int(offsets[place[0]]), int(offsets[place[0] + 1])


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
