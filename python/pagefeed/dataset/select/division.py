"""Selections: parts of the rows of a dataset, as spans."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed._base import (
    ArrayFolder,
    ArrayWriter,
    Int64Array,
    Work,
    in_order,
    lazy,
    stored_arrays,
)
from pagefeed.dataset.page_index import BlockKind, PageIndex
from pagefeed.dataset.select.criteria import NO_PART, Criterion
from pagefeed.dataset.select.pieces import Piece, pieces_of
from pagefeed.dataset.select.scanning import list_size
from pagefeed.dataset.spans import Spans
from pagefeed.errors import StaleFileError

__all__ = ["Division", "SelectedSpans"]

VERSION = 2
PAGES_AT_ONCE = 256
_logger = logging.getLogger("pagefeed")


class _Runs(NamedTuple):
    """Runs of consecutive rows of one part, each inside one page."""

    part: int
    row: Int64Array
    num_rows: Int64Array
    new_page: npt.NDArray[np.bool_]
    """Whether the page is another than that of the run before."""
    num_values: Int64Array | None


class Division:
    """The rows of some spans, divided into parts by one pass over the criterion.

    With a cache folder of the index the result lies there, and all processes of the
    machine map it; without, every process makes its own.

    Args:
        spans: The rows.
        origin: What tells ``spans`` from all others of the index.
        criterion: What divides them.
        expected: Digests of the rows of each part, if they were seen before.
    """

    def __init__(
        self,
        spans: Spans,
        origin: str,
        criterion: Criterion,
        expected: list[str] | None = None,
    ) -> None:
        self.spans = spans
        self.criterion = criterion
        self._origin = origin
        self._expected = expected

    def __reduce__(self) -> tuple[type[Division], tuple[Any, ...]]:
        """Pickle as the recipe: the other process maps or makes its own parts."""
        made = self.__dict__.get("stored")
        expected = self._expected if made is None else made.about["digests"]
        return Division, (self.spans, self._origin, self.criterion, expected)

    @lazy
    def key(self) -> str:
        """What tells this division from all others: of which contents, and how.

        Sizes and times of the files are part of it, since a file may be rewritten with
        other values under an equal footer; and what their folders are named.
        """
        digest = hashlib.blake2b(digest_size=16)
        index = self.spans.index
        for part in (str(VERSION), index.fingerprint, self._origin, self.criterion.key):
            digest.update(f"{len(part)} {part}".encode())
        for file in index.files:
            state = os.stat(file)
            digest.update(f"{state.st_size} {state.st_mtime_ns}".encode())
        for name, column in index.folder_columns.items():
            digest.update(f"{len(name)} {name} {column.values}".encode())
            digest.update(column.number_of_file.tobytes())
        return digest.hexdigest()

    @lazy
    def stored(self) -> ArrayFolder:
        """The parts, mapped; made if nobody has."""
        self.spans.index.core.check_files()
        stored = stored_arrays(
            self.spans.index.cache_dir, f"select-{self.key}", self.key, self._write
        )
        if self._expected not in (None, stored.about["digests"]):
            raise StaleFileError(
                f"the files changed while {self.criterion.parts} travelled to another "
                "process: other rows are selected now"
            )
        return stored

    @lazy
    def parts(self) -> tuple[SelectedSpans, ...]:
        """The rows of each part."""
        numbers = range(len(self.criterion.parts))
        return tuple(SelectedSpans(self, number) for number in numbers)

    def _write(self, writer: ArrayWriter) -> None:
        """Make the parts, piece after piece, and write them down."""
        num_parts = len(self.criterion.parts)
        digests = [hashlib.blake2b(digest_size=16) for _ in range(num_parts)]
        rows, values = [0] * num_parts, [0] * num_parts
        has_values = True
        for number in range(num_parts):
            for name in ("row", "rows_before", "page_span", "values_before"):
                writer.append(f"{number}.{name}", [])
        spans_before = [0] * num_parts
        for runs in self._all_runs():
            for number, row, num_rows, new_page, num_values in runs:
                digests[number].update(np.stack([row, num_rows], axis=1).tobytes())
                writer.append(f"{number}.row", row)
                ends = rows[number] + np.cumsum(num_rows)
                writer.append(f"{number}.rows_before", ends - num_rows)
                first = np.flatnonzero(new_page) + spans_before[number]
                writer.append(f"{number}.page_span", first)
                rows[number] += int(num_rows.sum())
                spans_before[number] += len(row)
                has_values = has_values and num_values is not None
                if num_values is not None:
                    ends = values[number] + np.cumsum(num_values)
                    writer.append(f"{number}.values_before", ends - num_values)
                    values[number] += int(num_values.sum())
        for number in range(num_parts):
            writer.append(f"{number}.rows_before", [rows[number]])
            writer.append(f"{number}.page_span", [spans_before[number]])
            writer.append(f"{number}.values_before", [values[number]])
        # What was read may not be what was indexed.
        self.spans.index.core.check_files()
        writer.about |= {
            "digests": [digest.hexdigest() for digest in digests],
            "has_values": has_values,
        }

    def _all_runs(self) -> Iterator[list[_Runs]]:
        """The runs of piece after piece, made by a thread per CPU."""
        what, total = self.criterion.what, self.spans.num_rows
        _logger.info("%s: %d rows are looked at, once", what, total)
        with Work(what, total=total, unit="rows") as work:
            yield from in_order(
                self._runs_of,
                pieces_of(self.spans),
                taken=lambda piece: work.advance(piece.num_wanted),
            )

    def _runs_of(self, piece: Piece) -> list[_Runs]:
        """The runs of rows of each part with rows in a piece, broken by its pages."""
        index = piece.index
        part, num_values = self.criterion.labels(piece)
        part[~piece.wanted()] = NO_PART
        pages = index.pages_of_rows([piece.begin, piece.begin + piece.num_rows - 1])
        borders = index.first_rows(np.arange(pages[0] + 1, pages[1] + 1)) - piece.begin
        begins = np.ones(piece.num_rows, dtype=bool)
        np.not_equal(part[1:], part[:-1], out=begins[1:])
        begins[borders] = True
        first = np.flatnonzero(begins)
        length = np.diff(np.append(first, piece.num_rows))
        # Runs of each part together, in the order of their rows.
        order = np.argsort(part[first], kind="stable")
        order = order[part[first[order]] != NO_PART]
        first, length = first[order], length[order]
        kept, page = part[first], np.searchsorted(borders, first, side="right")
        before = None
        if num_values is not None:
            before = np.append(0, np.cumsum(num_values))
        found = []
        cuts = np.append(np.flatnonzero(np.diff(kept, prepend=NO_PART)), len(kept))
        for begin, end in itertools.pairwise(cuts.tolist()):
            row, num_rows = first[begin:end], length[begin:end]
            new_page = np.diff(page[begin:end], prepend=-1) != 0
            values = None if before is None else before[row + num_rows] - before[row]
            first_row = row + piece.begin
            runs = _Runs(int(kept[begin]), first_row, num_rows, new_page, values)
            found.append(runs)
        return found


class SelectedSpans:
    """The rows of one part of a division: runs of rows, each inside one page.

    Args:
        division: The division.
        number: Number of the part.
    """

    def __init__(self, division: Division, number: int) -> None:
        self.index: PageIndex = division.spans.index
        self._division = division
        self._number = number

    def __reduce__(self) -> tuple[type[SelectedSpans], tuple[Division, int]]:
        """Pickle as the recipe, see :class:`Division`."""
        return SelectedSpans, (self._division, self._number)

    @lazy
    def fingerprint(self) -> str:
        """What identifies the contents: those of the files, and which rows these are.

        Not how they were selected.
        """
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

    def spans_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each of ``values``."""
        return np.searchsorted(self.values_before, values, side="right") - 1

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """Return the page of the index, and the row in that page, of their starts."""
        rows = self._row[np.asarray(spans, dtype=np.int64)]
        pages = self.index.pages_of_rows(rows)
        return pages, rows - self.index.first_rows(pages)

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
        begins: Int64Array = first[np.diff(run, prepend=0) != 0]
        return begins

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

        Where a page is selected as a whole the index knows them; rows of other pages
        have to be read, once.
        """
        stored = self._division.stored
        if stored.about["has_values"]:
            return stored[f"{self._number}.values_before"]
        key = f"{self._division.key}-{self._number}"
        cache_dir = self.index.cache_dir
        return stored_arrays(cache_dir, f"tokens-{key}", key, self._write_values)[
            "values_before"
        ]

    def _write_values(self, writer: ArrayWriter) -> None:
        total, held = 0, self._held_pages(PAGES_AT_ONCE)
        _logger.info("tokens of %d selected rows are counted, once", self.num_rows)
        with Work("tokens of selected rows", total=len(self), unit="runs") as work:
            for num_values in in_order(self._count_values, held):
                ends = total + np.cumsum(num_values)
                writer.append("values_before", ends - num_values)
                total += int(num_values.sum())
                work.advance(len(num_values))
        writer.append("values_before", [total])

    def _held_pages(self, count: int) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Pages that hold spans, ``count`` at a time, and their first spans and end."""
        for begin in range(0, self.num_pages, count):
            first = self._page_span[begin : begin + count + 1]
            yield self.places(first[:-1])[0], first

    def _count_values(self, held: tuple[Int64Array, Int64Array]) -> Int64Array:
        """Values of each span of some pages; reads those that are selected in part."""
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
        # Rows of equal length, if that is what the values of the page come to.
        length = self._promised_length(pages)
        length[length * page_rows != page_values] = 0
        num_values: Int64Array = num_rows * np.repeat(length, np.diff(first))
        whole = num_rows[first[:-1]] == page_rows
        num_values[first[:-1][whole]] = page_values[whole]
        known = whole | (length > 0) | (page_values == 0)
        for number in np.flatnonzero(~known).tolist():
            here = slice(first[number], first[number + 1])
            begin = row[here] - page_row[0, number]
            offsets = index.row_offsets(int(pages[number]))
            num_values[here] = offsets[begin + num_rows[here]] - offsets[begin]
        return num_values

    def _promised_length(self, pages: Int64Array) -> Int64Array:
        """Tokens of every row, where the type of the column says so; else 0."""
        index = self.index
        file = np.searchsorted(index.file_first_page, pages, side="right") - 1
        files, which = np.unique(file, return_inverse=True)
        paths = index.files
        lengths = [
            list_size(paths[number], index.column, index.fingerprint)
            for number in files.tolist()
        ]
        return np.array(lengths, dtype=np.int64)[which]
