"""Consecutive row groups, mostly of one file, which are read at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array, joined_ranges
from pagefeed.core.dataset import Spans

ROWS_AT_ONCE = 1 << 20


@dataclass(kw_only=True, eq=False)
class RowGroups:
    """Consecutive row groups, and which of their rows are wanted."""

    spans: Spans
    """The wanted rows of the dataset, in these row groups and others."""
    files: range
    """Numbers of the files: one, unless files do not matter."""
    first_pages: Int64Array
    """First page of each row group: int64 [row groups]."""
    first_rows: Int64Array
    """First row of each row group, and the number of rows: [row groups + 1]."""

    def __post_init__(self) -> None:
        self.index = self.spans.index
        """The index that numbers the rows."""
        self.file = self.files.start
        """Number of the file."""
        self.path = self.index.recipe.files[self.file]
        """Path of the file."""
        self.begin = int(self.first_rows[0])
        """First row, counted over the index."""
        self.num_rows = int(self.first_rows[-1]) - self.begin
        """Rows of the row groups, wanted or not."""

    @property
    def numbers(self) -> list[int]:
        """Numbers of the row groups in the file."""
        locate = self.index.core.locate
        return [locate(page)[1] for page in self.first_pages.tolist()]

    @property
    def span_range(self) -> tuple[int, int]:
        """First span of the row groups, and one past the last."""
        first, stop = self.spans.spans_before(self.first_rows[[0, -1]]).tolist()
        return first, stop

    @property
    def num_wanted(self) -> int:
        """Rows that are wanted."""
        first, end = self.spans.first_rows(self.span_range).tolist()
        return int(end - first)

    def groups_with_rows(self) -> list[int]:
        """Return the numbers of the row groups with wanted rows."""
        num_spans = np.diff(self.spans.spans_before(self.first_rows))
        pairs = zip(self.numbers, num_spans.tolist(), strict=True)
        return [group for group, count in pairs if count]

    def groups_by_file(self) -> Iterator[tuple[int, list[int], Int64Array]]:
        """Yield the number of each file, its row groups, and their rows here."""
        located = [self.index.core.locate(page) for page in self.first_pages.tolist()]
        files = np.array([file for file, *_ in located])
        borders = np.searchsorted(files, [*self.files, self.files.stop])
        for file, (first, stop) in zip(self.files, pairwise(borders), strict=True):
            if first < stop:
                groups = [group for _, group, *_ in located[first:stop]]
                begin, end = self.first_rows[[first, stop]] - self.begin
                yield file, groups, np.arange(begin, end)

    def wanted(self) -> npt.NDArray[np.bool_]:
        """Return which rows are wanted: bool [num_rows]."""
        first, stop = self.span_range
        page, row = self.spans.places(np.arange(first, stop))
        begins = self.index.first_rows(page) + row - self.begin
        num_rows = np.diff(self.spans.first_rows(np.arange(first, stop + 1)))
        wanted = np.zeros(self.num_rows, dtype=np.bool_)
        wanted[joined_ranges(begins, begins + num_rows)] = True
        return wanted


def row_groups_of(spans: Spans, *, by_file: bool = True) -> Iterator[RowGroups]:
    """Yield the row groups that hold rows of ``spans``, some at a time, in order.

    Args:
        spans: The rows.
        by_file: Whether those of each file are yielded apart. If not, those of many
            small files come together.
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
        end = int(np.searchsorted(rows, rows[begin] + ROWS_AT_ONCE, side="left"))
        last = np.searchsorted(files, files[begin], side="right") if by_file else end
        end = min(end, int(last), len(pages))
        first, stop = spans.spans_before(rows[[begin, end]]).tolist()
        if first < stop and rows[begin] < rows[end]:
            yield RowGroups(
                spans=spans,
                files=range(int(files[begin]), int(files[end - 1]) + 1),
                first_pages=pages[begin:end],
                first_rows=rows[begin : end + 1],
            )
        begin = end
