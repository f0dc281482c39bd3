"""Units: what the loader counts and shuffles, cut from a dataset by its index alone.

A sequence setting such as :class:`Windows` is bound to a dataset's index and becomes
:class:`Units`: numbered in file order, grouped in blocks, each a few token ranges. No
seed, no epoch and no data enter here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from pagefeed.arrays import Int64Array
from pagefeed.blocks import Blocks, RunBlocks
from pagefeed.errors import InvalidArgumentError
from pagefeed.index import BlockKind
from pagefeed.lines import Lines
from pagefeed.spans import Spans

__all__ = [
    "Cut",
    "Layout",
    "Parts",
    "Segments",
    "Sequences",
    "Units",
    "WindowUnits",
    "Windows",
]

FIRST_BUNDLE = 1 << 62
"""Pages of segments from here on stand for bundles of pages, see :class:`Bundles`."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the data plane writes the rows of pages into units."""

    bos: int | None = None
    """Token before every row, also an empty or null one."""
    eos: int | None = None
    """Token behind every row, likewise."""
    packing: str | None = None
    """How bundles are packed: ``"best_fit"``, ``"first_fit"`` or ``"greedy"``."""
    never_split: bool = False
    """Whether only documents longer than a unit are split."""

    def __post_init__(self) -> None:
        for name, token in (("bos", self.bos), ("eos", self.eos)):
            if token is not None and (not isinstance(token, int) or token < 0):
                raise InvalidArgumentError(
                    f"{name}={token!r} must be the number of a token, or None"
                )

    @property
    def per_row(self) -> int:
        """Separators of a row."""
        return (self.bos is not None) + (self.eos is not None)


class Segments(NamedTuple):
    """Token ranges of some units, in the order of the units; int64 [segments] each.

    Tokens are counted with the separators of their rows.
    """

    unit: Int64Array
    """Which of the units asked for: an index into that array."""
    page: Int64Array
    """Page of the dataset's index, or a bundle."""
    row: Int64Array
    """Row of the page; of a packed bundle, the unit within it."""
    first_token: Int64Array
    """First token, counted from the start of that row; later rows follow on."""
    num_tokens: Int64Array
    """Number of tokens."""
    offset: Int64Array
    """Place of the first token in the unit."""


class Bundles(NamedTuple):
    """Rows of several pages each, which are loaded and packed as one; int64 each."""

    key: Int64Array
    """What stands for it in ``Segments.page``: [bundles]."""
    num_units: Int64Array
    """Units its rows pack into: [bundles]."""
    part_offsets: Int64Array
    """Its first part, and the number of parts: [bundles + 1]."""
    part_page: Int64Array
    """Page of each part: [parts]."""
    part_row: Int64Array
    """First row of that page: [parts]."""
    part_rows: Int64Array
    """Number of rows: [parts]."""


class Parts(NamedTuple):
    """Parts of documents in a unit, in its order; int64 [parts] each."""

    page: Int64Array
    """Page of the dataset's index."""
    row: Int64Array
    """Row of the page."""
    first_token: Int64Array
    """First token of the row, its separators counted."""
    num_tokens: Int64Array
    """Number of tokens, likewise."""
    offset: Int64Array
    """Place of the first token in the unit."""


class Cut(Protocol):
    """Units of one dataset or of several, as a planner needs them."""

    @property
    def num_units(self) -> int:
        """Number of units."""

    @property
    def length(self) -> int:
        """Tokens of a unit, padding included."""

    @property
    def layout(self) -> Layout:
        """How the data plane writes them."""

    @property
    def num_dropped_tokens(self) -> int:
        """Tokens that are in no unit."""

    @property
    def num_padding_tokens(self) -> int:
        """Padding of all units together."""

    def bundles(self, keys: Int64Array) -> Bundles:
        """Return the bundles of these keys."""

    def segments(self, units: Int64Array) -> Segments:
        """Return the token ranges of ``units``."""


class Units(Cut, Protocol):
    """A dataset, cut."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""

    @property
    def num_own_tokens(self) -> int:
        """Tokens of all rows without separators."""

    @property
    def file_first_unit(self) -> Int64Array:
        """Units before each file, and in all: int64 [files + 1]."""

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``."""

    def loaded_values(self, pages: Int64Array) -> Int64Array:
        """Return the values that are decoded to have each page or bundle."""

    def parts(self, unit: int) -> Parts:
        """Return the parts of documents in a unit; reads its pages."""

    def units_of_row(self, row: int) -> Int64Array:
        """Return the units with tokens of a row of the spans; reads its page."""


class Sequences(Protocol):
    """How to cut a dataset into units."""

    def bind(self, spans: Spans) -> Units:
        """Cut the rows of ``spans``."""


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
        check_length(self.length)
        if self.tail not in ("pad", "drop"):
            raise InvalidArgumentError(f"tail={self.tail!r} must be 'pad' or 'drop'")
        if not isinstance(self.overlap, int) or not 0 <= self.overlap < self.length:
            raise InvalidArgumentError(
                f"overlap={self.overlap!r} must be a whole number of tokens, less than "
                f"length={self.length}"
            )
        Layout(bos=self.bos, eos=self.eos)

    def __repr__(self) -> str:
        # What is not asked for stays out: states of earlier releases name the rest.
        return short_repr(self, always=("length", "tail"))

    def bind(self, spans: Spans) -> WindowUnits:
        """Cut the rows of ``spans``."""
        return WindowUnits(spans, self)


def check_length(length: object) -> None:
    """Refuse what is no length of a sequence.

    Raises:
        InvalidArgumentError: Then.
    """
    if not isinstance(length, int) or not 1 <= length < 1 << 31:
        raise InvalidArgumentError(
            f"length={length!r} must be a whole number of tokens, at least 1"
        )


def short_repr(settings: Any, *, always: tuple[str, ...]) -> str:  # noqa: ANN401
    """Return the repr of a dataclass without the fields left at their default."""
    shown = [
        f"{each.name}={getattr(settings, each.name)!r}"
        for each in fields(settings)
        if each.name in always or getattr(settings, each.name) != each.default
    ]
    return f"{type(settings).__name__}({', '.join(shown)})"


class WindowUnits:
    """The windows of a dataset. Window i of a file is its tokens [i*S, i*S + L).

    S, the stride, is the length L but for the overlap.
    """

    def __init__(self, spans: Spans, windows: Windows) -> None:
        self.spans = spans
        self.windows = windows
        self.layout = Layout(bos=windows.bos, eos=windows.eos)
        self.lines = Lines(spans, self.layout.per_row)
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

    @property
    def num_units(self) -> int:
        """Number of windows."""
        return int(self.file_first_unit[-1])

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""
        return self.lines.num_tokens

    @property
    def num_own_tokens(self) -> int:
        """Tokens of all rows without separators."""
        return self.spans.num_values

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
        tokens = self.lines.first(spans) - self.lines.file_first[file]
        first = self.file_first_unit[file] - (-tokens // self.stride)
        limited: Int64Array = np.minimum(first, self.file_first_unit[file + 1])
        return limited

    def _span_of(self, units: Int64Array) -> Int64Array:
        """Return the span in which each window starts."""
        return self.lines.spans_of(self.token_ranges(units)[0])

    def token_ranges(self, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return where each window begins and ends among all tokens: int64 each."""
        first_token = self.lines.file_first
        file = np.searchsorted(self.file_first_unit, units, side="right") - 1
        number = units - self.file_first_unit[file]
        start = first_token[file] + number * self.stride
        return start, np.minimum(start + self.length, first_token[file + 1])

    def units_of_row(self, row: int) -> Int64Array:
        """Return the windows with tokens of a row of the spans; reads its page."""
        first, last = row_range(self.lines, row)
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

    def loaded_values(self, pages: Int64Array) -> Int64Array:
        """Return the values of each page."""
        return values_of_pages(self.spans, pages)

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
        start, end = self.token_ranges(units)
        first_span = self.lines.spans_of(start)
        span_start = self.lines.first(first_span)
        if np.all(end <= self.lines.first(first_span + 1)):
            page, row = self.spans.places(first_span)
            return Segments(
                unit=np.arange(len(units)),
                page=page,
                row=row,
                first_token=start - span_start,
                num_tokens=end - start,
                offset=np.zeros(len(units), dtype=np.int64),
            )
        last_span = self.lines.spans_of(end - 1)
        num_spans = last_span - first_span + 1
        unit = np.repeat(np.arange(len(units)), num_spans)
        before = np.cumsum(num_spans) - num_spans
        span = first_span[unit] + np.arange(len(unit)) - before[unit]
        span_start = self.lines.first(span)
        span_end = self.lines.first(span + 1)
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


def values_of_pages(spans: Spans, pages: Int64Array) -> Int64Array:
    """Return the values of each of ``pages`` of the index: int64."""
    first = spans.index.first_values(np.stack([pages, pages + 1], axis=-1))
    return first[..., 1] - first[..., 0]


def row_range(lines: Lines, row: int) -> tuple[int, int]:
    """Return where a row of the spans begins and ends in the line; reads its page."""
    span = lines.spans.spans_of_rows([row])
    page, page_row = (int(part[0]) for part in lines.spans.places(span))
    place = row - int(lines.spans.first_rows(span)[0])
    offsets = lines.spans.index.row_offsets(page)[page_row:]
    starts = offsets - offsets[0] + lines.per_row * np.arange(len(offsets))
    begin = int(lines.first(span)[0])
    return begin + int(starts[place]), begin + int(starts[place + 1])


def _without_empty(segments: Segments) -> Segments:
    """Leave out the spans without tokens that lie between spans with tokens."""
    filled = segments.num_tokens > 0
    if filled.all():
        return segments
    return Segments(*(part[filled] for part in segments))
