"""Spans: the rows of a dataset as runs of consecutive rows, each inside one page."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset.token_index import BlockKind, TokenIndex
from pagefeed.errors import UnsupportedError

__all__ = ["PageSpans", "Spans", "refuse_null_tokens", "refuse_nulls"]


class Spans(Protocol):
    """Runs of consecutive rows, in file order; each lies in one page.

    Rows and values are numbered through the spans alone: rows that no span holds do
    not count. Sequences are cut from spans, so that a part of a dataset is cut and
    shuffled just as a whole one.
    """

    @property
    def index(self) -> TokenIndex:
        """The index whose pages hold the rows."""

    @property
    def fingerprint(self) -> str:
        """What identifies the contents: those of the files, and which rows."""

    def __len__(self) -> int:
        """Return the number of spans."""

    @property
    def num_rows(self) -> int:
        """Rows of all spans."""

    @property
    def num_values(self) -> int:
        """Values of these rows: tokens of a token column."""

    @property
    def num_pages(self) -> int:
        """Pages that hold these rows."""

    @property
    def page_values(self) -> int:
        """Values of all rows of these pages: what is decoded to have the spans'."""

    @property
    def file_first_span(self) -> Int64Array:
        """First span of each file, and the number of spans: int64 [files + 1]."""

    @property
    def file_first_row(self) -> Int64Array:
        """Rows of the spans before each file, and of all: int64 [files + 1]."""

    @property
    def file_first_value(self) -> Int64Array:
        """Values of the spans before each file, and of all: int64 [files + 1]."""

    def first_rows(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``spans``; ``len(self)`` gives them all."""

    def first_values(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the values before each of ``spans``, likewise."""

    def spans_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the span of each of ``rows``."""

    def spans_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each of ``values``."""

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """Return the page of the index, and the row in that page, of their starts."""

    def spans_at(self, pages: npt.ArrayLike, rows: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each row of a page; -1 if none does."""

    def spans_before(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of spans before each of ``rows`` of the index.

        These must be borders of row groups.
        """

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first span of each run that a shuffle moves as one.

        See :meth:`TokenIndex.runs`; None if every span is a run.
        """


class PageSpans:
    """All rows of an index: every page is a span.

    Args:
        index: The index.
    """

    def __init__(self, index: TokenIndex) -> None:
        self.index = index

    @property
    def fingerprint(self) -> str:
        """What identifies the contents: those of the files."""
        return self.index.fingerprint

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self.index)

    @property
    def num_rows(self) -> int:
        """Rows of all spans."""
        return self.index.num_rows

    @property
    def num_values(self) -> int:
        """Values of these rows: tokens of a token column."""
        return self.index.num_values

    @property
    def num_pages(self) -> int:
        """Pages that hold these rows."""
        return len(self.index)

    @property
    def page_values(self) -> int:
        """Values of all rows of these pages."""
        return self.index.num_values

    @property
    def file_first_span(self) -> Int64Array:
        """First span of each file, and the number of spans: int64 [files + 1]."""
        return self.index.file_first_page

    @property
    def file_first_row(self) -> Int64Array:
        """Rows of the spans before each file, and of all: int64 [files + 1]."""
        return self.index.file_first_row

    @property
    def file_first_value(self) -> Int64Array:
        """Values of the spans before each file, and of all: int64 [files + 1]."""
        return self.index.file_first_value

    def first_rows(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the rows before each of ``spans``; ``len(self)`` gives them all."""
        return self.index.first_rows(spans)

    def first_values(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the values before each of ``spans``, likewise."""
        return self.index.first_values(spans)

    def spans_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the span of each of ``rows``."""
        return self.index.pages_of_rows(rows)

    def spans_of_values(self, values: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each of ``values``."""
        return self.index.pages_of_values(values)

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """Return the page of the index, and the row in that page, of their starts."""
        pages = np.asarray(spans, dtype=np.int64)
        return pages, np.zeros_like(pages)

    def spans_at(self, pages: npt.ArrayLike, rows: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each row of a page."""
        return np.broadcast_arrays(np.asarray(pages, dtype=np.int64), rows)[0]

    def spans_before(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of spans before each of ``rows`` of the index."""
        borders = np.asarray(rows, dtype=np.int64)
        pages = np.full(borders.shape, len(self.index))
        inside = borders < self.index.num_rows
        pages[inside] = self.index.pages_of_rows(borders[inside])
        return pages

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first span of each run that a shuffle moves as one."""
        return self.index.runs(kind)


def refuse_null_tokens(spans: Spans) -> None:
    """Refuse pages of which a row holds a null token.

    A null row is an empty document; a null inside a row stands for no token, and would
    shift all that follow. The index knows them, so that a page of nothing else, which
    no sequence ever touches, is met too.

    Raises:
        UnsupportedError: If a page that holds rows of ``spans`` has such a row; it
            names the first.
    """
    index = spans.index
    pages = index.null_pages
    if len(pages):
        held, _ = spans.places(np.arange(len(spans)))
        pages = pages[np.isin(pages, held)]
    refuse_nulls(
        index,
        pages,
        "a row holds a null token",
        "write the file without null tokens, or select rows of other pages",
    )


def refuse_nulls(index: TokenIndex, pages: Int64Array, what: str, advice: str) -> None:
    """Refuse pages, if there are any.

    Args:
        index: The index.
        pages: Those of which a row holds a null.
        what: What is wrong with them.
        advice: What to do about it.

    Raises:
        UnsupportedError: Naming the first.
    """
    if not len(pages):
        return
    first = index.locate(int(pages[0]))
    error = UnsupportedError(
        f"{first.file}, row group {first.row_group}, column {index.column}, page "
        f"{first.page}, offset {first.offset}: {what}, as on {len(pages)} pages in "
        f"all; only whole rows may be null, which makes them empty: {advice}"
    )
    error.file, error.row_group, error.column = (
        first.file,
        first.row_group,
        index.column,
    )
    error.page, error.offset = first.page, first.offset
    raise error
