"""Documents: every row is a sequence, with any of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pagefeed._base import (
    Int64Array,
    check_choice,
    check_columns,
    check_whole,
    joined_ranges,
    lazy,
)
from pagefeed.dataset import (
    Spans,
    length_counts,
    refuse_null_tokens,
    refuse_texts,
    refuse_unknown_rows,
)
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.sequences.sequence_index import (
    DocumentParts,
    Segments,
    SequenceLayout,
)
from pagefeed.sequences.span_index import SpanIndex

__all__ = ["DocumentIndex", "Documents"]


class _Fillings(dict[str, int]):
    """What fills up which column; not changed once it is made."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


@dataclass(frozen=True)
class Documents:
    """One row, one sequence: documents as they are, with any columns.

    A batch holds an Arrow array per column, for any library that knows the Arrow
    PyCapsule interface (``pyarrow.array(batch["text"])``), text, numbers and nested
    columns alike. With ``max_length`` the dataset's token column comes as
    ``input_ids`` [batch_size, length], padded, and ``lengths`` [batch_size]; a null row
    is empty, and a null token inside a row refused when the loader is made. Columns
    that ``aligned=`` of the dataset names are cut and padded like the tokens. All
    others come whole. A column called like a field that is made is the user's.

    In a mixture each dataset gives its own token column; other columns are those of
    the same name in all.

    Args:
        columns: Columns of a batch, also those that folders name (``lang=en/``); by
            default the dataset's column and its metadata. A path such as
            ``"meta.url"`` gives the top-level column with this leaf only.
        max_length: Tokens of a document at most: the rest of it is left out.
        pad: Fill documents up to the ``"longest"`` of their batch, or always to
            ``"max_length"``. None fills up nothing: the documents of a batch lie one
            behind another, ``input_ids`` [1, tokens], and ``cu_seqlens`` among the
            fields tells where each begins. Or what fills up lists of integers, by the
            names of their columns: each comes under its own name, int64 [batch_size,
            length], filled up to its own longest, or cut and filled to ``max_length``,
            with ``NAME_lengths`` [batch_size]. So pairs of chosen and rejected answers,
            each with labels, need no collator; the dataset's column is one like the
            others.

    Example:
        >>> Documents(pad={"chosen_ids": 0, "rejected_ids": 0}).padded_columns
        {'chosen_ids': 0, 'rejected_ids': 0}
        >>> Documents(columns=["text", "url"])
        Documents(columns=('text', 'url'), max_length=None, pad='longest')
    """

    columns: Iterable[str] | None = None
    max_length: int | None = None
    pad: Literal["longest", "max_length"] | Mapping[str, int] | None = "longest"

    def __post_init__(self) -> None:
        if self.columns is not None:
            names = check_columns(self.columns, "columns")
            if not names and self.max_length is None:
                raise InvalidArgumentError(
                    "columns=[] leaves nothing of a document: name some, or give a "
                    "max_length for its tokens"
                )
            if len(set(names)) < len(names):
                raise InvalidArgumentError(f"columns={list(names)} names one twice")
            object.__setattr__(self, "columns", names)
        if self.max_length is not None:
            length = check_whole(self.max_length, "max_length", least=1)
            object.__setattr__(self, "max_length", length)
        if isinstance(self.pad, str):
            check_choice(self.pad, ("longest", "max_length"), "pad")
            return
        if self.pad is None and self.max_length is None:
            raise InvalidArgumentError(
                "pad=None joins the tokens of documents: give a max_length"
            )
        if self.pad is None:
            return
        if not isinstance(self.pad, Mapping):
            raise InvalidArgumentError(
                f"pad={self.pad!r} must be 'longest', 'max_length', None, or what "
                "fills up which column: pad={'chosen_ids': 0, 'labels': -100}"
            )
        names = check_columns(self.pad, "pad")
        filling = [check_whole(self.pad[name], f"pad[{name!r}]") for name in names]
        pairs = _Fillings(zip(names, filling, strict=True))
        object.__setattr__(self, "pad", pairs)

    @property
    def padded_columns(self) -> dict[str, int]:
        """What fills up which columns, if that was said."""
        return dict(self.pad) if isinstance(self.pad, Mapping) else {}

    @property
    def makes_tokens(self) -> bool:
        """Whether the dataset's own column comes as ``input_ids``, cut and padded."""
        return self.max_length is not None and not isinstance(self.pad, Mapping)

    @property
    def identity(self) -> str:
        """What tells this cut from others: rows are rows, whatever is made of them."""
        return "Documents()"


class DocumentIndex(SpanIndex):
    """The documents of a dataset, numbered as its rows."""

    layout = SequenceLayout()

    def __init__(self, spans: Spans, documents: Documents) -> None:
        if documents.makes_tokens:
            refuse_texts(spans.index, f"max_length={documents.max_length}")
        if documents.max_length is not None:
            refuse_null_tokens(spans)
        refuse_unknown_rows(spans, "Documents()")
        self.spans = spans
        self.erased = spans.erased
        self.documents = documents
        self.length = documents.max_length or 0  # 0 if there is no such bound.
        self.num_sequences = spans.num_rows

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows; rows, where the column has no tokens."""
        return self.spans.num_values if self.has_tokens else self.spans.num_rows

    @property
    def has_tokens(self) -> bool:
        """Whether the column has tokens that can be counted."""
        return self.spans.index.value_bytes > 0

    @property
    def reads_lengths(self) -> bool:
        """Whether counting the tokens that are delivered takes reading all rows."""
        return self.has_tokens and self.documents.max_length is not None

    @lazy
    def num_delivered_tokens(self) -> int:
        """Tokens of all rows, cut to ``max_length``; 0 where the column has none."""
        most = self.documents.max_length
        if most is None or not self.has_tokens:
            return self.spans.num_values if self.has_tokens else 0
        return length_counts(self.spans).cut_tokens(most)

    def first_of_spans(self, spans: Int64Array) -> Int64Array:
        """Return the documents before each of ``spans``: int64."""
        return self.spans.first_rows(spans)

    def spans_of(self, sequences: Int64Array) -> Int64Array:
        """Return the span of each document: int64."""
        return self.spans.spans_of_rows(sequences)

    def rows(self, sequences: Int64Array) -> Int64Array:
        """Return the row of each document among all rows of the files: int64."""
        page, row = self.places(sequences)
        return self.spans.index.first_rows(page) + row

    def places(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the page of each document, and its row there: int64 each."""
        span = self.spans.spans_of_rows(sequences)
        page, first_row = self.spans.places(span)
        return page, first_row + sequences - self.spans.first_rows(span)

    def segments(self, sequences: Int64Array) -> Segments:
        """Return a segment for each document; how long it is only its page tells."""
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
        except UnsupportedError:  # Text, or numbers that are no tokens.
            tokens = zero
        return DocumentParts(
            page=page, row=row, first_token=zero, num_tokens=tokens, offset=zero
        )

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the document that is a row of the spans."""
        return np.array([row])

    def are_left(self, sequences: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which documents were not erased: bool."""
        if self.erased is None:
            return np.ones(len(sequences), dtype=bool)
        return ~self.erased.holds(sequences)

    def erased_sequences(self) -> Int64Array:
        """Return the documents that were erased, rising."""
        return joined_ranges(*self.erased_runs.T)
