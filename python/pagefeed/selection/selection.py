"""Selections: one part of a division, as spans."""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed.caches import ArrayFolder, ArrayWriter, are_sums, derived_arrays
from pagefeed.core._base import (
    Int64Array,
    UInt32Array,
    Work,
    is_made,
    joined_ranges,
    lazy,
    logger,
    narrow_difference,
)
from pagefeed.core.dataset import BlockKind, SpanParts, Spans, SpanSlices, cut_at
from pagefeed.errors import EmptySelectionError
from pagefeed.selection.criteria import Scan
from pagefeed.selection.divided_rows import DividedRows
from pagefeed.selection.scanning import summary_of


class RowRuns(Spans, ABC):
    """Some rows of an index, as runs whose rows and values are summed up."""

    @property
    @abstractmethod
    def _row(self) -> Int64Array:
        """First row of each span, as numbered in the index: int64 [spans]."""

    @property
    @abstractmethod
    def _rows_before(self) -> Int64Array:
        """Number of rows before each span, and in all: int64 [spans + 1]."""

    @property
    @abstractmethod
    def values_before(self) -> Int64Array:
        """Number of values before each span, and in all: int64 [spans + 1]."""

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self._row)

    @property
    def num_rows(self) -> int:
        """Rows of all spans."""
        return int(self._rows_before[-1])

    @property
    def num_values(self) -> int:
        """Values of these rows; for a column of tokens, their tokens."""
        return int(self.values_before[-1])

    def first_rows(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the number of rows before each span; ``len(self)`` gives all."""
        return self._rows_before[np.asarray(spans, dtype=np.int64)]

    def first_values(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the number of values before each span; ``len(self)`` gives all."""
        return self.values_before[np.asarray(spans, dtype=np.int64)]

    def spans_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the span of each of ``rows``."""
        return np.searchsorted(self._rows_before, rows, side="right") - 1

    def rows_of_index(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the numbers in the index of ``rows``, numbered in the spans."""
        numbers = np.asarray(rows, dtype=np.int64)
        span = np.minimum(self.spans_of_rows(numbers), len(self) - 1)
        return self._row[span] + numbers - self.first_rows(span)

    def values_of_rows(self, rows: Int64Array) -> Int64Array:
        """Return the number of values before each of ``rows``; reads their pages."""
        span = np.minimum(self.spans_of_rows(rows), len(self) - 1)
        borders = np.stack([self._row[span], self.rows_of_index(rows)])
        first, here = self.index.values_of_rows(borders)
        return self.first_values(span) + here - first

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> SpanParts:
        """Cut ranges of tokens, none of them empty, at the ends of spans."""
        return cut_at(self.values_before, self._rows_before, per_row, starts, stops)

    def slices(self, first: Int64Array, end: Int64Array) -> SpanSlices:
        """List the spans of ranges, from ``first`` up to ``end``."""
        offsets = np.zeros(len(first) + 1, dtype=np.uint32)
        np.cumsum(end - first, out=offsets[1:])
        span, rows = joined_ranges(first, end), self._rows_before
        num_rows = narrow_difference(rows[span + 1], rows[span])
        return SpanSlices(offsets, *self.places(span), num_rows)

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, UInt32Array]:
        """Return where each run starts: its page of the index, and its row there."""
        rows = self._row[np.asarray(spans, dtype=np.int64)]
        pages = self.index.pages_of_rows(rows)
        return pages, narrow_difference(rows, self.index.first_rows(pages))


PAGES_AT_ONCE = 256


class Selection(RowRuns):
    """One part of the rows of a dataset, or of another selection, as spans.

    Args:
        division: Divides the rows.
        number: Number of the part.
    """

    def __init__(self, division: DividedRows, part_index: int) -> None:
        super().__init__(lambda: division.spans.index)
        self._division = division
        self._part_index = part_index
        divided, criterion = division.spans, division.criterion
        self.before = divided if isinstance(divided, Selection) else None
        """The selection that is divided; None if all rows of the index are."""
        self.name = criterion.parts[part_index]
        """Name of the part."""
        self.names: tuple[str, ...] = (self.name,)
        """Names of this selection and of those before it, the first one first."""
        self.counts_rows = criterion.counts_rows
        """Whether other rows are selected where files are left out."""
        if self.before is not None:
            self.names = (*self.before.names, self.name)
            self.counts_rows = self.counts_rows or self.before.counts_rows
        before, key = divided.origin, criterion.key
        self.origin = f"{len(before)} {before}{len(key)} {key}{part_index}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the division and the number of the part."""
        return Selection, (self._division, self._part_index), {"erased": self.erased}

    def over(self, spans: Spans) -> Selection:
        """Return the same selection over another index of the same files."""
        division = self._division
        rows = division.spans.over(spans)
        return Selection(DividedRows(rows, division.criterion), self._part_index)

    @property
    def files_with_rows(self) -> list[int]:
        """Numbers of the files of which rows are selected."""
        selected: list[int] = np.flatnonzero(np.diff(self.file_first_span)).tolist()
        return selected

    @property
    def known_rows(self) -> int | None:
        """Number of rows; None until columns were read for it."""
        return self.num_rows if is_made(self._division, "stored") else None

    @property
    def known_tokens(self) -> int | None:
        """Number of tokens; None until pages were read for it."""
        return self.num_values if is_made(self, "values_before") else None

    def check_not_empty(self) -> None:
        """Raise if no row is selected.

        Raises:
            EmptySelectionError: Saying what the columns hold.
        """
        if self.num_rows:
            return
        before = self.before
        if before is not None:
            before.check_not_empty()
        rows, criterion = self._division.spans, self._division.criterion
        summary = ""
        if isinstance(criterion, Scan):
            summary = summary_of(rows, criterion.query.columns)
        named = "" if before is None else f" with {' and '.join(before.names)}"
        raise EmptySelectionError(
            f"no row is selected: none of {rows.num_rows:,} rows{named} is in "
            f"{self.name!r}{'; ' if summary else ''}{summary}"
        )

    @lazy
    def fingerprint(self) -> str:
        """Identifies the files and the rows, however these were selected."""
        rows = self._division.stored.about["digests"][self._part_index]
        text = f"{self.index.fingerprint} {rows}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def num_pages(self) -> int:
        """Pages that hold these rows."""
        return len(self._page_span) - 1

    @lazy
    def page_values(self) -> int:
        """Values of all rows of the pages of the spans, which must be decoded."""
        total, first = 0, self._page_span[:-1]
        for begin in range(0, len(first), 1 << 16):
            pages, _ = self.places(first[begin : begin + (1 << 16)])
            low, high = self.index.first_values(np.stack([pages, pages + 1]))
            total += int((high - low).sum())
        return total

    @lazy
    def file_first_span(self) -> Int64Array:
        """First span of each file, and the number of spans: int64 [files + 1]."""
        return np.searchsorted(self._row, self.index.file_first_row, side="left")

    @property
    def row_runs(self) -> Int64Array:
        """First row of each run, and the row after its last: int64 [runs, 2]."""
        return np.stack([self._row, self._row + np.diff(self._rows_before)], axis=1)

    def ranks(self, rows: Int64Array) -> Int64Array:
        """Return how many rows of the spans come before each row of the index."""
        if len(self) == 0:
            return np.zeros_like(rows)
        span = np.maximum(np.searchsorted(self._row, rows, side="right") - 1, 0)
        first, end = self.first_rows(span), self.first_rows(span + 1)
        return np.clip(first + rows - self._row[span], first, end)

    def spans_at(self, pages: npt.ArrayLike, rows: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each row of a page; -1 if none does."""
        row = self.index.first_rows(pages) + np.asarray(rows, dtype=np.int64)
        spans = np.searchsorted(self._row, row, side="right") - 1
        if len(self) == 0:
            return np.full_like(spans, -1)
        length = self.first_rows(spans + 1) - self.first_rows(spans)
        inside = (spans >= 0) & (row < self._row[spans] + length)
        return np.where(inside, spans, -1)

    def spans_before(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of spans before each of ``rows`` of the index."""
        return np.searchsorted(self._row, rows, side="left")

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first span of each run that a shuffle moves as one."""
        runs = self.index.runs(kind)
        if runs is None:
            return None if self.num_pages == len(self) else self._page_span[:-1]
        first = self._page_span[:-1]
        run = np.searchsorted(runs, self.places(first)[0], side="right")
        return first[np.diff(run, prepend=0) != 0]

    @lazy
    def _row(self) -> Int64Array:
        """First row of each span, as numbered in the index: int64 [spans]."""
        return self._division.stored[f"{self._part_index}.row"]

    @lazy
    def _rows_before(self) -> Int64Array:
        """Number of rows before each span, and in all: int64 [spans + 1]."""
        return self._division.stored[f"{self._part_index}.rows_before"]

    @lazy
    def _page_span(self) -> Int64Array:
        """First span of each page that has some, and their number: [pages + 1]."""
        return self._division.stored[f"{self._part_index}.page_span"]

    @lazy
    def values_before(self) -> Int64Array:
        """Number of values before each span, and in all spans: int64 [spans + 1].

        The index has the counts of whole pages. Pages that are selected in part are
        read, once.
        """
        stored = self._division.stored
        if stored.about["has_values"]:
            return stored[f"{self._part_index}.values_before"]
        key = f"{self._division.key}-{self._part_index}"
        write, is_sound = self._write_values, self._is_sound
        stored = derived_arrays(self.index, "tokens", key, write, is_sound)
        return stored["values_before"]

    def _is_sound(self, stored: ArrayFolder) -> bool:
        are_many = stored.sizes == {"values_before": len(self) + 1}
        return are_many and are_sums(stored["values_before"], self.index.num_values)

    def _write_values(self, writer: ArrayWriter) -> None:
        logger.info("tokens of %d selected rows are counted, once", self.num_rows)
        work = Work("tokens of selected rows", total=len(self), unit="runs")
        writer.append_sums("values_before", [])
        for counts in work.map(self._count_values, self._parts(), len):
            writer.append_sums("values_before", counts)

    def _parts(self) -> Iterator[range]:
        """Yield the spans of some pages at a time."""
        borders = np.append(self._page_span[:-1:PAGES_AT_ONCE], len(self))
        for first, stop in itertools.pairwise(borders.tolist()):
            yield range(first, stop)

    def _count_values(self, spans: range) -> Int64Array:
        """Return the number of values of each span; reads pages selected in part."""
        row = self._row[spans.start : spans.stop]
        num_rows = np.diff(self._rows_before[spans.start : spans.stop + 1])
        first, end = self.index.values_of_rows(np.stack([row, row + num_rows]))
        return end - first
