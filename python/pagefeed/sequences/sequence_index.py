"""What the loader counts and shuffles, cut from a dataset by its index alone.

Sequences are numbered in file order and grouped in blocks. Each is a few token ranges.
No seed, no epoch and no data enter here.
"""

from __future__ import annotations

import copy
from dataclasses import MISSING, dataclass, field, fields
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from pagefeed._base import (
    Int64Array,
    UInt32Array,
    check_choice,
    check_flag,
    check_token,
    check_whole,
)
from pagefeed.dataset import BlockKind, Erased, Spans
from pagefeed.errors import InvalidArgumentError
from pagefeed.sequences.blocks import Blocks
from pagefeed.sequences.bundles import Bundles

__all__ = [
    "DocumentParts",
    "Join",
    "Segments",
    "SequenceIndex",
    "SequenceLayout",
    "TokenCut",
    "with_erased",
]

Join: TypeAlias = Literal["dataset", "file"]
"""Whether sequences go on from file to file, or end with each."""
JOINS = ("dataset", "file")


@dataclass(frozen=True, kw_only=True)
class SequenceLayout:
    """How the data plane writes the rows of pages into sequences."""

    bos: int | None = None
    """Token before every row, also an empty or null one."""
    eos: int | None = None
    """Token behind every row, likewise."""
    learn_eos: bool | None = None
    """Whether it is learned where files or templates have labels; None warns of it."""
    packing: str | None = None
    """How bundles are packed: ``"best_fit"``, ``"first_fit"`` or ``"greedy"``."""
    never_split: bool = False
    """Whether only documents longer than a sequence are split."""
    multiple_of: int = 1
    """Places of a packed document are a multiple of it, the last ones padding."""

    @property
    def per_row(self) -> int:
        """Separators of a row."""
        return (self.bos is not None) + (self.eos is not None)


class Segments(NamedTuple):
    """Token ranges of some sequences, in their order, as the data plane takes them.

    Tokens are counted with the separators of their rows.
    """

    sequence: Int64Array
    """Which of the sequences asked for, an index into that array: int64 [segments]."""
    page: Int64Array
    """Page of the dataset's index, or a bundle: int64 [segments]."""
    row: UInt32Array
    """Row of the page; of a packed bundle, the sequence in it: uint32 [segments]."""
    first_token: UInt32Array
    """First token, from the start of that row; later rows follow on: uint32."""
    num_tokens: UInt32Array
    """Number of tokens: uint32 [segments]."""
    offset: UInt32Array
    """Place of the first token in the sequence: uint32 [segments]."""


class DocumentParts(NamedTuple):
    """Parts of documents in a sequence, in its order; int64 [parts] each."""

    page: Int64Array
    """Page of the dataset's index."""
    row: Int64Array
    """Row of the page."""
    first_token: Int64Array
    """First token of the row, its separators counted."""
    num_tokens: Int64Array
    """Number of tokens, likewise."""
    offset: Int64Array
    """Place of the first token in the sequence."""


class SequenceIndex(Protocol):
    """The sequences of a dataset."""

    spans: Spans
    """The rows."""
    erased: Erased | None
    """Rows that are left out of segments, bundles and parts."""
    layout: SequenceLayout
    """How the data plane writes them."""
    length: int
    """Tokens of a sequence, padding included."""
    num_sequences: int
    """Number of sequences."""
    num_dropped_tokens: int = 0
    """Tokens that are in no sequence."""
    num_padding_tokens: int = 0
    """Padding of all sequences together."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""

    @property
    def num_delivered_tokens(self) -> int:
        """Tokens in all sequences together, separators included, padding not."""

    @property
    def file_first_sequence(self) -> Int64Array:
        """Sequences before each file, and in all: int64 [files + 1]."""

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``."""

    def segments(self, sequences: Int64Array) -> Segments:
        """Return the token ranges of ``sequences``."""

    def bundles(self, keys: Int64Array) -> Bundles:  # noqa: ARG002 - there are none
        """Return the bundles of these keys; most sequences need none."""
        return Bundles.none()

    def loaded_bytes(self, pages: Int64Array) -> Int64Array:
        """Return the decoded size of each page or bundle, in the column's own type."""
        return bytes_of_pages(self.spans, pages)

    def parts(self, sequence: int) -> DocumentParts:
        """Return the parts of documents in a sequence; reads its pages."""

    def row_parts(
        self,
        sequence: int,  # noqa: ARG002 - documents are infilled before they are cut
        page: int,  # noqa: ARG002
        row: int,  # noqa: ARG002
    ) -> list[range] | None:
        """Return the tokens of a row, separators not counted, that each sequence holds.

        None where rows are cut by what follows from the index alone.
        """
        return None

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the sequences with tokens of a row of the spans; reads its page."""

    @property
    def erased_runs(self) -> Int64Array:
        """Runs of erased rows, the first and one past the last: int64 [runs, 2]."""
        nothing = np.empty((0, 2), dtype=np.int64)
        return nothing if self.erased is None else self.erased.runs

    def erased_sequences(self) -> Int64Array:
        """Return the sequences with tokens of erased rows, rising: int64."""


def with_erased(index: SequenceIndex) -> SequenceIndex:
    """Return the same sequences as they were before rows were erased."""
    whole = copy.copy(index)
    whole.erased = None
    return whole


@dataclass(frozen=True, repr=False)
class TokenCut:
    """The settings that all ways to cut tokens into sequences have.

    Raises:
        InvalidArgumentError: If one cannot be right.
    """

    length: int
    eos: int | None = field(default=None, kw_only=True)
    bos: int | None = field(default=None, kw_only=True)
    learn_eos: bool | None = field(default=None, kw_only=True)
    join: Literal["dataset", "file"] = field(default="dataset", kw_only=True)

    def __post_init__(self) -> None:
        length = check_whole(self.length, "length", least=1, most=(1 << 31) - 1)
        object.__setattr__(self, "length", length)
        for name in ("bos", "eos"):
            token = check_token(getattr(self, name), name)
            object.__setattr__(self, name, token)
        if self.learn_eos is not None:
            check_flag(self.learn_eos, "learn_eos")
            if self.eos is None:
                raise InvalidArgumentError(
                    "learn_eos is of an eos: give one, eos=tok.eos"
                )
        check_choice(self.join, JOINS, "join")

    def __repr__(self) -> str:
        """Return the settings without those left at their default."""
        # What is not asked for stays out: states of earlier releases name the rest.
        by_kind = sorted(fields(self), key=lambda each: bool(each.kw_only))
        shown = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in by_kind
            if not each.kw_only or getattr(self, each.name) != each.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    def identity(self) -> str:
        """What tells this cut from others, in states and caches.

        Of settings only those that are not at their default: a new one, at its default,
        invalidates no state that was saved before it existed. So defaults never change.
        """
        chosen = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.default is MISSING or getattr(self, each.name) != each.default
        }
        shown = ", ".join(f"{name}={chosen[name]!r}" for name in sorted(chosen))
        return f"{type(self).__name__}({shown})"


def bytes_of_pages(spans: Spans, pages: Int64Array) -> Int64Array:
    """Return the decoded size of pages of the index, of text and the like about: int64.

    Bytes are in the column's own type.
    """
    index, borders = spans.index, np.stack([pages, pages + 1], axis=-1)
    if index.value_bytes == 0:
        return np.diff(index.first_rows(borders))[..., 0] * index.mean_row_bytes
    return np.diff(index.first_values(borders))[..., 0] * index.value_bytes
