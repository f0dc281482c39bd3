"""Selections: one part of a division, as spans."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pagefeed._base import (
    ArrayWriter,
    Int64Array,
    UInt32Array,
    Work,
    is_made,
    lazy,
    logger,
    narrow_difference,
)
from pagefeed.dataset.derived import derived_arrays
from pagefeed.dataset.index_recipe import IndexRecipe
from pagefeed.dataset.page_index import BlockKind
from pagefeed.dataset.select.criteria import Scan
from pagefeed.dataset.select.division import Division
from pagefeed.dataset.select.known import Known
from pagefeed.dataset.select.scanning import list_size, summary_of
from pagefeed.dataset.spans import SpanParts, Spans, cut_at
from pagefeed.errors import EmptySelectionError

__all__ = ["Selection"]

PAGES_AT_ONCE = 256


class Selection(Spans):
    """One part of the rows of a dataset, or of another selection, as spans.

    Args:
        division: Divides the rows.
        number: Number of the part.
    """

    def __init__(self, division: Division, number: int) -> None:
        super().__init__(lambda: division.spans.index)
        self._division = division
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the division and the number of the part."""
        return Selection, (self._division, self._number), {"erased": self.erased}

    @property
    def name(self) -> str:
        """Name of the part."""
        return self._division.criterion.parts[self._number]

    @property
    def before(self) -> Selection | None:
        """The selection that is divided; None if all rows of the index are."""
        divided = self._division.spans
        return divided if isinstance(divided, Selection) else None

    @lazy
    def names(self) -> tuple[str, ...]:
        """Names of this part and of the selections before it, the first one first."""
        before = self.before
        return (*(() if before is None else before.names), self.name)

    @property
    def origin(self) -> str:
        """Differs between any two selections of the same index."""
        before, key = self._division.spans.origin, self._division.criterion.key
        return f"{len(before)} {before}{len(key)} {key}{self._number}"

    def over(self, spans: Spans) -> Selection:
        """Return the same selection of another index of the same files."""
        before = self.before
        rows = spans if before is None else before.over(spans)
        division = self._division
        criterion = division.criterion
        if is_made(division, "stored") and not criterion.counts_rows:
            criterion = Known(division)
        return Selection(Division(rows, criterion), self._number)

    @property
    def counts_rows(self) -> bool:
        """Whether other rows are selected where files are left out."""
        before = self.before
        if before is not None and before.counts_rows:
            return True
        return self._division.criterion.counts_rows

    @property
    def held_files(self) -> list[int]:
        """Numbers of the files of which rows are selected."""
        held: list[int] = np.flatnonzero(np.diff(self.file_first_span)).tolist()
        return held

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
        criterion = criterion.plain if isinstance(criterion, Known) else criterion
        found = ""
        if isinstance(criterion, Scan):
            found = summary_of(rows, criterion.query.columns)
        held = "" if before is None else f" with {' and '.join(before.names)}"
        raise EmptySelectionError(
            f"no row is selected: none of {rows.num_rows:,} rows{held} is in "
            f"{self.name!r}{'; ' if found else ''}{found}"
        )

    @lazy
    def fingerprint(self) -> str:
        """Identifies the files and the rows, however these were selected."""
        rows = self._division.stored.about["digests"][self._number]
        text = f"{self.index.fingerprint} {rows}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self._row)

    @property
    def num_rows(self) -> int:
        """Rows of all spans."""
        return int(self._rows_before[-1])

    @property
    def num_values(self) -> int:
        """Values of these rows: tokens of a token column."""
        return int(self.values_before[-1])

    @property
    def num_pages(self) -> int:
        """Pages that hold these rows."""
        return len(self._page_span) - 1

    @lazy
    def page_values(self) -> int:
        """Values of all rows of these pages."""
        total = 0
        for pages, _ in self._held_pages(1 << 16):
            ends = self.index.first_values(np.stack([pages, pages + 1]))
            total += int((ends[1] - ends[0]).sum())
        return total

    @lazy
    def file_first_span(self) -> Int64Array:
        """First span of each file, and the number of spans: int64 [files + 1]."""
        return np.searchsorted(self._row, self.index.file_first_row, side="left")

    @property
    def file_first_row(self) -> Int64Array:
        """Rows of the spans before each file, and of all: int64 [files + 1]."""
        return self._rows_before[self.file_first_span]

    @lazy
    def file_first_value(self) -> Int64Array:
        """Values of the spans before each file, and of all: int64 [files + 1]."""
        return self.values_before[self.file_first_span]

    def first_rows(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``spans``; ``len(self)`` gives them all."""
        return self._rows_before[np.asarray(spans, dtype=np.int64)]

    def first_values(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the values before each of ``spans``, likewise."""
        return self.values_before[np.asarray(spans, dtype=np.int64)]

    def spans_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the span of each of ``rows``."""
        return np.searchsorted(self._rows_before, rows, side="right") - 1

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> SpanParts:
        """Cut ranges of tokens, none of them empty, at the ends of spans."""
        return cut_at(self.values_before, self._rows_before, per_row, starts, stops)

    @property
    def row_runs(self) -> Int64Array:
        """First row of the index of each run, and the one behind: int64 [runs, 2]."""
        return np.stack([self._row, self._row + np.diff(self._rows_before)], axis=1)

    def ranks(self, rows: Int64Array) -> Int64Array:
        """Return the rows of the spans before each of ``rows`` of the index."""
        if len(self) == 0:
            return np.zeros_like(rows)
        span = np.maximum(np.searchsorted(self._row, rows, side="right") - 1, 0)
        first, end = self.first_rows(span), self.first_rows(span + 1)
        return np.clip(first + rows - self._row[span], first, end)

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, UInt32Array]:
        """Return the page of the index, and the row in that page, of their starts."""
        rows = self._row[np.asarray(spans, dtype=np.int64)]
        pages = self.index.pages_of_rows(rows)
        return pages, narrow_difference(rows, self.index.first_rows(pages))

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
        """First row of each span, numbered through the index: int64 [spans]."""
        return self._division.stored[f"{self._number}.row"]

    @lazy
    def _rows_before(self) -> Int64Array:
        """Rows of the spans before each, and of all: int64 [spans + 1]."""
        return self._division.stored[f"{self._number}.rows_before"]

    @lazy
    def _page_span(self) -> Int64Array:
        """First span of each page that has some, and their number: [pages + 1]."""
        return self._division.stored[f"{self._number}.page_span"]

    @lazy
    def values_before(self) -> Int64Array:
        """Values of the spans before each, and of all: int64 [spans + 1].

        The index has the counts of whole pages. Pages that are selected in part are
        read, once.
        """
        stored = self._division.stored
        if stored.about["has_values"]:
            return stored[f"{self._number}.values_before"]
        key = f"{self._division.key}-{self._number}"
        stored = derived_arrays(self.index, "tokens", key, self._write_values)
        return stored["values_before"]

    def _write_values(self, writer: ArrayWriter) -> None:
        logger.info("tokens of %d selected rows are counted, once", self.num_rows)
        work = Work("tokens of selected rows", total=len(self), unit="runs")
        held = self._held_pages(PAGES_AT_ONCE)
        counts = work.each(
            self._count_values, held, lambda some: int(some[1][-1] - some[1][0])
        )
        writer.append_sums("values_before", counts)

    def _held_pages(self, count: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Yield pages with spans, ``count`` at a time, first spans and end."""
        for begin in range(0, self.num_pages, count):
            first = self._page_span[begin : begin + count + 1]
            yield self.places(first[:-1])[0], first

    def _count_values(self, held: tuple[Int64Array, Int64Array]) -> Int64Array:
        """Return the values of each span of pages; reads pages selected in part."""
        pages, first = held
        index = self.index
        spans = np.arange(first[0], first[-1])
        row = self._row[spans]
        num_rows = np.diff(self.first_rows(np.append(spans, first[-1])))
        first = first - first[0]
        page_row = index.first_rows(np.stack([pages, pages + 1]))
        page_value = index.first_values(np.stack([pages, pages + 1]))
        page_rows, page_values = (
            np.diff(page_row, axis=0)[0],
            np.diff(page_value, axis=0)[0],
        )
        whole = num_rows[first[:-1]] == page_rows
        # Rows have equal lengths if these add up to the values of the page.
        length = np.zeros(len(pages), dtype=np.int64)
        length[~whole] = self._promised_length(pages[~whole])
        length[length * page_rows != page_values] = 0
        num_values: Int64Array = num_rows * np.repeat(length, np.diff(first))
        num_values[first[:-1][whole]] = page_values[whole]
        known = whole | (length > 0) | (page_values == 0)
        for number in np.flatnonzero(~known).tolist():
            here = slice(first[number], first[number + 1])
            begin = row[here] - page_row[0, number]
            offsets = index.row_offsets(int(pages[number]))
            num_values[here] = offsets[begin + num_rows[here]] - offsets[begin]
        return num_values

    def _promised_length(self, pages: Int64Array) -> Int64Array:
        """Return the tokens of every row by the type of the column, or 0."""
        index = self.index
        if not isinstance(index.recipe, IndexRecipe):  # Only Parquet has such types.
            return np.zeros(len(pages), dtype=np.int64)
        file = np.searchsorted(index.file_first_page, pages, side="right") - 1
        files, which = np.unique(file, return_inverse=True)
        paths = index.files
        storage, column, fingerprint = index.storage, index.column, index.fingerprint
        lengths = [
            list_size(storage, paths[number], column, fingerprint)
            for number in files.tolist()
        ]
        return np.array(lengths, dtype=np.int64)[which]
