"""Lines: the tokens of spans with what separates their rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pagefeed._base import Int64Array
from pagefeed.dataset import Spans, refuse_null_tokens, refuse_unknown_rows

__all__ = ["Lines"]


class Lines:
    """Numbers the tokens of all rows, each with the separators it gets.

    Every row gets the same number of them, also an empty or null one: so the places of
    pages in the line follow from the index alone, ``values + per_row * rows``.

    Args:
        spans: The rows.
        per_row: Separators of a row.

    Raises:
        UnsupportedError: If a row holds a null token.
        InvalidArgumentError: If there are separators, and no rows are known.
    """

    def __init__(self, spans: Spans, per_row: int) -> None:
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
        if self.per_row == 0:
            return self.spans.spans_of_values(tokens)
        return self.bounded_spans_of(tokens)[0]

    def bounded_spans_of(
        self, tokens: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the same spans, and the tokens before each and before the next."""
        if self.per_row == 0:
            spans = self.spans.spans_of_values(tokens)
            return spans, self.first(spans), self.first(spans + 1)
        file = np.searchsorted(self.file_first, tokens, side="right") - 1
        low = self.spans.file_first_span[file]
        high = self.spans.file_first_span[file + 1]
        low_token, high_token = self.file_first[file], self.file_first[file + 1]
        open_ = np.flatnonzero(high - low > 1)
        turn = 0
        # Guessing by values finds most; pages of a file are of about one size, so that
        # proportion finds the others in a few turns; halving in between bounds them.
        while len(open_):
            wanted = tokens[open_]
            below, above = low[open_], high[open_]
            if turn == 0:
                guess = self._guess(wanted, file[open_])
            elif turn % 3 == 2:
                guess = (below + above) // 2
            else:
                before, after = low_token[open_], high_token[open_]
                part = (wanted - before) / (after - before)
                guess = below + ((above - below) * part).astype(np.int64)
            guess = np.clip(guess, below, above - 1)
            start, end = self.first(guess), self.first(guess + 1)
            left, right = wanted < start, wanted >= end
            high[open_] = np.where(left, guess, np.where(right, above, guess + 1))
            high_token[open_] = np.where(
                left, start, np.where(right, high_token[open_], end)
            )
            low[open_] = np.where(right, guess + 1, np.where(left, below, guess))
            low_token[open_] = np.where(
                right, end, np.where(left, low_token[open_], start)
            )
            # Spans without rows end where they begin, and hold nothing.
            open_ = open_[high[open_] - low[open_] > 1]
            turn += 1
        return low, low_token, high_token

    def _guess(self, tokens: Int64Array, file: Int64Array) -> Int64Array:
        """Return a span near each token, as if rows were of one length in a file."""
        values, line = self.spans.file_first_value, self.file_first
        part = (tokens - line[file]) / (line[file + 1] - line[file])
        beyond = ((values[file + 1] - values[file]) * part).astype(np.int64)
        value: Int64Array = values[file] + beyond
        if self.spans.num_values == 0:
            return value
        return self.spans.spans_of_values(np.minimum(value, self.spans.num_values - 1))
