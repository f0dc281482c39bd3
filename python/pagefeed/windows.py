"""Windows: the tokens of files, cut every so many."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pagefeed.arguments import check_choice, check_token, check_whole
from pagefeed.arrays import Int64Array, joined_ranges
from pagefeed.blocks import Blocks, RunBlocks
from pagefeed.errors import InvalidArgumentError
from pagefeed.index import BlockKind
from pagefeed.lines import Lines
from pagefeed.sequences import (
    Bundles,
    Layout,
    Parts,
    Segments,
    bytes_of_pages,
    check_length,
    identity_of,
    short_repr,
)
from pagefeed.spans import Spans
from pagefeed.window_starts import WindowStarts

__all__ = ["WindowUnits", "Windows"]


@dataclass(frozen=True)
class Windows:
    """Each file's tokens joined end to end and cut every ``length`` tokens.

    Every row gets its ``bos`` and ``eos``, also an empty or null one: the number of
    windows follows from the rows and values of the index and is exact.

    Args:
        length: Tokens of a window.
        tail: What becomes of the last, shorter piece of a file: ``"pad"`` fills it up
            with the loader's padding token, ``"drop"`` leaves it out.
        eos: Token written behind every row.
        bos: Token written before every row.
        overlap: Tokens that a window repeats from the end of the one before.

    Example:
        >>> Windows(2048)
        Windows(length=2048, tail='pad')
        >>> Windows(2048, eos=2, overlap=256)
        Windows(length=2048, tail='pad', eos=2, overlap=256)
    """

    length: int
    tail: Literal["pad", "drop"] = "pad"
    eos: int | None = field(default=None, kw_only=True)
    bos: int | None = field(default=None, kw_only=True)
    overlap: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", check_length(self.length))
        check_choice(self.tail, ("pad", "drop"), "tail")
        overlap = check_whole(self.overlap, "overlap", least=0)
        if overlap >= self.length:
            raise InvalidArgumentError(
                f"overlap={overlap} must be less than length={self.length}"
            )
        object.__setattr__(self, "overlap", overlap)
        for name in ("bos", "eos"):
            object.__setattr__(self, name, check_token(getattr(self, name), name))

    def __repr__(self) -> str:
        # What is not asked for stays out: states of earlier releases name the rest.
        return short_repr(self, always=("length", "tail"))

    @property
    def identity(self) -> str:
        """What tells this cut from others, in states and caches."""
        return identity_of(self)

    def bind(self, spans: Spans) -> WindowUnits:
        """Cut the rows of ``spans``."""
        return WindowUnits(spans, self)


class WindowUnits:
    """The windows of a dataset. Window i of a file is its tokens [i*S, i*S + L).

    S, the stride, is the length L but for the overlap.
    """

    def __init__(self, spans: Spans, windows: Windows) -> None:
        self.spans = spans
        self.windows = windows
        self.layout = Layout(bos=windows.bos, eos=windows.eos)
        self.lines = Lines(spans, self.layout.per_row)
        self.num_tokens, self.num_own_tokens = self.lines.num_tokens, spans.num_values
        self.stride = stride = windows.length - windows.overlap
        file_tokens = np.diff(self.lines.file_first)
        beyond = file_tokens - windows.length
        if windows.tail == "pad":
            units = np.where(
                file_tokens > 0, 1 + -(-np.maximum(beyond, 0) // stride), 0
            )
        else:
            units = np.where(beyond >= 0, 1 + beyond // stride, 0)
        covered = np.where(units > 0, (units - 1) * stride + windows.length, 0)
        self.num_dropped_tokens = int(np.maximum(file_tokens - covered, 0).sum())
        self.num_padding_tokens = int(np.maximum(covered - file_tokens, 0).sum())
        self.file_first_unit = np.concatenate([[0], np.cumsum(units)])
        self.starts = WindowStarts(self.lines, stride, self.file_first_unit)

    @property
    def num_units(self) -> int:
        """Number of windows."""
        return int(self.file_first_unit[-1])

    @property
    def length(self) -> int:
        """Tokens of a window."""
        return self.windows.length

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``: the windows that start in one run of spans."""
        return RunBlocks(
            self.spans.runs(kind),
            num_units=self.num_units,
            num_spans=len(self.spans),
            first_unit=self._first_unit,
            span_of=self._span_of,
        )

    def _first_unit(self, spans: Int64Array) -> Int64Array:
        """Return the windows that start before each of ``spans``."""
        # The end of the last span belongs to the last file that has spans.
        file = np.searchsorted(self.spans.file_first_span, spans, side="right") - 1
        file = np.minimum(file, len(self.spans.file_first_span) - 2)
        return self.starts.first_window(self.lines.first(spans), file)

    def _span_of(self, units: Int64Array) -> Int64Array:
        """Return the span in which each window starts."""
        return self.lines.spans_of(self.token_ranges(units)[0])

    def token_ranges(self, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where each window begins and ends among all tokens: int64 each."""
        file = self.starts.files(units)
        start = self.starts.shift[file] + units * self.stride
        return start, np.minimum(start + self.length, self.lines.file_first[file + 1])

    def units_of_row(self, row: int) -> Int64Array:
        """Return the windows with tokens of a row of the spans; reads its page."""
        first, last = self.lines.row_range(row)
        if first >= last:
            return np.empty(0, dtype=np.int64)
        starts = self.lines.file_first
        file = int(np.searchsorted(starts, first, side="right")) - 1
        begin, end = self.file_first_unit[file : file + 2].tolist()
        # The first window that ends behind `first`, and the last that begins by `last`.
        early = -(-(first - int(starts[file]) + 1 - self.length) // self.stride)
        late = (last - 1 - int(starts[file])) // self.stride
        return np.arange(begin + max(early, 0), min(begin + late + 1, end))

    def bundles(self, keys: Int64Array) -> Bundles:  # noqa: ARG002 - the protocol's
        """Return no bundles: windows need none."""
        none = np.empty(0, dtype=np.int64)
        return Bundles(none, none, np.zeros(1, dtype=np.int64), none, none, none)

    def loaded_bytes(self, pages: Int64Array) -> Int64Array:
        """Return the decoded size of each page."""
        return bytes_of_pages(self.spans, pages)

    def parts(self, unit: int) -> Parts:
        """Return the parts of documents in a window; reads its pages."""
        found: list[tuple[int, int, int, int, int]] = []
        segments = self.segments(np.array([unit]))
        for _, page, row, first, count, offset in zip(*segments, strict=True):
            starts = self.spans.index.row_offsets(int(page))
            starts = starts + self.layout.per_row * np.arange(len(starts))
            begin = int(starts[row] + first)
            borders = np.unique(np.clip(starts, begin, begin + int(count))).tolist()
            for start, stop in itertools.pairwise(borders):
                place = int(np.searchsorted(starts, start, side="right")) - 1
                where = int(offset) + start - begin
                within = start - int(starts[place])
                found.append((int(page), place, within, stop - start, where))
        return Parts(*np.array(found, dtype=np.int64).reshape(-1, 5).T)

    def segments(self, units: Int64Array) -> Segments:
        """Return the token ranges of ``units``: one for each span a window touches."""
        if not len(units):
            return Segments(*(np.empty(0, dtype=np.int64) for _ in Segments._fields))
        which, spans = self.starts.spans(units)
        page, row = self.spans.places(spans.span)
        file_end = self.lines.file_first[spans.file + 1]
        first_token = units * self.stride
        first_token += (self.starts.shift[spans.file] - spans.begin)[which]
        num_tokens = (file_end - spans.begin)[which]
        num_tokens -= first_token
        np.minimum(num_tokens, self.length, out=num_tokens)
        segments = Segments(
            unit=np.arange(len(units)),
            page=page[which],
            row=row[which],
            first_token=first_token,
            num_tokens=num_tokens,
            offset=np.zeros(len(units), dtype=np.int64),
        )
        inside = (spans.end - spans.begin)[which]
        inside -= first_token
        crossing = np.flatnonzero(num_tokens > inside)
        if not len(crossing):
            return segments
        which = which[crossing]
        start = spans.begin[which] + first_token[crossing]
        stop = start + num_tokens[crossing]
        num_tokens[crossing] = inside[crossing]
        further = self._further_segments(crossing, spans.span[which], start, stop)
        return _merged(segments, further)

    def _further_segments(
        self,
        unit: Int64Array,
        first_span: Int64Array,
        start: Int64Array,
        stop: Int64Array,
    ) -> Segments:
        """Return the segments of windows behind their first.

        Args:
            unit: The windows, each an index into those asked for.
            first_span: The span in which each begins.
            start: Where each begins among all tokens.
            stop: Where each ends, beyond that span.
        """
        last_span = first_span + 1  # Of nearly all.
        far = np.flatnonzero(stop > self.lines.first(last_span + 1))
        last_span[far] = self.lines.spans_of(stop[far] - 1)
        span = joined_ranges(first_span + 1, last_span + 1)
        which = np.repeat(np.arange(len(unit)), last_span - first_span)
        page, row = self.spans.places(span)
        begin = self.lines.first(span)
        end = np.minimum(self.lines.first(span + 1), stop[which])
        segments = Segments(
            unit=unit[which],
            page=page,
            row=row,
            first_token=np.zeros(len(span), dtype=np.int64),
            num_tokens=end - begin,
            offset=begin - start[which],
        )
        return _without_empty(segments)


def _merged(first: Segments, further: Segments) -> Segments:
    """Put segments behind the first segments of their units, which are all there."""
    counts = np.bincount(further.unit, minlength=len(first.unit))
    at = np.cumsum(counts) - counts + first.unit
    is_further = np.ones(len(first.unit) + len(further.unit), dtype=bool)
    is_further[at] = False
    further_at = np.flatnonzero(is_further)
    merged = []
    for column, further_column in zip(first, further, strict=True):
        joined = np.empty(len(is_further), dtype=np.int64)
        joined[at] = column
        joined[further_at] = further_column
        merged.append(joined)
    return Segments(*merged)


def _without_empty(segments: Segments) -> Segments:
    """Leave out the spans without tokens that lie between spans with tokens."""
    filled = segments.num_tokens > 0
    if filled.all():
        return segments
    return Segments(*(part[filled] for part in segments))
