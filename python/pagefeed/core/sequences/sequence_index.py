"""The interface of sequences, which follow from the page index, and of their blocks.

Sequences are numbered in file order and grouped in blocks. Each is a few token ranges.
They do not depend on seed or epoch.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pagefeed import _core
from pagefeed.core._base import Int64Array, StoredNumbers, UInt32Array, looked_up
from pagefeed.core.dataset import BlockKind, Spans
from pagefeed.core.sequences.bundles import Bundles, are_bundles
from pagefeed.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pagefeed.erasure.erased import ErasedRows


class Blocks(Protocol):
    """Sequences 0 to num_sequences - 1 in file order, cut into consecutive blocks.

    A block may have no sequence (a page in which none starts).
    """

    @property
    def num_sequences(self) -> int:
        """Sequences of all blocks together."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """Return the first sequence of each block: int64.

        Args:
            blocks: int64, values in 0 to ``len(self)`` inclusive.
        """

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the block of each sequence, int64.

        Args:
            sequences: int64, values in [0, num_sequences).
        """


class ExplicitBlocks:
    """Blocks given by their first sequences.

    Args:
        first_sequence: int64 [blocks + 1], from 0, never falling; the last is the
            number of sequences. It is kept as it is and may be mapped from disk.

    Example:
        >>> blocks = ExplicitBlocks([0, 3, 3, 8])
        >>> blocks.block_of(np.array([2, 3])).tolist()
        [0, 2]
    """

    def __init__(self, first_sequence: ArrayLike) -> None:
        array = np.ascontiguousarray(first_sequence, dtype=np.int64)
        self._first_sequence = array
        self.num_sequences = int(array[-1])

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._first_sequence) - 1

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """First sequence of each block, int64."""
        return self._first_sequence[blocks]

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Return the block of each sequence: int64."""
        return looked_up(partial(_core.find_ranges, self._first_sequence), sequences)


@dataclass(frozen=True, kw_only=True)
class SequenceLayout:
    """Layout by which the data plane writes rows of pages into sequences."""

    bos: int | None = None
    """Token before every row, also an empty or null one."""
    eos: int | None = None
    """Token after every row; None for none."""
    learn_eos: bool | None = None
    """Whether ``eos`` is learned if files or templates have labels; None is not
    decided, and warns."""
    packing: str | None = None
    """Packing of bundles: ``"best_fit"``, ``"first_fit"`` or ``"greedy"``."""
    never_split: bool = False
    """Whether only documents longer than a sequence are split."""
    multiple_of: int = 1
    """A packed document takes a multiple of this many tokens, filled up with padding.
    """
    bos_every: int = 0
    """Positions of a row, separators included, from one ``bos`` to the next; 0 if a row
    has only one."""

    @property
    def per_row(self) -> int:
        """Separators of a row that is not split."""
        return (self.bos is not None) + (self.eos is not None)

    @property
    def packing_rule(self) -> dict[str, Any] | None:
        """The packing rule, in the form of the data plane."""
        if self.packing is None:
            return None
        return {
            "method": self.packing,
            "never_split": self.never_split,
            "multiple_of": self.multiple_of,
            "repeats_bos": self.bos_every > 0,
        }

    def without_bos(self, offset: Any) -> Any:
        """Return positions in a row without the ``bos`` before them.

        Args:
            offset: int or int64 array.

        Example:
            >>> SequenceLayout(bos=1, bos_every=4).without_bos(np.arange(9)).tolist()
            [0, 0, 1, 2, 3, 3, 4, 5, 6]
        """
        if self.bos is None:
            return offset
        if self.bos_every:
            return offset + -offset // self.bos_every
        return offset - (offset > 0) * 1


class Segments(NamedTuple):
    """Token ranges of some sequences, in their order, as the data plane takes them.

    Tokens are counted with the separators of their rows.
    """

    sequence: Int64Array
    """Position of the sequence among those asked for: int64 [segments]."""
    page: Int64Array
    """Page of the dataset's index, or a bundle: int64 [segments]."""
    row: UInt32Array
    """Row of the page; of a packed bundle, the sequence in it: uint32 [segments]."""
    first_token: UInt32Array
    """First token, from the start of that row; later rows follow on: uint32."""
    num_tokens: UInt32Array
    """Number of tokens; 1 of a whole row of a column: uint32 [segments]."""
    offset: UInt32Array
    """Place of the first token in the sequence: uint32 [segments]."""


class DocumentParts(NamedTuple):
    """Documents in a sequence, whole or in part, in order; int64 [parts] each."""

    page: Int64Array
    """Page of the dataset's index."""
    row: Int64Array
    """Row of the page."""
    first_token: Int64Array
    """First token of the row, its separators counted."""
    num_tokens: Int64Array
    """Number of tokens of each part."""
    offset: Int64Array
    """Place of the first token in the sequence."""


class SequenceIndex(Protocol):
    """The sequences of a dataset."""

    spans: Spans
    """The rows."""
    erased: ErasedRows | None
    """Erased rows, which are left out of segments, bundles and parts."""
    layout: SequenceLayout
    """Layout by which the data plane writes rows into sequences."""
    length: int
    """Tokens of a sequence, padding included."""
    num_sequences: int
    """Number of sequences."""
    num_dropped_tokens: int = 0
    """Tokens that are in no sequence."""
    num_padding_tokens: int = 0
    """Padding of all sequences together."""
    columns: tuple[str, ...] = ()
    """Columns that sequences carry with their tokens."""
    has_tokens: bool = True
    """Whether the column has tokens that can be counted."""
    reads_lengths: bool = False
    """Whether counting the tokens that are delivered takes reading all rows."""
    tokens_differ: bool = False
    """Whether sequences differ in their number of tokens, padding included."""
    keeps_empty: bool = False
    """Whether a document without tokens is in a sequence."""

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""

    @property
    def num_planned(self) -> int:
        """Number of items in the plans of an epoch."""
        return self.num_sequences

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
        """Return the decoded size of each page or bundle, in the type of the column."""
        return bytes_of_pages(self.spans, pages)

    def stored_squares(self) -> StoredNumbers | None:
        """Map sums of squared document lengths. Compute them if they are not stored.

        If :attr:`tokens_differ`, it maps the tokens of each sequence instead, from
        which the sums follow.

        Returns:
            float32 [sequences]; None if the rows have no tokens, or their lengths are
            unknown.
        """
        return None

    def documents_of(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the rows that have tokens in sequences, and the sequence of each row.

        Raises:
            InvalidArgumentError: If sequences cut rows by the index alone.
        """
        del sequences
        raise InvalidArgumentError(
            f"{type(self).__name__} cuts rows anywhere: its sequences have no documents"
        )

    @property
    def documents_key(self) -> tuple[str, bytes] | None:
        """Identity of the cut, and where blocks begin, if rows are not cut anywhere.

        Numbers of the documents of sequences are kept under it.
        """
        return None

    def parts(self, sequence: int) -> DocumentParts:
        """Return the documents in a sequence, whole or in part; reads its pages."""

    def row_parts(self, sequence: int, page: int, row: int) -> list[range] | None:  # noqa: ARG002
        """Return the tokens of a row that each sequence holds, without separators.

        None if the index alone decides where rows are cut.
        """
        return None

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the sequences with tokens of a row of the spans; reads its page."""

    def place_in_sequence(self, row: int) -> int | None:  # noqa: ARG002
        """Return the row of a batch that holds a row of the spans."""
        return None

    def documents_left(self, sequence: int) -> npt.NDArray[np.bool_]:  # noqa: ARG002
        """Return which documents of a sequence, if it is a batch, are not erased."""
        return np.ones(1, dtype=bool)

    def sequences_with_rows(self, begin: int, end: int) -> range | Int64Array:
        """Return the sequences with tokens of rows of the files, in ascending order.

        Args:
            begin: First row, counted over the index.
            end: One past the last row.
        """
        whole, every = with_erased(self), range(self.num_sequences)
        first = bisect_left(every, begin, key=lambda s: whole.row_range(s)[1])
        stop = bisect_left(every, end, key=lambda s: whole.row_range(s)[0])
        return range(first, stop)

    def row_range(self, sequence: int) -> tuple[int, int]:
        """Return the first and last row of a sequence, as numbered in the index.

        The last row is the last one of the sequence's last page, as the index does not
        know where the sequence ends.
        """
        segments = self.segments(np.array([sequence]))
        pages, rows = segments.page, segments.row
        if are_bundles(pages).any():
            bundle = self.bundles(pages)
            pages, rows = bundle.slice_page, bundle.slice_row
        first_rows = self.spans.index.first_rows
        first = int(first_rows(pages[:1])[0] + rows[0])
        return first, int(first_rows(pages[-1:] + 1)[0]) - 1

    @property
    def erased_runs(self) -> Int64Array:
        """Runs of erased rows, the first and one past the last: int64 [runs, 2]."""
        nothing = np.empty((0, 2), dtype=np.int64)
        return nothing if self.erased is None else self.erased.runs

    def erased_sequences(self) -> Int64Array:
        """Return the sequences with tokens of erased rows, rising: int64."""


def with_erased(index: SequenceIndex) -> SequenceIndex:
    """Return the sequences as they were before rows were erased."""
    whole = copy.copy(index)
    whole.erased = None
    return whole


def bytes_of_pages(spans: Spans, pages: Int64Array) -> Int64Array:
    """Return the decoded size of pages in bytes: int64; an estimate for texts.

    Values count in the type of the column.
    """
    index, borders = spans.index, np.stack([pages, pages + 1], axis=-1)
    if index.value_bytes == 0:
        return np.diff(index.first_rows(borders))[..., 0] * index.mean_row_bytes
    return np.diff(index.first_values(borders))[..., 0] * index.value_bytes


class SpanIndex(SequenceIndex, Protocol):
    """Sequences whose blocks are the sequences that start in one run of spans."""

    def first_of_spans(self, spans: Int64Array) -> Int64Array:
        """Return the number of sequences before each span; ``len(spans)`` gives all."""

    def spans_of(self, sequences: Int64Array) -> Int64Array:
        """Return the span in which each sequence starts: int64."""

    @property
    def file_first_sequence(self) -> Int64Array:
        """Sequences that start before each file, and in all: int64 [files + 1]."""
        return self.first_of_spans(self.spans.file_first_span)

    def blocks(self, kind: BlockKind) -> Blocks:
        """Return the blocks of ``kind``."""
        return _RunBlocks(self, self.spans.runs(kind))


class _RunBlocks:
    """The sequences that start in one run of spans; None if every span is a run."""

    def __init__(self, index: SpanIndex, runs: Int64Array | None) -> None:
        self._index, self._runs = index, runs
        self.num_sequences = index.num_sequences

    def __len__(self) -> int:
        return len(self._index.spans if self._runs is None else self._runs)

    def first_sequence(self, blocks: Int64Array) -> Int64Array:
        """First sequence of each block, int64."""
        if self._runs is None:
            return self._index.first_of_spans(blocks)
        spans = np.append(self._runs, len(self._index.spans))[blocks]
        return self._index.first_of_spans(spans)

    def block_of(self, sequences: Int64Array) -> Int64Array:
        """Block of each sequence, int64."""
        spans = self._index.spans_of(sequences)
        if self._runs is None:
            return spans
        return np.searchsorted(self._runs, spans, side="right") - 1
