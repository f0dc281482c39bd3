"""Spans: the rows of a dataset as runs of consecutive rows, each inside one page.

Erased rows keep their numbers and lengths, but no batch has their tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import (
    Int64Array,
    UInt32Array,
    is_made,
    joined_ranges,
    lazy,
    narrow_difference,
)
from pagefeed.core.dataset.page_index import BlockKind, PageIndex
from pagefeed.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from pagefeed.erasure.erased import ErasedRows


class SpanParts(NamedTuple):
    """Ranges of tokens, cut at the ends of pages or spans, in order.

    Separators of rows count as tokens.
    """

    range: Int64Array
    """Number of the range that was cut: int64 [parts]."""
    span: Int64Array
    """Number of the page or span: int64 [parts]."""
    first_token: UInt32Array
    """First token, counted from the start of the span: uint32 [parts]."""
    num_tokens: UInt32Array
    """Number of tokens: uint32 [parts]."""
    offset: UInt32Array
    """Tokens of the range before this part: uint32 [parts]."""


class SpanSlices(NamedTuple):
    """Spans of several ranges, one range after another, named as in ``Bundles``."""

    slice_offsets: UInt32Array
    """First span of each range among these, and their number: uint32 [ranges + 1]."""
    slice_page: Int64Array
    """Page of each span: int64 [spans]."""
    slice_row: UInt32Array
    """Row of the page at which it begins: uint32 [spans]."""
    slice_rows: UInt32Array
    """Number of its rows: uint32 [spans]."""


class Spans:
    """Runs of consecutive rows, in file order, each inside one page.

    :class:`Selection` derives from it and has the runs of selected rows. Rows and
    values are numbered consecutively, without the rows outside of the spans. Sequences
    are cut from spans, so that a part of a dataset is shuffled like a whole one.

    Args:
        index: The index whose pages hold the rows, or a function that makes it on first
            use.
    """

    origin = ""
    """Text that identifies the selection of rows of an index."""
    names: tuple[str, ...] = ()
    """Descriptions of the selections, the first one first."""
    erased: ErasedRows | None = None
    """Erased rows. No batch has them, but they count in totals."""

    def __init__(self, index: PageIndex | Callable[[], PageIndex]) -> None:
        self._index = index

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the index."""
        return Spans, (self.index,), {"erased": self.erased}

    @lazy
    def index(self) -> PageIndex:
        """The index whose pages hold the rows."""
        return self._index() if callable(self._index) else self._index

    def over(self, spans: Spans) -> Spans:
        """Return the same selection over another index of the same files."""
        return spans

    def check_not_empty(self) -> None:
        """Raise an EmptySelectionError if rows were selected and none are left."""

    @property
    def known_rows(self) -> int | None:
        """Number of rows; None until something is read for it."""
        return self.index.num_rows if is_made(self, "index") else None

    @property
    def known_tokens(self) -> int | None:
        """Number of tokens; None until something is read for it."""
        return self.index.num_values if is_made(self, "index") else None

    @property
    def row_runs(self) -> Int64Array:
        """First row of the index and end of each run (exclusive): int64 [runs, 2]."""
        return np.array([[0, self.num_rows]])

    def ranks(self, rows: Int64Array) -> Int64Array:
        """Return how many rows of the spans come before each row of the index."""
        return rows

    @property
    def fingerprint(self) -> str:
        """Identifies the contents: which files, and which of their rows."""
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
        """Values of these rows; for a column of tokens, their tokens."""
        return self.index.num_values

    @property
    def num_pages(self) -> int:
        """Pages that hold these rows."""
        return len(self.index)

    @property
    def page_values(self) -> int:
        """Values of all rows of the pages of the spans, which must be decoded."""
        return self.index.num_values

    @property
    def file_first_span(self) -> Int64Array:
        """First span of each file, and the number of spans: int64 [files + 1]."""
        return self.index.file_first_page

    @lazy
    def file_first_row(self) -> Int64Array:
        """Number of rows before each file, and in all: int64 [files + 1]."""
        return self.first_rows(self.file_first_span)

    @lazy
    def file_first_value(self) -> Int64Array:
        """Number of values before each file, and in all: int64 [files + 1]."""
        return self.first_values(self.file_first_span)

    def first_rows(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the number of rows before each span; ``len(self)`` gives all."""
        return self.index.first_rows(spans)

    def first_values(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the number of values before each span; ``len(self)`` gives all."""
        return self.index.first_values(spans)

    def rows_of_index(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the numbers in the index of ``rows``, numbered in the spans.

        For ``num_rows`` itself, this is the row after the last.
        """
        return np.asarray(rows, dtype=np.int64)

    def values_of_rows(self, rows: Int64Array) -> Int64Array:
        """Return the number of values before each of ``rows``; reads their pages."""
        return self.index.values_of_rows(rows)

    def spans_of_rows(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the span of each of ``rows``."""
        return self.index.pages_of_rows(rows)

    def cut(self, starts: Int64Array, stops: Int64Array, per_row: int) -> SpanParts:
        """Cut ranges of tokens, none of them empty, at the ends of spans.

        Args:
            starts: First token of each range; tokens are counted over all rows.
            stops: The token after the last.
            per_row: Separators of a row, which count as tokens.
        """
        return SpanParts(*self.index.cut(starts, stops, per_row))

    def places(self, spans: npt.ArrayLike) -> tuple[Int64Array, UInt32Array]:
        """Return where spans begin: the page of the index, and the row in that page."""
        pages = np.asarray(spans, dtype=np.int64)
        return pages, np.zeros(pages.shape, dtype=np.uint32)

    def slices(self, first: Int64Array, end: Int64Array) -> SpanSlices:
        """List the spans of ranges, from ``first`` up to ``end``: int64 [ranges]."""
        offsets, page, num_rows = self.index.list_pages(first, end)
        return SpanSlices(offsets, page, np.zeros_like(num_rows), num_rows)

    def spans_at(self, pages: npt.ArrayLike, rows: npt.ArrayLike) -> Int64Array:
        """Return the span that holds each row of a page; -1 if none does."""
        return np.broadcast_arrays(np.asarray(pages, dtype=np.int64), rows)[0]

    def spans_before(self, rows: npt.ArrayLike) -> Int64Array:
        """Return the number of spans before each of ``rows`` of the index.

        These must be borders of row groups.
        """
        return self.index.pages_before(rows)

    def runs(self, kind: BlockKind) -> Int64Array | None:
        """Return the first span of each run of pages that a shuffle moves together.

        See :meth:`PageIndex.runs`; None if every span is a run.
        """
        return self.index.runs(kind)


def lengths_of_rows(spans: Spans, first: int, stop: int) -> Int64Array:
    """Return the lengths of the rows of some spans; reads a page once: int64 [rows]."""
    num_rows = np.diff(spans.first_rows(np.arange(first, stop + 1)))
    page, row = spans.places(np.arange(first, stop))
    pages, which = np.unique(page, return_inverse=True)
    index = spans.index
    lengths = index.row_lengths(pages)
    rows = index.first_rows(pages + 1) - index.first_rows(pages)
    begin = (np.cumsum(rows) - rows)[which] + row
    return lengths[joined_ranges(begin, begin + num_rows)]


def cut_at(
    values: Int64Array,
    rows: Int64Array,
    per_row: int,
    starts: Int64Array,
    stops: Int64Array,
) -> SpanParts:
    """Cut non-empty ranges of tokens where spans end, see :meth:`Spans.cut`.

    Args:
        values: Values before each span, and of all: int64 [spans + 1].
        rows: Rows before each, likewise.
        per_row: Separators of a row.
        starts: First token of each range.
        stops: One past its last.

    Example:
        >>> spans = np.array([0, 4, 6])
        >>> cut_at(spans, spans, 0, np.array([3]), np.array([6])).num_tokens.tolist()
        [1, 2]
    """

    def first(spans: Int64Array) -> Int64Array:
        return values[spans] + per_row * rows[spans]

    def holding(tokens: Int64Array) -> Int64Array:
        """Find the last span that begins at or before each token, by halving."""
        low = np.zeros_like(tokens)
        left = len(values) - 1
        while left > 1:
            half = left // 2
            low += half * (first(low + half) <= tokens)
            left -= half
        return low

    first_span, last_span = holding(starts), holding(stops - 1)
    span = joined_ranges(first_span, last_span + 1)
    of = np.repeat(np.arange(len(starts)), last_span + 1 - first_span)
    begin = first(span)
    from_, to = np.maximum(begin, starts[of]), np.minimum(first(span + 1), stops[of])
    filled = np.flatnonzero(to > from_)
    of, span, begin, from_ = of[filled], span[filled], begin[filled], from_[filled]
    return SpanParts(
        range=of,
        span=span,
        first_token=narrow_difference(from_, begin),
        num_tokens=narrow_difference(to[filled], from_),
        offset=narrow_difference(from_, starts[of]),
    )


def refuse_null_tokens(spans: Spans) -> None:
    """Raise an error if a page has a row with a null token.

    A null row is an empty document. A null inside a row is not a token, and would shift
    all tokens after it. The index knows all nulls, so the check also covers pages of
    nulls alone, which no sequence reads.

    Raises:
        UnsupportedError: If a page with rows of ``spans`` has such a row; the message
            names the first page.
    """
    index = spans.index
    pages = index.null_pages
    if len(pages):
        used, _ = spans.places(np.arange(len(spans)))
        pages = pages[np.isin(pages, used)]
    refuse_nulls(
        index,
        pages,
        "a row holds a null token",
        "write the file without null tokens, or select rows of other pages",
    )


def refuse_nulls(index: PageIndex, pages: Int64Array, what: str, advice: str) -> None:
    """Raise an error if there are pages with nulls.

    Args:
        index: The index.
        pages: Pages that have a row with a null.
        what: Description of what is wrong, for the message.
        advice: Remedy, for the message.

    Raises:
        UnsupportedError: Naming the first.
    """
    if not len(pages):
        return
    first = index.locate(int(pages[0]))
    raise UnsupportedError(
        f"{first.file}, row group {first.row_group}, column {index.column}, page "
        f"{first.page}, offset {first.offset}: {what}, as on {len(pages)} pages in "
        f"all; only whole rows may be null, which makes them empty: {advice}"
    ).at(**index.error_place(first))


def refuse_texts(index: PageIndex, what: str) -> None:
    """Raise an error for a column of texts where tokens are needed.

    Args:
        index: The column.
        what: What needs tokens, for the message.

    Raises:
        UnsupportedError: If the column holds no numbers; the message says what to
            write.
    """
    if index.value_bytes == 0:
        raise UnsupportedError(
            f"column {index.column!r} of {index.files[0]} has no numbers, and {what} "
            "needs tokens: name a column of tokens, or tokenize texts by "
            "dataset.tokenize(tokenizer) or --tokenize FILE"
        ).at(file=index.files[0], column=index.column)


def refuse_unknown_rows(spans: Spans, what: str) -> None:
    """Raise an error if the index does not know where rows begin and end.

    Args:
        spans: The rows.
        what: What needs documents, for the message.

    Raises:
        InvalidArgumentError: If files do not mark documents; the message says what to
            write.
    """
    if spans.index.is_borderless:
        raise InvalidArgumentError(
            f"{what} needs documents, and {spans.index.files[0]} does not say where "
            "they end: give the dataset the token that ends each, as in "
            "pagefeed.tokens(..., eos=2), or cut its tokens by Windows(length)"
        )
