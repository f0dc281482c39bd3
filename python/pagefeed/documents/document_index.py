"""The documents of a dataset, every row a sequence, and the counts of lengths."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed.caches import (
    document_lengths,
)
from pagefeed.core._base import (
    Int64Array,
    StoredNumbers,
    joined_ranges,
    lazy,
)
from pagefeed.core.dataset import (
    Spans,
    refuse_null_tokens,
    refuse_texts,
    refuse_unknown_rows,
)
from pagefeed.core.sequences import DocumentParts, Segments, SequenceLayout, SpanIndex
from pagefeed.errors import UnsupportedError

AT_ONCE = 1 << 20
"""Rows whose lengths are added up at a time."""


class RowCut(Protocol):
    """The cut of rows into documents."""

    @property
    def columns(self) -> Iterable[str] | None:
        """Columns of a batch; None for the columns of the dataset."""

    @property
    def max_length(self) -> int | None:
        """Tokens of a document at most."""

    @property
    def pad(self) -> Any:
        """The padding of documents; None to join them."""

    @property
    def makes_tokens(self) -> bool:
        """Whether the column of the dataset is delivered as tokens, cut and padded."""

    @property
    def padded_columns(self) -> dict[str, int]:
        """Padding values by column, if they were given."""


class DocumentIndex(SpanIndex):
    """The documents of a dataset, numbered as its rows."""

    layout = SequenceLayout()
    tokens_differ = True
    keeps_empty = True

    def __init__(self, spans: Spans, documents: RowCut) -> None:
        if documents.makes_tokens:
            refuse_texts(spans.index, f"max_length={documents.max_length}")
        if documents.max_length is not None:
            refuse_null_tokens(spans)
        refuse_unknown_rows(spans, "Documents()")
        self.spans = spans
        self.erased = spans.erased
        self.documents = documents
        self.columns = tuple(documents.columns or ())
        self.has_tokens = spans.index.value_bytes > 0
        self.reads_lengths = self.has_tokens and documents.max_length is not None
        self.length = documents.max_length or 0  # 0 if there is no such bound.
        self.num_sequences = spans.num_rows

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all rows, or of rows if the column has no tokens."""
        return self.spans.num_values if self.has_tokens else self.spans.num_rows

    @lazy
    def num_delivered_tokens(self) -> int:
        """Tokens of all rows, cut to ``max_length``; 0 where the column has none."""
        most = self.documents.max_length
        if most is None or not self.has_tokens:
            return self.spans.num_values if self.has_tokens else 0
        lengths, total = document_lengths(self.spans), 0
        for begin in range(0, len(lengths), AT_ONCE):
            some = np.minimum(lengths[begin : begin + AT_ONCE], most)
            total += int(some.sum(dtype=np.float64))
        return total

    def first_of_spans(self, spans: Int64Array) -> Int64Array:
        """Return the number of documents before each span: int64."""
        return self.spans.first_rows(spans)

    def spans_of(self, sequences: Int64Array) -> Int64Array:
        """Return the span of each document: int64."""
        return self.spans.spans_of_rows(sequences)

    def rows(self, sequences: Int64Array) -> Int64Array:
        """Return the row of each document among all rows of the files: int64."""
        page, row = self.places(sequences)
        return self.spans.index.first_rows(page) + row

    def documents_of(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the rows of sequences, and the sequence of each: its own."""
        return sequences, np.arange(len(sequences))

    def places(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the page of each document, and its row in the page: int64 each."""
        span = self.spans.spans_of_rows(sequences)
        page, first_row = self.spans.places(span)
        return page, first_row + sequences - self.spans.first_rows(span)

    def segments(self, sequences: Int64Array) -> Segments:
        """Return a segment for each document.

        Its length is known once its page is read.
        """
        page, row = self.places(sequences)
        nothing = np.zeros(len(page), dtype=np.uint32)
        return Segments(
            sequence=np.arange(len(sequences)),
            page=page,
            row=row.astype(np.uint32),
            first_token=nothing,
            num_tokens=nothing,
            offset=nothing,
        )

    def parts(self, sequence: int) -> DocumentParts:
        """Return the document, cut; its tokens are counted if the column has some."""
        left = self.are_left(np.array([sequence]))
        page, row = self.places(np.array([sequence])[left])
        zero = np.zeros(len(page), dtype=np.int64)
        if not len(page):
            return DocumentParts(page, row, zero, zero, zero)
        try:
            starts = self.spans.index.row_offsets(int(page[0]))
            tokens = starts[row + 1] - starts[row]
            if self.documents.max_length is not None:
                tokens = np.minimum(tokens, self.documents.max_length)
        except UnsupportedError:  # Text, or numbers that are not tokens.
            tokens = zero
        return DocumentParts(
            page=page, row=row, first_token=zero, num_tokens=tokens, offset=zero
        )

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the document that is a row of the spans."""
        return np.array([row])

    def sequences_with_rows(self, begin: int, end: int) -> range | Int64Array:
        """Return the documents that are rows of the files, rising."""
        every = range(self.spans.num_rows)

        def row(document: int) -> int:
            return int(DocumentIndex.rows(self, np.array([document]))[0])

        first, stop = (bisect_left(every, border, key=row) for border in (begin, end))
        return range(first, stop)

    def stored_squares(self) -> StoredNumbers | None:
        """Map the tokens of each document. Count them if they are not stored."""
        return document_lengths(self.spans) if self.reads_lengths else None

    @property
    def documents_key(self) -> tuple[str, bytes]:
        """Identity of the cut: a document is a row in any blocks."""
        return "Documents", b""

    def are_left(self, sequences: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which documents were not erased: bool."""
        if self.erased is None:
            return np.ones(len(sequences), dtype=bool)
        return ~self.erased.holds(sequences)

    def erased_sequences(self) -> Int64Array:
        """Return the documents that were erased, rising."""
        return joined_ranges(*self.erased_runs.T)
