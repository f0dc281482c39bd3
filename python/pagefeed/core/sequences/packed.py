"""Packed: whole documents packed into sequences, a fixed number for every block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from pagefeed import _core
from pagefeed.core._base import (
    Int64Array,
    check_choice,
    check_flag,
    check_positive,
    distinct,
    joined_ranges,
    narrow_difference,
)
from pagefeed.core.dataset import PageIndex, Spans, lengths_of_rows, refuse_unknown_rows
from pagefeed.core.sequences.bundles import Bundles, bundle_keys, page_numbers
from pagefeed.core.sequences.cut import TokenCut
from pagefeed.core.sequences.lines import Lines, PackedRuns, block_starts
from pagefeed.core.sequences.sequence_index import (
    DocumentParts,
    Segments,
    SequenceIndex,
    SequenceLayout,
    bytes_of_pages,
)
from pagefeed.core.wiring import stored_counts
from pagefeed.errors import InvalidArgumentError

BLOCK_SEQUENCES = 200
"""Sequences' worth of tokens in a block, at least, if there are as many.

Less than one sequence of a block is padding: never more than 0.5 %.
"""
FEWEST_SEQUENCES, MOST_BYTES = 32, 128 << 20
"""Fewest sequences of a block, and bytes of other columns at which a block ends."""

PACKING = 2
"""Changes whenever documents of the same lengths are packed differently."""


@dataclass(frozen=True, repr=False)
class Packed(TokenCut):
    """Whole documents packed into sequences of ``length`` tokens.

    Documents are packed block by block. A block is a run of consecutive pages with
    tokens for at least 200 sequences; it covers several files if these are small. A
    block of T tokens becomes exactly ``ceil(T / length)`` sequences, so the index alone
    gives their number. If whole documents do not fit into that many sequences, one more
    document is split. The rest is padding: at most 0.5 %, or one sequence. A hash
    orders the sequences of a block, so that full ones do not come first. Every row gets
    its ``bos`` and ``eos``, even an empty or null row. A null token inside a row raises
    an error when the loader is made. No token is dropped.

    Args:
        length: Tokens of a sequence.
        eos: Token written after every row.
        bos: Token written before every row.
        learn_eos: For data with labels, such as chats. True: the label of
            ``eos`` is ``eos``, so a model learns to end there. False: ``eos`` carries
            no loss. Required with such data, unless the chat template writes ``eos``.
        split: ``"long"`` splits documents that are longer than ``length``. It also
            splits another, usually at most one a block, if the block would need one
            more sequence. ``"never"`` splits only documents longer than ``length``. The
            number of sequences then depends on the lengths of rows. Making a loader
            reads them once; with a cache folder they are read once for all processes.
        method: ``"best_fit"`` packs the longest documents first, each where it fits
            best. ``"first_fit"`` takes documents in file order, and packs each into the
            first sequence with room. ``"greedy"`` packs each into the last sequence, or
            a new one.
        join: ``"dataset"`` lets a block cover several small files. With ``"file"``
            every block, and so every sequence, has documents of one file only.
        multiple_of: Pad every document to a multiple of this length. Context
            parallelism over documents needs a multiple of ``2 * size``. Documents are
            then split as with ``"never"``.
        repeat_bos: Write ``bos`` before every part of a document longer than
            ``length``, so that each sequence begins with one. Documents are then split
            as with ``"never"``.

    Raises:
        InvalidArgumentError: If an argument cannot be right.

    Example:
        >>> Packed(4096, eos=2)
        Packed(length=4096, eos=2)
    """

    packs: ClassVar[bool] = True

    split: Literal["long", "never"] = field(default="long", kw_only=True)
    method: Literal["best_fit", "first_fit", "greedy"] = field(
        default="best_fit", kw_only=True
    )
    multiple_of: int = field(default=1, kw_only=True)
    repeat_bos: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        multiple_of = check_positive(self.multiple_of, "multiple_of")
        object.__setattr__(self, "multiple_of", multiple_of)
        if left := self.length % multiple_of:
            raise InvalidArgumentError(
                f"length={self.length} must be a multiple of multiple_of="
                f"{multiple_of}: give length={self.length - left + multiple_of}"
            )
        check_choice(self.split, ("long", "never"), "split")
        check_choice(self.method, ("best_fit", "first_fit", "greedy"), "method")
        if check_flag(self.repeat_bos, "repeat_bos") and self.bos is None:
            raise InvalidArgumentError("repeat_bos needs a bos: give bos=tok.bos")
        if self.repeat_bos and self.length < 2:
            raise InvalidArgumentError(
                f"repeat_bos leaves no room for tokens in length={self.length}: give 2 "
                "or more"
            )

    def index(self, spans: Spans) -> PackedIndex:
        """Pack the rows of ``spans`` into sequences."""
        return PackedIndex(spans, self)

    @property
    def layout(self) -> SequenceLayout:
        """Layout by which the data plane writes rows into sequences."""
        return SequenceLayout(
            bos=self.bos,
            eos=self.eos,
            learn_eos=self.learn_eos,
            packing=self.method,
            never_split=self.split == "never"
            or self.multiple_of > 1
            or self.repeat_bos,
            multiple_of=self.multiple_of,
            bos_every=self.length if self.repeat_bos else 0,
        )

    @property
    def identity(self) -> str:
        """Text that identifies the cut in states and caches."""
        return f"{super().identity}, version {PACKING}"


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Packed rows: arrays with an entry for each part of a row, in order; int64."""

    sequence: Int64Array
    """Sequence."""
    row: Int64Array
    """Number of the row."""
    first_token: Int64Array
    """First token of the row."""
    num_tokens: Int64Array
    """Number of tokens."""
    offset: Int64Array
    """Place of the first token in the sequence."""


def pack_lengths(
    lengths: npt.ArrayLike, length: int, layout: SequenceLayout
) -> PackedRows:
    """Pack rows of these lengths, as the data plane does.

    Args:
        lengths: Tokens of each row, separators included: int64 [rows].
        length: Tokens of a sequence.
        layout: Layout with the packing method.

    Example:
        >>> pack_lengths([5, 3], 8, SequenceLayout(packing="best_fit")).row
        array([0, 1])
    """
    packed = _core.pack(
        np.ascontiguousarray(lengths, dtype=np.int64),
        length,
        layout.packing_rule or {},
    )
    return PackedRows(*np.frombuffer(packed, dtype=np.int64).reshape(-1, 5).T)


def _least(length: int, index: PageIndex) -> int:
    """Return how many tokens a block holds at least."""
    if not index.bytes_beside:
        return BLOCK_SEQUENCES * length
    tokens = MOST_BYTES * index.num_values // index.bytes_beside
    tokens = max(tokens, FEWEST_SEQUENCES * length)
    return min(tokens, BLOCK_SEQUENCES * length)


class PackedIndex(PackedRuns, SequenceIndex):
    """The packed sequences of a dataset, numbered by block.

    It stores the first span and the first sequence of each block. These are 16 bytes
    for 200 sequences or more.
    """

    def __init__(self, spans: Spans, packed: Packed) -> None:
        refuse_unknown_rows(spans, "Packed()")
        self.spans = spans
        self.erased = spans.erased
        self.identity = packed.identity
        self.layout = packed.layout
        self.length = packed.length
        self.lines = Lines(spans, self.layout.per_row)
        least = _least(packed.length, spans.index)
        self.first_span = block_starts(self.lines, least, packed.join)
        self.packing: Callable[[int], PackedRows] = lru_cache(maxsize=4)(self._pack)
        """Returns the rows of a block, packed; reads its pages."""
        tokens = np.diff(self.lines.first(self.first_span))
        counts = -(-tokens // packed.length)
        self._num_repeated = 0
        """Times that ``bos`` is written again before the rest of a document."""
        if self.layout.never_split:
            most = np.stack([tokens] * (1 + packed.repeat_bos), axis=1)
            counts, *repeated = stored_counts(
                spans, repr(packed), self.first_span, self._count, most
            ).T
            self._num_repeated = int(np.sum(repeated))
        self._number(counts)
        self.num_padding_tokens = self.num_sequences * self.length - self.num_tokens

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self.first_span) - 1

    @property
    def num_tokens(self) -> int:
        """Tokens of all rows, separators included."""
        return self.lines.num_tokens + self._num_repeated

    @property
    def num_delivered_tokens(self) -> int:
        """Tokens of all rows: none is dropped."""
        return self.num_tokens

    def segments(self, sequences: Int64Array) -> Segments:
        """Return one segment for each of ``sequences``: a whole row of a bundle."""
        block = self.block_of(sequences)
        zeros = np.zeros(len(sequences), dtype=np.uint32)
        return Segments(
            sequence=np.arange(len(sequences)),
            page=bundle_keys(block),
            row=narrow_difference(sequences, self._first_sequence[block]),
            first_token=zeros,
            num_tokens=np.full(len(sequences), self.length, dtype=np.uint32),
            offset=zeros,
        )

    def bundles(self, keys: Int64Array) -> Bundles:
        """Return the blocks of these keys as bundles of pages."""
        block = page_numbers(keys)
        first, end = self.first_span[block], self.first_span[block + 1]
        before = self._first_sequence
        return Bundles(
            key=keys,
            num_sequences=narrow_difference(before[block + 1], before[block]),
            **self.spans.slices(first, end)._asdict(),
            **self._erased_runs(first, end),
        )

    def _erased_runs(
        self, first_span: Int64Array, end_span: Int64Array
    ) -> dict[str, Any]:
        """Return runs of erased rows, counted within each block of spans."""
        begins, ends = self.erased_runs.T
        offsets = np.zeros(len(first_span) + 1, dtype=np.uint32)
        if not len(begins):
            none = np.zeros(0, dtype=np.uint32)
            return {"erased_offsets": offsets, "erased_first": none, "erased_end": none}
        first_row = self.spans.first_rows(first_span)
        end_row = self.spans.first_rows(end_span)
        first = np.searchsorted(ends, first_row, side="right")
        last = np.maximum(np.searchsorted(begins, end_row, side="left"), first)
        np.cumsum(last - first, out=offsets[1:])
        run = joined_ranges(first, last)
        of = np.repeat(first_row, last - first)
        stop = np.minimum(ends[run], np.repeat(end_row, last - first))
        return {
            "erased_offsets": offsets,
            "erased_first": narrow_difference(np.maximum(begins[run], of), of),
            "erased_end": narrow_difference(stop, of),
        }

    def loaded_bytes(self, pages: Int64Array) -> Int64Array:
        """Return the decoded size of all pages of each bundle."""
        keys, inverse = np.unique(pages, return_inverse=True)
        bundles = self.bundles(keys)
        sizes = bytes_of_pages(self.spans, bundles.slice_page)
        before = np.concatenate([[0], np.cumsum(sizes)])
        of_bundle: Int64Array = np.diff(before[bundles.slice_offsets])
        return of_bundle[inverse]

    def parts(self, sequence: int) -> DocumentParts:
        """Return the documents in a sequence. Reads the pages of its block."""
        block = int(self.block_of(np.array([sequence]))[0])
        packing = self.packing(block)
        first_row = self.spans.first_rows(self.first_span[block : block + 1])
        here = packing.sequence == sequence - self._first_sequence[block]
        if self.erased is not None:
            here &= ~self.erased.holds(packing.row + first_row)
        row = packing.row[here] + first_row
        span = self.spans.spans_of_rows(row)
        page, page_row = self.spans.places(span)
        return DocumentParts(
            page=page,
            row=page_row + row - self.spans.first_rows(span),
            first_token=packing.first_token[here],
            num_tokens=packing.num_tokens[here],
            offset=packing.offset[here],
        )

    def row_parts(self, sequence: int, page: int, row: int) -> list[range] | None:
        """Return the tokens of a row in each sequence, see `SequenceIndex`."""
        infill = self.spans.index.infill
        if infill is None or infill.within == "document":
            return None
        block = int(self.block_of(np.array([sequence]))[0])
        packing = self.packing(block)
        span = self.spans.spans_at([page], [row])
        _, first = self.spans.places(span)
        before = self.spans.first_rows([*span, self.first_span[block]])
        row_of_block = int(before[0] - before[1]) + row - int(first[0])
        here = packing.row == row_of_block
        offsets = self.spans.index.row_offsets(page)
        most = int(offsets[row + 1] - offsets[row])
        first_token = packing.first_token[here]
        begin = self.layout.without_bos(first_token)
        end = self.layout.without_bos(first_token + packing.num_tokens[here])
        parts = np.clip([begin, end], 0, most).T
        return [range(*begin_end) for begin_end in np.sort(parts, axis=0).tolist()]

    def documents_of(self, sequences: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the rows with tokens in sequences, and the sequence of each."""
        block = self.block_of(sequences)
        rows, which = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for b in distinct(block).tolist():
            here, packing = np.flatnonzero(block == b), self.packing(b)
            by_sequence = np.argsort(packing.sequence, kind="stable")
            sequence_of_part = packing.sequence[by_sequence]
            local = sequences[here] - self._first_sequence[b]
            begin, end = np.searchsorted(sequence_of_part, [local, local + 1])
            own = packing.row[by_sequence][joined_ranges(begin, end)]
            rows.append(own + self.spans.first_rows(self.first_span[b]))
            which.append(np.repeat(here, end - begin))
        return np.concatenate(rows), np.concatenate(which)

    def sequences_of_row(self, row: int) -> Int64Array:
        """Return the sequences with tokens of a row; reads its block's pages."""
        span = int(self.spans.spans_of_rows([row])[0])
        block = int(np.searchsorted(self.first_span, span, side="right")) - 1
        packing = self.packing(block)
        row_of_block = row - self.spans.first_rows(self.first_span[block : block + 1])
        sequences: Int64Array = packing.sequence[packing.row == row_of_block].copy()
        sequences += self._first_sequence[block]
        return sequences

    def erased_sequences(self) -> Int64Array:
        """Return the sequences with tokens of erased rows; reads their blocks."""
        if self.erased is None:
            return np.empty(0, dtype=np.int64)
        borders = self.spans.first_rows(self.first_span)
        begins, ends = self.erased_runs.T
        first = np.searchsorted(borders, begins, side="right") - 1
        last = np.searchsorted(borders, ends, side="left")
        erased = [np.empty(0, dtype=np.int64)]
        for block in distinct(joined_ranges(first, last)).tolist():
            packing = self.packing(block)
            is_erased = self.erased.holds(packing.row + borders[block])
            erased.append(packing.sequence[is_erased] + self._first_sequence[block])
        return distinct(np.concatenate(erased))

    def lengths(self, block: int) -> Int64Array:
        """Return the tokens of the rows of a block, separators included: int64 [rows].

        Reads its pages.
        """
        first, stop = self.first_span[block : block + 2].tolist()
        return lengths_of_rows(self.spans, first, stop) + self.layout.per_row

    def _count(self, block: int) -> int | tuple[int, int]:
        """Return how many sequences a block has, and how often ``bos`` is repeated."""
        packing = self._pack(block)
        count = int(packing.sequence[-1]) + 1 if len(packing.sequence) else 0
        if not self.layout.bos_every:
            return count
        return count, int(packing.num_tokens.sum() - self.lengths(block).sum())

    def _pack(self, block: int) -> PackedRows:
        return pack_lengths(self.lengths(block), self.length, self.layout)
