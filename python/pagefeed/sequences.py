"""Units: what the loader counts and shuffles, cut from a dataset by its index alone.

A sequence setting such as :class:`Windows` is bound to a dataset's index and becomes
:class:`Units`: numbered in file order, grouped in blocks, each a few token ranges. No
seed, no epoch and no data enter here.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, Protocol

import numpy as np

from pagefeed.arguments import check_token, check_whole
from pagefeed.arrays import Int64Array
from pagefeed.blocks import Blocks
from pagefeed.errors import InvalidArgumentError
from pagefeed.index import BlockKind
from pagefeed.spans import Spans

__all__ = [
    "Cut",
    "Layout",
    "Parts",
    "Segments",
    "Sequences",
    "Units",
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
            object.__setattr__(self, name, check_token(token, name))

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

    def loaded_bytes(self, pages: Int64Array) -> Int64Array:
        """Return the decoded size of each page or bundle, in the column's own type."""


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

    def parts(self, unit: int) -> Parts:
        """Return the parts of documents in a unit; reads its pages."""

    def units_of_row(self, row: int) -> Int64Array:
        """Return the units with tokens of a row of the spans; reads its page."""


class Sequences(Protocol):
    """How to cut a dataset into units."""

    @property
    def identity(self) -> str:
        """What tells this cut from others, in states and caches."""

    def bind(self, spans: Spans) -> Units:
        """Cut the rows of ``spans``."""


def check_length(length: object) -> int:
    """Return a length of a sequence.

    Raises:
        InvalidArgumentError: If it is none.
    """
    return check_whole(length, "length", least=1, most=(1 << 31) - 1)


def check_sequences(sequences: object) -> None:
    """Refuse what does not cut a dataset.

    Raises:
        InvalidArgumentError: Saying what does.
    """
    if hasattr(sequences, "bind") and not isinstance(sequences, type):
        return
    is_number = isinstance(sequences, int) and not isinstance(sequences, bool)
    length = sequences if is_number else 2048
    raise InvalidArgumentError(
        f"sequences={sequences!r} must say how to cut: Windows({length}), "
        f"Packed({length}) or Documents()"
    )


def identity_of(settings: Any) -> str:  # noqa: ANN401 - a dataclass
    """Return what tells how a dataclass of settings cuts or orders from others.

    Of settings only those that are not at their default: a new one, at its default,
    invalidates no state that was saved before it existed. So defaults never change.
    """
    chosen = {
        each.name: getattr(settings, each.name)
        for each in fields(settings)
        if each.default is MISSING or getattr(settings, each.name) != each.default
    }
    shown = ", ".join(f"{name}={chosen[name]!r}" for name in sorted(chosen))
    return f"{type(settings).__name__}({shown})"


def short_repr(settings: Any, *, always: tuple[str, ...]) -> str:  # noqa: ANN401
    """Return the repr of a dataclass without the fields left at their default."""
    shown = [
        f"{each.name}={getattr(settings, each.name)!r}"
        for each in fields(settings)
        if each.name in always or getattr(settings, each.name) != each.default
    ]
    return f"{type(settings).__name__}({', '.join(shown)})"


def bytes_of_pages(spans: Spans, pages: Int64Array) -> Int64Array:
    """Return the decoded size of pages of the index, of text and the like about: int64.

    Bytes are in the column's own type.
    """
    index, borders = spans.index, np.stack([pages, pages + 1], axis=-1)
    if index.value_bytes == 0:
        return np.diff(index.first_rows(borders))[..., 0] * index.mean_row_bytes
    return np.diff(index.first_values(borders))[..., 0] * index.value_bytes
