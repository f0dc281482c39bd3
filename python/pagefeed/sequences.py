"""Units: what the loader counts and shuffles, cut from a dataset by its index alone.

A sequence setting such as :class:`Windows` is bound to a dataset's index and becomes
:class:`Units`: numbered in file order, grouped in blocks, each a few token ranges. No
seed, no epoch and no data enter here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from pagefeed.arrays import Int64Array
from pagefeed.blocks import Blocks
from pagefeed.errors import InvalidArgumentError
from pagefeed.index import BlockKind
from pagefeed.spans import Spans

__all__ = ["Segments", "Sequences", "Units", "WindowUnits", "Windows"]


class Segments(NamedTuple):
    """Token ranges of some units, in the order of the units; int64 [segments] each."""

    unit: Int64Array
    """Which of the units asked for: an index into that array."""
    page: Int64Array
    """Page of the dataset's index."""
    row: Int64Array
    """Row of the page."""
    first_token: Int64Array
    """First token, counted from the start of that row; later rows follow on."""
    num_tokens: Int64Array
    """Number of tokens."""
    offset: Int64Array
    """Place of the first token in the unit."""


class Units(Protocol):
    """A dataset, cut."""

    @property
    def num_units(self) -> int:
        """Number of units."""

    @property
    def length(self) -> int:
        """Tokens of a unit, padding included."""

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens that are in no unit."""

    @property
    def file_first_unit(self) -> Int64Array:
        """Units before each file, and in all: int64 [files + 1]."""

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``."""

    def segments(self, units: Int64Array) -> Segments:
        """Return the token ranges of ``units``."""

    def units_of_tokens(self, first: int, last: int) -> Int64Array:
        """Return the units that hold tokens ``first .. last`` of one row.

        Tokens are numbered through the dataset; ``last`` is one past the last.
        """


class Sequences(Protocol):
    """How to cut a dataset into units."""

    def bind(self, spans: Spans) -> Units:
        """Cut the rows of ``spans``."""


@dataclass(frozen=True)
class Windows:
    """Each file's tokens joined end to end and cut every ``length`` tokens.

    Args:
        length: Tokens of a window.
        tail: What becomes of the last, shorter piece of a file: ``"pad"`` fills it up
            with the loader's padding token, ``"drop"`` leaves it out.

    Example:
        >>> Windows(2048)
        Windows(length=2048, tail='pad')
    """

    length: int
    tail: Literal["pad", "drop"] = "pad"

    def __post_init__(self) -> None:
        if not isinstance(self.length, int) or self.length < 1:
            raise InvalidArgumentError(
                f"length={self.length!r} must be a whole number of tokens, at least 1"
            )
        if self.tail not in ("pad", "drop"):
            raise InvalidArgumentError(f"tail={self.tail!r} must be 'pad' or 'drop'")

    def bind(self, spans: Spans) -> WindowUnits:
        """Cut the rows of ``spans``."""
        return WindowUnits(spans, self)


class WindowUnits:
    """The windows of a dataset. Window i of a file is its tokens [i*L, (i+1)*L)."""

    def __init__(self, spans: Spans, windows: Windows) -> None:
        self.spans = spans
        self.windows = windows
        file_tokens = np.diff(spans.file_first_value)
        whole = file_tokens // windows.length
        rest = file_tokens % windows.length
        if windows.tail == "pad":
            units, dropped = whole + (rest > 0), 0
        else:
            units, dropped = whole, int(rest.sum())
        self.num_dropped_tokens = dropped
        self.file_first_unit = np.concatenate([[0], np.cumsum(units)])

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
        return _RunBlocks(self, self.spans.runs(kind))

    def token_ranges(self, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where each window begins and ends among all tokens: int64 each."""
        first_token = self.spans.file_first_value
        file = np.searchsorted(self.file_first_unit, units, side="right") - 1
        number = units - self.file_first_unit[file]
        start = first_token[file] + number * self.length
        return start, np.minimum(start + self.length, first_token[file + 1])

    def units_of_tokens(self, first: int, last: int) -> Int64Array:
        """Return the windows that hold tokens ``first .. last`` of one row."""
        if first >= last:
            return np.empty(0, dtype=np.int64)
        starts = self.spans.file_first_value
        file = int(np.searchsorted(starts, first, side="right")) - 1
        begin, end = self.file_first_unit[file], self.file_first_unit[file + 1]
        number = (np.array([first, last - 1]) - starts[file]) // self.length
        return np.arange(begin + number[0], min(begin + number[1] + 1, end))

    def segments(self, units: Int64Array) -> Segments:
        """Return the token ranges of ``units``: one for each span a window touches."""
        start, end = self.token_ranges(units)
        first_span = self.spans.spans_of_values(start)
        span_start = self.spans.first_values(first_span)
        if np.all(end <= self.spans.first_values(first_span + 1)):
            page, row = self.spans.places(first_span)
            return Segments(
                unit=np.arange(len(units)),
                page=page,
                row=row,
                first_token=start - span_start,
                num_tokens=end - start,
                offset=np.zeros(len(units), dtype=np.int64),
            )
        last_span = self.spans.spans_of_values(end - 1)
        num_spans = last_span - first_span + 1
        unit = np.repeat(np.arange(len(units)), num_spans)
        before = np.cumsum(num_spans) - num_spans
        span = first_span[unit] + np.arange(len(unit)) - before[unit]
        span_start = self.spans.first_values(span)
        span_end = self.spans.first_values(span + 1)
        segment_start = np.maximum(start[unit], span_start)
        segment_end = np.minimum(end[unit], span_end)
        page, row = self.spans.places(span)
        segments = Segments(
            unit=unit,
            page=page,
            row=row,
            first_token=segment_start - span_start,
            num_tokens=segment_end - segment_start,
            offset=segment_start - start[unit],
        )
        return _without_empty(segments)


def _without_empty(segments: Segments) -> Segments:
    """Leave out the spans without tokens that lie between spans with tokens."""
    filled = segments.num_tokens > 0
    if filled.all():
        return segments
    return Segments(*(part[filled] for part in segments))


class _RunBlocks:
    """The windows that start in one run of spans; a span each if ``runs`` is None."""

    uniform = None

    def __init__(self, units: WindowUnits, runs: Int64Array | None) -> None:
        self.num_units = units.num_units
        self._units = units
        self._runs = runs

    def __len__(self) -> int:
        return len(self._units.spans) if self._runs is None else len(self._runs)

    def first_unit(self, blocks: Int64Array) -> Int64Array:
        """Return the windows that start before each block."""
        units, whole = self._units, self._units.spans
        spans = self._first_spans(blocks)
        # The end of the last span belongs to the last file that has spans.
        file = np.searchsorted(whole.file_first_span, spans, side="right") - 1
        file = np.minimum(file, len(whole.file_first_span) - 2)
        tokens = whole.first_values(spans) - whole.file_first_value[file]
        number = -(-tokens // units.length)
        first = units.file_first_unit[file] + number
        limited: Int64Array = np.minimum(first, units.file_first_unit[file + 1])
        return limited

    def block_of(self, units: Int64Array) -> Int64Array:
        """Return the block in which each window starts."""
        start, _ = self._units.token_ranges(units)
        spans = self._units.spans.spans_of_values(start)
        if self._runs is None:
            return spans
        return np.searchsorted(self._runs, spans, side="right") - 1

    def _first_spans(self, blocks: Int64Array) -> Int64Array:
        if self._runs is None:
            return blocks
        inside = np.minimum(blocks, len(self) - 1)
        end = len(self._units.spans)
        return np.where(blocks < len(self), self._runs[inside], end)
