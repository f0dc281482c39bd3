"""Where windows begin: at which tokens, and in which spans."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pagefeed._base import Int64Array, joined_ranges, sorted_with_places
from pagefeed.sequences.lines import Lines

__all__ = ["StartSpans", "WindowStarts"]

MANY = 1024
"""Windows from which on sorting them may cost less than it saves."""

LOOK_UP_EVERY = 8
"""Windows, in file order, of which one is looked up at first."""

SHARED = 2
"""Windows of a span looked up, from which on sorting them is worth while."""


class StartSpans(NamedTuple):
    """Spans in which windows begin; int64 [spans] each."""

    span: Int64Array
    """Number of the span."""
    line: Int64Array
    """Its line."""
    begin: Int64Array
    """Tokens of all rows before it."""
    end: Int64Array
    """Likewise, its own included."""


class WindowStarts:
    """The first tokens of windows, every so many in a line.

    Args:
        lines: The tokens of all rows.
        stride: Tokens from one window of a line to the next.
        first_token: Tokens before each line, and of all: int64 [lines + 1].
        first_sequence: Windows before each line, and of all: int64 [lines + 1].
    """

    def __init__(
        self,
        lines: Lines,
        stride: int,
        first_token: Int64Array,
        first_sequence: Int64Array,
    ) -> None:
        self._lines = lines
        self._stride = stride
        self._first_sequence = first_sequence
        self.shift = first_token - first_sequence * stride
        """Window u of a line begins at token ``shift + u * stride``: int64 [lines + 1].

        The last stands for no line.
        """

    def line_of(self, sequences: Int64Array) -> Int64Array:
        """Return the line of each window: int64."""
        return np.searchsorted(self._first_sequence, sequences, side="right") - 1

    def first_window(self, tokens: Int64Array, lines: Int64Array) -> Int64Array:
        """Return the first window that begins at each token of a line, or behind it.

        If none does in the line, that is the first window of the next one.
        """
        sequence = -((self.shift[lines] - tokens) // self._stride)  # Rounded up.
        limited: Int64Array = np.minimum(sequence, self._first_sequence[lines + 1])
        return limited

    def spans(self, sequences: Int64Array) -> tuple[Int64Array, StartSpans]:
        """Return the span in which each window begins.

        A shuffled plan has several windows of most spans that it touches, which sorting
        brings together: so spans are looked up, not every window.

        Returns:
            For each window a place in the other, int64; and spans, some more than once.
        """
        if len(sequences) < MANY:
            return np.arange(len(sequences)), self._look_up(sequences)
        rising, places = sorted_with_places(sequences)
        some = self._look_up(rising[::LOOK_UP_EVERY])
        is_new = np.diff(some.span, prepend=-1) > 0
        some = StartSpans(*[column[is_new] for column in some])
        begin = np.searchsorted(rising, self.first_window(some.begin, some.line))
        end = np.searchsorted(rising, self.first_window(some.end, some.line))
        if (end - begin).sum() < SHARED * len(begin):
            return np.arange(len(sequences)), self._look_up(sequences)
        found, heads = [some], [begin]
        # Between the windows of these spans are a few of others. Of each few the first
        # span is found by its first window, the rest window by window.
        head, limit = np.append(0, end), np.append(begin, len(sequences))
        for is_rest in (False, True):
            is_left = head < limit
            head, limit = head[is_left], limit[is_left]
            if is_rest:
                head = joined_ranges(head, limit)
            some = self._look_up(rising[head])
            found.append(some)
            heads.append(head)
            head = np.searchsorted(rising, self.first_window(some.end, some.line))
        head = np.concatenate(heads)
        by_head = np.argsort(head)
        counts = np.diff(head[by_head], append=len(sequences))
        which = np.empty(len(sequences), dtype=np.int64)
        which[places] = np.repeat(by_head, counts)
        columns = zip(*found, strict=True)
        return which, StartSpans(*map(np.concatenate, columns))

    def _look_up(self, sequences: Int64Array) -> StartSpans:
        """Return the span in which each window begins."""
        line = self.line_of(sequences)
        tokens = self.shift[line] + sequences * self._stride
        span, begin, end = self._lines.bounded_spans_of(tokens)
        return StartSpans(span, line, begin, end)
