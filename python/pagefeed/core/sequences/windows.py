"""Windows: tokens joined end to end and cut at a fixed length."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pagefeed.core._base import (
    Int64Array,
    check_choice,
    check_whole,
    distinct,
    joined_ranges,
    narrow_difference,
    ranges_between,
)
from pagefeed.core.dataset import Spans
from pagefeed.core.sequences.cut import TokenCut
from pagefeed.core.sequences.lines import Lines
from pagefeed.core.sequences.sequence_index import (
    DocumentParts,
    Segments,
    SequenceLayout,
    SpanIndex,
)
from pagefeed.errors import InvalidArgumentError


@dataclass(frozen=True, repr=False)
class Windows(TokenCut):
    """A dataset's tokens joined end to end and cut every ``length`` tokens.

    Tokens of all files are joined, so that only the very last window may be shorter.
    Every row gets its ``bos`` and ``eos``, even an empty or null row. So the index
    alone gives the exact number of windows. A null token inside a row raises an error
    when the loader is made.

    Args:
        length: Tokens of a window.
        tail: What to do with the last, shorter window: ``"pad"`` fills it up with the
            loader's padding token, ``"drop"`` leaves it out.
        eos: Token written after every row.
        bos: Token written before every row.
        learn_eos: For data with labels, such as chats. True: the label of
            ``eos`` is ``eos``, so a model learns to end there. False: ``eos`` carries
            no loss. Required with such data, unless the chat template writes ``eos``.
        overlap: Tokens that a window repeats from the end of the window before.
        join: ``"dataset"`` joins the tokens of all files; ``"file"`` joins only those
            of each file, so that no window has tokens of two files.

    Raises:
        InvalidArgumentError: If an argument cannot be right.

    Example:
        >>> Windows(2048)
        Windows(length=2048, tail='pad')
        >>> Windows(2048, eos=2, overlap=256)
        Windows(length=2048, tail='pad', eos=2, overlap=256)
    """

    tail: Literal["pad", "drop"] = "pad"
    overlap: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.tail, ("pad", "drop"), "tail")
        overlap = check_whole(self.overlap, "overlap", least=0)
        if overlap >= self.length:
            raise InvalidArgumentError(
                f"overlap={overlap} must be less than length={self.length}"
            )
        object.__setattr__(self, "overlap", overlap)

    def index(self, spans: Spans) -> WindowIndex:
        """Cut the rows of ``spans`` into windows."""
        spans.index.check_cut(self)
        return WindowIndex(spans, self)


class WindowIndex(SpanIndex):
    """The windows of a dataset. Window i has the joined tokens [i*S, i*S + L).

    The stride S is the length L minus the overlap. With ``join="file"`` i counts per
    file.
    """

    def __init__(self, spans: Spans, windows: Windows) -> None:
        self.spans = spans
        self.erased = spans.erased
        self.windows = windows
        self.length = windows.length
        self.layout = SequenceLayout(
            bos=windows.bos, eos=windows.eos, learn_eos=windows.learn_eos
        )
        self.lines = Lines(spans, self.layout.per_row)
        if spans.erased is not None:
            self._gaps = spans.erased.tokens(self.layout.per_row)
        self.stride = stride = windows.length - windows.overlap
        ends = slice(None) if windows.join == "file" else [0, -1]
        self.line_first: Int64Array = self.lines.file_first[ends]
        """Tokens before each line, and of all: int64 [lines + 1]."""
        self._line_first_span: Int64Array = spans.file_first_span[ends]
        line_tokens = np.diff(self.line_first)
        beyond = line_tokens - windows.length
        if windows.tail == "pad":
            sequences = np.where(
                line_tokens > 0, 1 + -(-np.maximum(beyond, 0) // stride), 0
            )
        else:
            sequences = np.where(beyond >= 0, 1 + beyond // stride, 0)
        covered = np.where(sequences > 0, (sequences - 1) * stride + windows.length, 0)
        self.num_dropped_tokens = int(np.maximum(line_tokens - covered, 0).sum())
        self.num_padding_tokens = int(np.maximum(covered - line_tokens, 0).sum())
        self.line_first_sequence = np.concatenate([[0], np.cumsum(sequences)])
        """Windows before each line, and of all: int64 [lines + 1]."""
        self.num_sequences = int(self.line_first_sequence[-1])
        self._shift = self.line_first - self.line_first_sequence * stride
        """Window u of a line begins at token ``shift + u * stride``: int64 [lines + 1].

        The last stands for no line.
        """

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""
        return self.lines.num_tokens

    @property
    def num_delivered_tokens(self) -> int:
        """Tokens of all windows; tokens that windows share count in each of them."""
        return self.num_sequences * self.length - self.num_padding_tokens

    def first_of_spans(self, spans: Int64Array) -> Int64Array:
        """Return the number of windows that start before each span: int64."""
        # The end of the last span belongs to the last line.
        line = np.searchsorted(self._line_first_span, spans, side="right") - 1
        line = np.minimum(line, len(self._line_first_span) - 2)
        tokens = self.lines.first(spans)
        sequence = -((self._shift[line] - tokens) // self.stride)  # Rounded up.
        # If none begins there or later in the line, it is the first of the next.
        return np.minimum(sequence, self.line_first_sequence[line + 1])

    def spans_of(self, sequences: Int64Array) -> Int64Array:
        """Return the span in which each window starts: int64."""
        return self.lines.spans_of(self.token_ranges(sequences)[0])

    def token_ranges(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where each window begins and ends, counted in tokens: int64 each."""
        line: Int64Array | int = 0
        if len(self.line_first) > 2:
            first = self.line_first_sequence
            line = np.searchsorted(first, sequences, side="right") - 1
        start = sequences * self.stride
        start += self._shift[line]
        return start, np.minimum(start + self.length, self.line_first[line + 1])

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the windows with tokens of a row of the spans; reads its page."""
        first, last = self.lines.row_range(row)
        return self._holding(np.array([first]), np.array([last]))

    def erased_sequences(self) -> Int64Array:
        """Return the windows with tokens of erased rows, rising."""
        gaps = self._gaps if self.erased else np.empty((2, 0), dtype=np.int64)
        return distinct(self._holding(*gaps))

    def _holding(self, begins: Int64Array, ends: Int64Array) -> Int64Array:
        """Return the windows with tokens of ranges of tokens, range by range."""
        borders = self.line_first
        first = np.searchsorted(borders, begins, side="right") - 1
        last = np.searchsorted(borders, ends, side="left")
        line = joined_ranges(first, np.maximum(first, last))
        of = np.repeat(np.arange(len(begins)), np.maximum(last - first, 0))
        before = borders[line]
        low = np.maximum(begins[of], before) - before
        high = np.minimum(ends[of], borders[line + 1]) - before
        # The first window that ends after the first token, and the last that begins
        # by the last one.
        early = np.maximum(-(-(low + 1 - self.length) // self.stride), 0)
        late = (high - 1) // self.stride + 1
        begin, end = self.line_first_sequence[line], self.line_first_sequence[line + 1]
        starts, stops = begin + early, np.minimum(begin + late, end)
        return joined_ranges(starts, np.where(high > low, stops, starts).clip(starts))

    def parts(self, sequence: int) -> DocumentParts:
        """Return the documents in a window, whole or in part; reads its pages."""
        parts: list[tuple[int, int, int, int, int]] = []
        segments = self.segments(np.array([sequence]))
        for _, page, row, first, count, offset in zip(*segments, strict=True):
            starts = self.spans.index.row_offsets(int(page))
            starts = starts + self.layout.per_row * np.arange(len(starts))
            begin = int(starts[row] + first)
            borders = np.unique(np.clip(starts, begin, begin + int(count))).tolist()
            for start, stop in itertools.pairwise(borders):
                document = int(np.searchsorted(starts, start, side="right")) - 1
                where = int(offset) + start - begin
                within = start - int(starts[document])
                parts.append((int(page), document, within, stop - start, where))
        return DocumentParts(*np.array(parts, dtype=np.int64).reshape(-1, 5).T)

    def segments(self, sequences: Int64Array) -> Segments:
        """Return token ranges: one for each span in which a window has tokens."""
        starts, stops = self.token_ranges(sequences)
        if self.erased is None:
            return self._cut(starts, stops)
        sequence, left, stops = ranges_between(starts, stops, *self._gaps)
        segments = self._cut(left, stops)
        before = narrow_difference(left, starts[sequence])
        return segments._replace(
            sequence=sequence[segments.sequence],
            offset=segments.offset + before[segments.sequence],
        )

    def _cut(self, starts: Int64Array, stops: Int64Array) -> Segments:
        parts = self.spans.cut(starts, stops, self.layout.per_row)
        page, row = self.spans.places(parts.span)
        return Segments(
            sequence=parts.range,
            page=page,
            row=row,
            first_token=parts.first_token,
            num_tokens=parts.num_tokens,
            offset=parts.offset,
        )
