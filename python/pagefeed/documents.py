"""Documents: every row is a unit, with any of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pagefeed.arguments import check_choice, check_columns, check_whole
from pagefeed.arrays import Int64Array
from pagefeed.blocks import Blocks, RunBlocks
from pagefeed.errors import InvalidArgumentError, UnsupportedError
from pagefeed.index import BlockKind
from pagefeed.sequences import Bundles, Layout, Parts, Segments, bytes_of_pages
from pagefeed.spans import Spans

__all__ = ["DocumentUnits", "Documents"]


@dataclass(frozen=True)
class Documents:
    """One row, one sequence: documents as they are, with any columns.

    A batch holds an Arrow array per column, for any library that knows the Arrow
    PyCapsule interface (``pyarrow.array(batch["text"])``), text, numbers and nested
    columns alike. With ``max_length`` the dataset's token column comes as
    ``input_ids`` [batch_size, length], padded, and ``lengths`` [batch_size].

    Args:
        columns: Columns of a batch; by default the dataset's column and its metadata.
            A path such as ``"meta.url"`` gives the top-level column with this leaf
            only.
        max_length: Tokens of a document at most: the rest of it is left out.
        pad: Fill documents up to the ``"longest"`` of their batch, or always to
            ``"max_length"``.

    Example:
        >>> Documents(columns=["text", "url"])
        Documents(columns=('text', 'url'), max_length=None, pad='longest')
    """

    columns: Iterable[str] | None = None
    max_length: int | None = None
    pad: Literal["longest", "max_length"] = "longest"

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
        check_choice(self.pad, ("longest", "max_length"), "pad")

    @property
    def identity(self) -> str:
        """What tells this cut from others: rows are rows, whatever is made of them."""
        return "Documents()"

    def bind(self, spans: Spans) -> DocumentUnits:
        """Take the rows of ``spans``."""
        return DocumentUnits(spans, self)


class DocumentUnits:
    """The documents of a dataset, numbered as its rows."""

    layout = Layout()
    num_dropped_tokens = 0
    num_padding_tokens = 0

    def __init__(self, spans: Spans, documents: Documents) -> None:
        self.spans = spans
        self.documents = documents

    @property
    def num_units(self) -> int:
        """Number of documents."""
        return self.spans.num_rows

    @property
    def length(self) -> int:
        """Tokens of a document at most; 0 if there is no such bound."""
        return self.documents.max_length or 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows; rows, where the column has no tokens."""
        if self.spans.index.value_bytes == 0:
            return self.spans.num_rows
        return self.spans.num_values

    @property
    def num_own_tokens(self) -> int:
        """The same: there are no separators."""
        return self.num_tokens

    @property
    def file_first_unit(self) -> Int64Array:
        """Documents before each file, and in all: int64 [files + 1]."""
        return self.spans.file_first_row

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``: the documents of one run of spans."""
        return RunBlocks(
            self.spans.runs(kind),
            num_units=self.num_units,
            num_spans=len(self.spans),
            first_unit=self.spans.first_rows,
            span_of=self.spans.spans_of_rows,
        )

    def rows(self, units: Int64Array) -> Int64Array:
        """Return the row of each document among all rows of the files: int64."""
        page, row = self.places(units)
        return self.spans.index.first_rows(page) + row

    def places(self, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the page of each document, and its row there: int64 each."""
        span = self.spans.spans_of_rows(units)
        page, first_row = self.spans.places(span)
        return page, first_row + units - self.spans.first_rows(span)

    def segments(self, units: Int64Array) -> Segments:
        """Return a segment for each document; how long it is only its page tells."""
        page, row = self.places(units)
        nothing = np.zeros_like(page)
        return Segments(
            unit=np.arange(len(units)),
            page=page,
            row=row,
            first_token=nothing,
            num_tokens=nothing,
            offset=nothing,
        )

    def bundles(self, keys: Int64Array) -> Bundles:
        """Return nothing: documents are read page by page."""
        return Bundles(*(np.zeros_like(keys[:0]) for _ in Bundles._fields))

    def loaded_bytes(self, pages: Int64Array) -> Int64Array:
        """Return the decoded size of each page."""
        return bytes_of_pages(self.spans, pages)

    def parts(self, unit: int) -> Parts:
        """Return the document; its tokens are counted if the column has some."""
        page, row = self.places(np.array([unit]))
        zero = np.zeros(1, dtype=np.int64)
        try:
            starts = self.spans.index.row_offsets(int(page[0]))
            tokens = starts[row + 1] - starts[row]
        except UnsupportedError:  # Text, or numbers that are no tokens.
            tokens = zero
        return Parts(
            page=page, row=row, first_token=zero, num_tokens=tokens, offset=zero
        )

    def units_of_row(self, row: int) -> Int64Array:
        """Return the document that is a row of the spans."""
        return np.array([row])
