"""Arrange the columns of rows like the tokens of their infilled documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pagefeed.aligned import AlignedColumn, AlignedSource
from pagefeed.core.dataset import OwnTokens, PageIndex


class Document(NamedTuple):
    """An infilled document, as epoch 0 has it."""

    num_tokens: int
    """Tokens of the document, without special tokens."""
    row_tokens: int
    """Tokens of its row, with the special ones."""
    parts: Sequence[OwnTokens]
    """The document's own tokens in the row."""

    def is_parted(self, own: OwnTokens) -> bool:
        """Return whether the next token in the row is not the document's next token."""
        first, count, start = own
        end = start + count
        if end == self.row_tokens:
            return first + count != self.num_tokens
        return not any(
            next_place == end and next_first == first + count
            for next_first, _, next_place in self.parts
        )


Arrange = Callable[[Any, Document], Any]
"""Function that returns a value, arranged like its infilled document."""


def document_at(index: PageIndex, row: int) -> Document:
    """Return the document of a row of an index that is infilled."""
    [page] = index.pages_of_rows([row]).tolist()
    row_in_page = int(row - index.first_rows([page])[0])
    plain = index.plain
    own, whole = (
        int(offsets[row_in_page + 1] - offsets[row_in_page])
        for offsets in (plain.row_offsets(page), index.row_offsets(page))
    )
    return Document(own, whole, index.own_tokens(page, row_in_page, range(whole), 0))


def arrange_numbers(
    column: AlignedColumn, source: AlignedSource, tokens: PageIndex
) -> Arrange:
    """Return a function that moves numbers with their tokens.

    Special tokens get padding.
    """
    width = column.width(source, tokens)
    is_nested = getattr(source.handle, "list_depth", 1) > 1
    dtype = column.dtype(source)
    padding = (
        column.bits(column.padding, dtype) if dtype == "bfloat16" else column.padding
    )
    nothing = [] if column.like.count else [padding] * width

    def arrange(value: Sequence[Any] | None, document: Document) -> list[Any]:
        given = list(value or ())
        if not is_nested:
            given = [given[at : at + width] for at in range(0, len(given), width)]
        given = [nothing] * min(column.like.first, document.num_tokens) + given
        arranged = [nothing] * document.row_tokens
        for own in document.parts:
            first, count, start = own
            arranged[start : start + count] = given[first : first + count]
            if column.is_of_next(width) and document.is_parted(own):
                arranged[start + count - 1] = nothing
        if is_nested:
            return arranged
        return [number for numbers in arranged for number in numbers]

    return arrange


def arrange_spans(
    value: Sequence[Mapping[str, Any] | None] | None, document: Document
) -> list[dict[str, Any]] | None:
    """Cut the spans of a row where the document is cut, in the order of the tokens."""
    if value is None:
        return None
    arranged = []
    for first, count, begin in document.parts:
        for span in filter(None, value):
            start, end = max(span["start"], first), min(span["end"], first + count)
            if start < end or (start == end == span["start"] < first + count):
                moved = begin - first
                arranged.append({**span, "start": start + moved, "end": end + moved})
    return arranged
