"""Batches of documents with a budget of tokens, made before they are shuffled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.caches import (
    CheckedArray,
    document_lengths,
    stored_counts,
    stored_numbers,
)
from pagefeed.contract import Cursor, Sequences, Slot, Step
from pagefeed.core._base import Int64Array, distinct, joined_ranges, lazy
from pagefeed.core.dataset import Spans
from pagefeed.core.sequences import (
    DocumentParts,
    Lines,
    PackedRuns,
    Segments,
    SequenceLayout,
    block_starts,
    pack_lengths,
)
from pagefeed.documents.document_index import DocumentIndex, RowCut
from pagefeed.errors import FileAccessError, InvalidArgumentError

BLOCK_BATCHES, BLOCK_PADDED = 200, 400
"""Least tokens of a block, in batches, if there are as many. The last batch of a block
may be small. In larger blocks, the documents of a batch have more similar lengths."""
MOST_BLOCKS = 128
"""Blocks whose batches are kept in memory, about 100 KB each."""


class BudgetCut(RowCut, Protocol):
    """The cut of rows, and the tokens in a batch."""

    @property
    def batch_tokens(self) -> int:
        """Tokens of a batch at most, padding counted."""

    @property
    def identity(self) -> str:
        """Text that identifies the cut."""


class Batches(NamedTuple):
    """Documents of some batches, one batch after another."""

    document: Int64Array
    """Number of each document: int64 [documents]."""
    first: Int64Array
    """First document of each batch, and the number of documents: int64 [batches + 1].
    """


def batches_of_lengths(
    lengths: npt.ArrayLike, budget: int, *, is_padded: bool
) -> Batches:
    """Return batches of documents; a pure function of their lengths.

    Padded documents are batched by length: each batch takes as many as fit, from the
    longest remaining one downwards. Other documents are packed as :class:`Packed` does.

    Args:
        lengths: Tokens of each document, ``budget`` at most: int [documents].
        budget: Tokens of a batch at most.
        is_padded: Whether each document of a batch counts as long as the longest.

    Example:
        >>> batches_of_lengths([5, 1, 4, 2], 10, is_padded=True)
        Batches(document=array([3, 1, 0, 2]), first=array([0, 2, 4]))
    """
    # One without tokens is in a batch, too.
    counted = np.maximum(np.asarray(lengths, dtype=np.int64), 1)
    if not is_padded:
        layout = SequenceLayout(packing="best_fit", never_split=True)
        packed = pack_lengths(counted, budget, layout)
        begins = np.flatnonzero(np.diff(packed.sequence, prepend=-1))
        return Batches(packed.row, np.append(begins, len(packed.row)))
    less = counted.max(initial=1) - counted
    # Numbers of 16 bits are sorted by counting.
    narrow = less.astype(np.uint16) if less.max(initial=0) < 1 << 16 else less
    document = np.argsort(narrow, kind="stable")
    borders, falling = [0], counted[document].tolist()
    while borders[-1] < len(falling):
        borders.append(borders[-1] + budget // falling[borders[-1]])
    borders[-1] = len(falling)
    # Order the batches by a hash, so that neighbours have unlike lengths. The lengths
    # are the key, so that blocks with equally many batches have different orders.
    mixed = np.arange(len(borders) - 1, dtype=np.uint64)
    _core.mix(mixed, int(counted.sum()), len(counted))
    begin, end = np.array([borders[:-1], borders[1:]], dtype=np.int64)[
        :, np.argsort(mixed)
    ]
    first = np.append(0, np.cumsum(end - begin))
    return Batches(document[joined_ranges(begin, end)], first)


class DocumentBatchIndex(PackedRuns, DocumentIndex):
    """The batches of the documents of a dataset; each batch is one sequence.

    Each batch is made of the documents of one block: a run of pages with the tokens of
    at least 200 batches, or 400 if documents are padded. So the number of batches is
    known, and batch k is found, without reading other blocks.

    Args:
        spans: The rows.
        documents: The budget, and how documents are cut.
    """

    def __init__(self, spans: Spans, documents: BudgetCut) -> None:
        super().__init__(spans, documents)
        self.tokens_differ = False
        if spans.index.is_infilled:
            raise InvalidArgumentError(
                "batch_tokens makes batches by the lengths that documents have in the "
                "files, and infilled ones are longer: give batch_size"
            )
        self.identity = documents.identity
        self.length = documents.batch_tokens
        least = BLOCK_BATCHES if documents.pad is None else BLOCK_PADDED
        least *= self.length
        self.first_span = block_starts(Lines(spans, 0), least, "dataset")
        self._first_row = spans.first_rows(self.first_span)
        self._lengths = document_lengths(spans)
        self._batches = lru_cache(maxsize=MOST_BLOCKS)(self._counted)
        most = np.repeat(np.diff(self._first_row), 2).reshape(-1, 2)
        counts = stored_counts(spans, self.identity, self.first_span, self._count, most)
        self.most_documents = int(counts[:, 1].max(initial=1))
        """Documents of the batch that has most."""
        self._number(counts[:, 0])

    @property
    def num_padding_tokens(self) -> int:  # type: ignore[override]
        """Padding tokens of an epoch, if every batch has the largest size."""
        return self.num_sequences * self.length - self.num_delivered_tokens

    @lazy
    def num_delivered_tokens(self) -> int:
        """Tokens of all documents, cut to ``max_length``."""
        blocks = range(len(self._first_row) - 1)
        return sum(int(self._cut_lengths(block).sum()) for block in blocks)

    def documents_of(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the documents in batches, and the batch of each.

        Returns:
            Numbers of rows of the spans, and indexes into ``sequences``, which rise:
            int64 [documents] each.
        """
        block = self.block_of(sequences)
        local = sequences - self._first_sequence[block]
        nothing = np.empty(0, dtype=np.int64)
        documents, positions = [nothing], [nothing]
        for at_block in distinct(block).tolist():
            here, batches = np.flatnonzero(block == at_block), self._batches(at_block)
            begin, end = batches.first[local[here]], batches.first[local[here] + 1]
            rows = batches.document[joined_ranges(begin, end)]
            documents.append(rows + self._first_row[at_block])
            positions.append(np.repeat(here, end - begin))
        which = np.concatenate(positions)
        in_order = np.argsort(which, kind="stable")
        return np.concatenate(documents)[in_order], which[in_order]

    def batches_of(self, documents: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the batch of each document, and its position there: int64 each."""
        block = np.searchsorted(self._first_row, documents, side="right") - 1
        batch, position = np.empty((2, len(documents)), dtype=np.int64)
        for at_block in distinct(block).tolist():
            here, batches = block == at_block, self._batches(at_block)
            at = np.empty(len(batches.document), dtype=np.int64)
            at[batches.document] = np.arange(len(at))
            at = at[documents[here] - self._first_row[at_block]]
            local = np.searchsorted(batches.first, at, side="right") - 1
            batch[here] = local + self._first_sequence[at_block]
            position[here] = at - batches.first[local]
        return batch, position

    def segments(self, sequences: Int64Array) -> Segments:
        """Return a segment for each document.

        Its length is known once its page is read.
        """
        documents, which = self.documents_of(sequences)
        return super().segments(documents)._replace(sequence=which)

    def parts(self, sequence: int) -> DocumentParts:
        """Return the documents of a batch, cut, without those that were erased."""
        documents, _ = self.documents_of(np.array([sequence]))
        documents = documents[super().are_left(documents)]
        page, row = self.places(documents)
        most = self.documents.max_length or 0
        tokens = np.minimum(self._lengths[documents].astype(np.int64), most)
        zeros = np.zeros_like(tokens)
        return DocumentParts(page, row, zeros, tokens, zeros)

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the batch of a row of the spans."""
        return self.batches_of(np.array([row]))[0]

    @property
    def num_planned(self) -> int:
        """Number of items in the plans of an epoch: one for each document."""
        return self.spans.num_rows

    def place_in_sequence(self, row: int) -> int | None:
        """Return the row of a batch that holds a row of the spans."""
        return int(self.batches_of(np.array([row]))[1][0])

    def documents_left(self, sequence: int) -> npt.NDArray[np.bool_]:
        """Return which documents of a batch are not erased: bool, in its order."""
        return super().are_left(self.documents_of(np.array([sequence]))[0])

    def sequences_with_rows(self, begin: int, end: int) -> range | Int64Array:
        """Return the batches with rows of the files, rising."""
        documents = np.array(super().sequences_with_rows(begin, end), dtype=np.int64)
        return np.unique(self.batches_of(documents)[0])

    def are_left(self, sequences: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which batches have no erased document: bool."""
        documents, which = self.documents_of(sequences)
        gone = np.bincount(which, ~super().are_left(documents), len(sequences))
        return gone == 0

    def erased_sequences(self) -> Int64Array:
        """Return the batches with erased documents, rising."""
        return np.unique(self.batches_of(super().erased_sequences())[0])

    def stored_squares(self) -> CheckedArray:
        """Map sums of squared document lengths. Compute them if they are not stored."""
        borders = np.ascontiguousarray(self.first_span).tobytes()
        num_blocks = len(self.first_span) - 1
        size = self.num_sequences
        return stored_numbers(
            self.spans, self.squares, num_blocks, size, self.identity, borders
        )

    def squares(self, block: int) -> npt.NDArray[np.float64]:
        """Return the sum of squared lengths of each batch of a block."""
        batches = self._batches(block)
        squares = np.square(self._cut_lengths(block)[batches.document].astype("f8"))
        return np.add.reduceat(squares, batches.first[:-1])

    def _cut_lengths(self, block: int) -> Int64Array:
        rows = slice(*self._first_row[block : block + 2].tolist())
        most = self.documents.max_length or 0
        return np.minimum(self._lengths[rows].astype(np.int64), most)

    def _make(self, block: int) -> Batches:
        lengths, pad = self._cut_lengths(block), self.documents.pad
        if pad == "max_length":
            lengths = np.full_like(lengths, self.documents.max_length)
        return batches_of_lengths(lengths, self.length, is_padded=pad is not None)

    def _counted(self, block: int) -> Batches:
        """Return the batches of a block, which must be as many as were counted."""
        batches, before = self._make(block), self._first_sequence
        count, found = int(before[block + 1] - before[block]), len(batches.first) - 1
        if count != found:
            raise FileAccessError(
                f"the cache folder {self.spans.index.cache_dir} is damaged: it has "
                f"{count} batches of rows that make {found}; remove packed-* there"
            )
        return batches

    def _count(self, block: int) -> tuple[int, int]:
        """Batches of a block, and documents of the one that has most."""
        first = self._make(block).first
        return len(first) - 1, int(np.diff(first).max(initial=0))


def num_documents(cursor: Cursor, sequences: Iterable[int]) -> int:
    """Return the documents of sequences, of which padding has none."""
    real = (own for own in sequences if own >= 0)
    return sum(len(cursor.run.documents_of(sequence)) for sequence in real)


def document_in(cursor: Cursor, step: Step, row: int) -> tuple[Sequences, int]:
    """Return the sequence of a row of this rank's batch, and the row in it.

    Raises:
        InvalidArgumentError: If there is no such step or row.
    """
    before, own = 0, cursor.sequences_in(step)
    for at, sequence in enumerate(own.numbers.tolist()):
        count = num_documents(cursor, [sequence])
        if before <= row < before + count:
            return own[at : at + 1], row - before
        before += count
    if not before:
        raise InvalidArgumentError(f"step={step}, row={row} is padding")
    raise InvalidArgumentError(f"row={row} must lie below {before}")


def slots_in_batches(cursor: Cursor, slots: Iterable[Slot], offset: int) -> list[Slot]:
    """Return the slots of a document, from the slots of the batches that have it.

    Args:
        cursor: Cursor that finds the sequences of steps.
        slots: Slots of the batches within their step and rank.
        offset: Index of the document in each batch.
    """
    return [s._replace(row=_rows_before(cursor, s) + offset) for s in slots]


def _rows_before(cursor: Cursor, slot: Slot) -> int:
    """Return the rows of a rank's batch before those of one of its sequences."""
    if slot.row == 0:
        return 0
    route = replace(cursor.route, rank=slot.rank)
    sequences = cursor.sequences_of(route, route.index_of(Step(slot.step)))
    return num_documents(cursor, sequences.numbers[: slot.row].tolist())
