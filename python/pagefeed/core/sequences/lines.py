"""Lines: the tokens of rows, joined with the separators between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagefeed.core._base import Int64Array
from pagefeed.core.dataset import (
    Spans,
    refuse_null_tokens,
    refuse_texts,
    refuse_unknown_rows,
)

__all__ = ["Lines"]


class Lines:
    """Numbers the tokens of all rows and their separators.

    Every row gets the same number of separators, also an empty or null row. So the
    index alone tells where a page begins in the line: ``values + per_row * rows``.

    Args:
        spans: The rows.
        per_row: Separators of a row.

    Raises:
        UnsupportedError: If the column holds texts, or a row a null token.
        InvalidArgumentError: If there are separators, and no rows are known.
    """

    def __init__(self, spans: Spans, per_row: int) -> None:
        refuse_texts(spans.index, "cutting sequences")
        refuse_null_tokens(spans)
        if per_row:
            refuse_unknown_rows(spans, "a separator of documents")
        self.spans = spans
        self.per_row = per_row
        self.file_first = spans.file_first_value + per_row * spans.file_first_row
        """Tokens before each file, and in all: int64 [files + 1]."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""
        return int(self.file_first[-1])

    def first(self, spans: npt.ArrayLike) -> Int64Array:
        """Return the tokens before each of ``spans``; ``len(spans)`` gives them all."""
        values = self.spans.first_values(spans)
        if self.per_row == 0:
            return values
        return values + self.per_row * self.spans.first_rows(spans)

    def row_range(self, row: int) -> tuple[int, int]:
        """Return where a row of the spans begins and ends here; reads its page."""
        span = self.spans.spans_of_rows([row])
        page, page_row = (int(part[0]) for part in self.spans.places(span))
        place = row - int(self.spans.first_rows(span)[0])
        offsets = self.spans.index.row_offsets(page)[page_row:]
        starts = offsets - offsets[0] + self.per_row * np.arange(len(offsets))
        begin = int(self.first(span)[0])
        return begin + int(starts[place]), begin + int(starts[place + 1])

    def spans_of(self, tokens: Int64Array) -> Int64Array:
        """Return the span that holds each of ``tokens``: int64, the last if several."""
        return self.spans.cut(tokens, tokens + 1, self.per_row).span
