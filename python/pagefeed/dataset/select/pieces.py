"""Pieces: consecutive row groups, mostly of one file, which are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset.page_index import PageIndex
from pagefeed.dataset.spans import Spans

__all__ = ["Piece", "pieces_of"]

PIECE_ROWS = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Consecutive row groups, and which of their rows are wanted."""

    spans: Spans
    """The wanted rows, of this piece and others."""
    files: range
    """Numbers of the files: one, unless files do not matter."""
    first_pages: Int64Array
    """First page of each row group: int64 [row groups]."""
    first_rows: Int64Array
    """First row of each, numbered through the index, and the end: [row groups + 1]."""

    @property
    def index(self) -> PageIndex:
        """The index that numbers the rows."""
        return self.spans.index

    @property
    def file(self) -> int:
        """Number of the file."""
        return self.files.start

    @property
    def path(self) -> str:
        """Path of the file."""
        return self.index.recipe.files[self.file]

    @property
    def row_groups(self) -> list[int]:
        """Numbers of the row groups in the file."""
        locate = self.index.core.locate
        return [locate(page)[1] for page in self.first_pages.tolist()]

    @property
    def begin(self) -> int:
        """First row, numbered through the index."""
        return int(self.first_rows[0])

    @property
    def num_rows(self) -> int:
        """Rows of the row groups, wanted or not."""
        return int(self.first_rows[-1]) - self.begin

    @property
    def num_wanted(self) -> int:
        """Rows that are wanted."""
        spans = self.spans.spans_before(self.first_rows[[0, -1]])
        first, end = self.spans.first_rows(spans).tolist()
        return int(end - first)

    def held_groups(self) -> list[int]:
        """Return the numbers of the row groups with wanted rows."""
        num_spans = np.diff(self.spans.spans_before(self.first_rows))
        pairs = zip(self.row_groups, num_spans.tolist(), strict=True)
        return [group for group, count in pairs if count]

    def span_rows(self) -> tuple[Int64Array, Int64Array]:
        """Return the first row of each span in the piece, and the number of rows.

        Rows are counted from the begin of the piece; int64 [spans] each.
        """
        spans = np.arange(*self.spans.spans_before(self.first_rows[[0, -1]]))
        page, row = self.spans.places(spans)
        rows = self.spans.first_rows(np.append(spans, spans[-1:] + 1))
        first = self.index.first_rows(page) + row - self.begin
        return first, np.diff(rows)

    def wanted(self) -> npt.NDArray[np.bool_]:
        """Return which rows are wanted: bool [num_rows]."""
        first, num_rows = self.span_rows()
        first, num_rows = first[num_rows > 0], num_rows[num_rows > 0]
        change = np.zeros(self.num_rows + 1, dtype=np.int8)
        # Two spans never begin at one row; one may begin where another ends.
        change[first] += 1
        change[first + num_rows] -= 1
        return np.cumsum(change[:-1], dtype=np.int8).astype(bool)


def pieces_of(spans: Spans, *, by_file: bool = True) -> Iterator[Piece]:
    """Yield the pieces that hold rows of ``spans``, in order.

    Args:
        spans: The rows.
        by_file: Each of one file. If not, many small files are one piece.
    """
    index = spans.index
    if index.num_rows == 0:
        return
    pages = index.runs("row_group")
    pages = np.arange(len(index)) if pages is None else pages
    rows = np.append(index.first_rows(pages), index.num_rows)
    files = np.searchsorted(index.file_first_page, pages, side="right") - 1
    begin = 0
    while begin < len(pages):
        end = int(np.searchsorted(rows, rows[begin] + PIECE_ROWS, side="left"))
        last = np.searchsorted(files, files[begin], side="right") if by_file else end
        end = min(end, int(last), len(pages))
        first, stop = spans.spans_before(rows[[begin, end]]).tolist()
        if first < stop and rows[begin] < rows[end]:
            yield Piece(
                spans=spans,
                files=range(int(files[begin]), int(files[end - 1]) + 1),
                first_pages=pages[begin:end],
                first_rows=rows[begin : end + 1],
            )
        begin = end
